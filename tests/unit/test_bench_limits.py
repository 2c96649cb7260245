"""The limits against every way to decode a text, and what the drafters would have guessed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.bench.limits import Source, least_time, limits, runs_from_matches, runs_of
from spec_cli.spec.costs import PassTimes
from spec_cli.spec.interfaces import Budget, Draft

FLAT = PassTimes((1, 16), (1.0, 1.0))
STEEP = PassTimes((1, 2, 4), (1.0, 1.5, 4.0))


def test_a_text_without_right_guesses_takes_as_long_as_plain_decoding() -> None:
    assert least_time([Source([0, 0, 0], 0.1)], FLAT, 4) == 3.0
    found = limits([Source([0, 0, 0], 0.1)], FLAT, 4)
    assert (found.oracle_stop, found.free_draft) == (1.0, 1.0)


def test_limits_worked_out_by_hand() -> None:
    # 0 drafts 1, 2, 3 in one pass: 1 + 3 * 0.2; then the last token, plain.
    source = Source([3, 2, 1, 0, 0], 0.2)
    assert least_time([source], FLAT, 4) == pytest.approx(2.6)
    found = limits([source], FLAT, 4)
    assert found.oracle_stop == pytest.approx(5 / 2.6)
    assert found.free_draft == pytest.approx(5 / 2)


def test_where_wide_passes_cost_too_much_the_oracle_drafts_less() -> None:
    # Pairs at 1.5 each: a pass over 4 rows would take 4.
    assert least_time([Source([3, 2, 1, 0], 0.0)], STEEP, 4) == pytest.approx(3.0)
    assert least_time([Source([3, 2, 1, 0], 0.6)], STEEP, 4) == pytest.approx(4.0)


def test_nothing_is_drafted_beyond_the_end_or_the_longest_draft() -> None:
    assert least_time([Source([9, 9, 9, 9], 0.0)], FLAT, 9) == 1.0
    assert least_time([Source([9, 9, 9, 9], 0.0)], FLAT, 1) == 2.0
    assert least_time([Source([9], 0.5)], FLAT, 9) == 1.0


def test_sources_take_turns_within_a_round() -> None:
    copies, model = Source([1, 0, 0, 0], 0.0), Source([0, 1, 0, 0], 0.25)
    # Token 0 is copied, token 1 guessed: three tokens in one pass, then a plain step.
    assert least_time([copies, model], FLAT, 4) == pytest.approx(2.25)
    assert least_time([copies], FLAT, 4) == pytest.approx(3.0)


def every_way(
    sources: Sequence[Source], times: PassTimes, k_max: int, start: int = 0
) -> Iterator[float]:
    """The time of every sequence of rounds with right guesses only."""
    n = len(sources[0].runs)
    if start == n:
        yield 0.0
        return
    for j in range(min(k_max, n - 1 - start) + 1):
        for draft_s in every_draft(sources, start, start, j):
            for rest_s in every_way(sources, times, k_max, start + j + 1):
                yield draft_s + times(j + 1) + rest_s


def every_draft(sources: Sequence[Source], start: int, at: int, n: int) -> Iterator[float]:
    """The time of every draft of `n` tokens from `at` on in a round that began at `start`."""
    if n == 0:
        yield 0.0
        return
    for source in sources:
        if any(start <= s <= at < s + source.runs[s] for s in range(start, at + 1)):
            for rest_s in every_draft(sources, start, at + 1, n - 1):
                yield source.token_s + rest_s


PRICES = st.integers(0, 20).map(lambda n: n / 8)
TIMES = st.lists(st.integers(1, 40).map(lambda n: n / 8), min_size=4, max_size=4)


@given(st.data(), st.integers(1, 6), st.integers(1, 2), TIMES, st.integers(1, 3))
def test_the_least_time_is_that_of_the_best_of_all_ways(
    data: st.DataObject, n: int, n_sources: int, seconds: list[float], k_max: int
) -> None:
    runs = st.lists(st.integers(0, 3), min_size=n, max_size=n)
    sources = [Source(data.draw(runs), data.draw(PRICES)) for _ in range(n_sources)]
    times = PassTimes((1, 2, 3, 4), tuple(seconds))
    assert least_time(sources, times, k_max) == pytest.approx(min(every_way(sources, times, k_max)))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), PRICES, TIMES)
def test_free_guesses_are_never_worse_and_neither_loses(
    runs: list[int], price: float, seconds: list[float]
) -> None:
    found = limits([Source(runs, price)], PassTimes((1, 2, 3, 4), tuple(seconds)), 4)
    assert found.free_draft >= found.oracle_stop >= 1 - 1e-12


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 6))
def test_a_run_is_as_many_matches_as_follow_each_other(matches: list[bool], k_max: int) -> None:
    runs = runs_from_matches(matches, k_max)
    assert len(runs) == len(matches)
    for i, run in enumerate(runs):
        assert all(matches[i : i + run]) and run <= k_max
        assert run == k_max or i + run == len(matches) or not matches[i + run]


class Counting:
    """Guesses that each token is one more than the last; checks what it is shown."""

    def __init__(self) -> None:
        self.known: list[int] = []
        self.widest = 0

    def begin(self, prompt: Sequence[int]) -> None:
        self.known = list(prompt)

    def n_behind(self, context: Sequence[int]) -> int:
        return 0

    def propose(self, context: Sequence[int], budget: Budget) -> Draft:
        assert list(context) == self.known
        self.widest = max(self.widest, budget.room)
        return Draft(tuple(context[-1] + 1 + i for i in range(budget.room)))

    def commit(self, context: Sequence[int]) -> None:
        assert list(context[:-1]) == self.known
        self.known = list(context)


def test_the_drafter_is_replayed_along_the_text() -> None:
    drafter = Counting()
    assert runs_of(drafter, [5, 6], [7, 8, 3, 4, 5, 9], k_max=2) == [2, 1, 0, 2, 1, 0]
    assert drafter.known == [5, 6, 7, 8, 3, 4, 5, 9] and drafter.widest == 2
