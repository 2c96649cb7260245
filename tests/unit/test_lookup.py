"""Finding where the end of a text occurred before, against a search of all places."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.spec.lookup import BREAK, LONGEST, SHORT, Copy, MatchIndex

texts = st.lists(st.integers(0, 3), max_size=40)


def index_of(text: Sequence[int]) -> MatchIndex:
    index = MatchIndex()
    for token in text:
        index.append(token)
    return index


def copied(text: Sequence[int], drafted: Sequence[int] = (), n: int = 8) -> list[int]:
    return [copy.token for copy in index_of(text).continuation(drafted, n)]


def longest_matches(text: Sequence[int], drafted: Sequence[int]) -> tuple[int, list[int]]:
    """The length of the longest matches and the places after them, latest first, by trying all."""
    whole = [*text, *drafted]
    lengths = {
        at: next(
            (n for n in range(at, 0, -1) if n <= LONGEST and text[at - n : at] == whole[-n:]), 0
        )
        for at in range(1, len(text))
    }
    longest = max(lengths.values(), default=0)
    if longest < SHORT:
        return 0, []
    return longest, sorted((at for at, n in lengths.items() if n == longest), reverse=True)


@given(text=texts, drafted=st.lists(st.integers(0, 3), max_size=6))
def test_the_first_guess_is_what_most_of_the_longest_matches_were_followed_by(
    text: list[int], drafted: list[int]
) -> None:
    length, places = longest_matches(text, drafted)
    found = list(index_of(text).continuation(drafted, 1))
    if not places:
        assert found == []
        return
    follows = [text[at] for at in places]
    (copy,) = found
    assert (copy.length, copy.n_matches) == (length, len(places))
    assert copy.n_votes == follows.count(copy.token) == max(map(follows.count, follows))
    assert copy.token == next(t for t in follows if follows.count(t) == copy.n_votes)


def test_a_copy_goes_on_with_what_it_copied_where_the_text_ends() -> None:
    assert copied([1, 2, 3, 1, 2], n=7) == [3, 1, 2, 3, 1, 2, 3]


def test_those_that_agree_go_on_voting() -> None:
    text = [8, 9, 1, 2, 3, 0, 8, 9, 1, 2, 4, 0, 8, 9, 1, 2, 3, 7, 5, 8, 9]
    found = list(index_of(text).continuation((), 4))
    assert found[:3] == [Copy(1, 2, 3, 3), Copy(2, 3, 3, 3), Copy(3, 4, 2, 3)]
    assert found[3] == Copy(7, 5, 1, 2)  # one against one: the later occurrence


def test_drafted_tokens_count_as_the_end_of_the_text() -> None:
    text = [1, 2, 3, 4, 5, 6]
    assert copied(text, [2, 3], n=2) == [4, 5]
    assert copied(text, [3, 2], n=2) == []


def test_a_single_token_is_no_match() -> None:
    assert copied([1, 2, 3, 2]) == []


@pytest.mark.parametrize("text", [[], [1], [1, 1]])
def test_a_text_without_a_past_has_no_match(text: list[int]) -> None:
    assert copied(text) == []


def test_a_long_match_is_found_behind_many_short_ones() -> None:
    passage = [10, 11, 12, 13, 14, 15, 1, 2, 77]
    noise = [token for i in range(200) for token in (1, 2, 20 + i)]
    assert copied([*passage, *noise, *passage[:-1]], n=1) == [77]


def test_the_work_for_a_token_does_not_grow_with_the_text() -> None:
    """Lookups are counted, not timed: a chain of equal places is walked only so far."""

    class Counted(list[int]):
        n_looked_at = 0

        def __getitem__(self, at):  # type: ignore[no-untyped-def]
            Counted.n_looked_at += 1
            return super().__getitem__(at)

    def work(n: int) -> int:
        index = index_of([1, 2, 3] * n)
        index._text = Counted(index._text)
        Counted.n_looked_at = 0
        list(index.continuation((), 4))
        return Counted.n_looked_at

    assert work(4000) == work(400) > 0


def test_nothing_is_copied_beyond_the_end_of_a_text() -> None:
    assert copied([1, 2, 3, 4, BREAK, 9, 1, 2]) == [3, 4]
    assert copied([1, 2, BREAK, 9, 1, 2]) == []
