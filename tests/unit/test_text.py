"""Stop strings and UTF-8: what is released, and when."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.events import FinishReason, Origin, TextDelta
from spec_cli.reasoning import Marks, ReasoningFormat
from spec_cli.text import Opening, Output, StopStrings

texts = st.text(alphabet="ab\n", max_size=30)


def split(text: str, cuts: list[int]) -> list[str]:
    points = sorted({0, len(text), *(c % (len(text) + 1) for c in cuts)})
    return [text[a:b] for a, b in itertools.pairwise(points)]


@given(text=texts, stops=st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3),
       cuts=st.lists(st.integers(0, 99)))  # fmt: skip
def test_released_and_held_text_add_up_to_the_text_before_the_first_stop(
    text: str, stops: list[str], cuts: list[int]
) -> None:
    search, released, matched = StopStrings(stops), "", None
    for part in split(text, cuts):
        safe, matched = search.push(part)
        released += safe
        if matched:
            break
    if matched is None:
        released += search.flush()
        assert released == text
        assert not any(stop in text for stop in stops)
    else:
        assert (released + matched) == text[: len(released) + len(matched)]
        assert not any(stop in released for stop in stops)


@given(text=texts, stop=st.text("ab\n", min_size=1, max_size=4))
def test_no_part_of_a_stop_string_is_released_before_it_is_decided(text: str, stop: str) -> None:
    search, released = StopStrings([stop]), ""
    for character in text:
        safe, matched = search.push(character)
        released += safe
        assert stop not in released
        if matched:
            break
    assert text.startswith(released)
    if stop in text:
        assert released == text[: text.index(stop)]


def output(pieces: list[bytes], *, stop: list[str] | None = None, max_tokens: int = 99) -> Output:
    return Output(lambda t: pieces[t], lambda t: pieces[t] == b"", stop=stop or [],
                  max_tokens=max_tokens)  # fmt: skip


def push_all(out: Output, n: int) -> list[TextDelta]:
    deltas: list[TextDelta] = []
    for token in range(n):
        if out.finish_reason:
            break
        out.push(token, Origin.PLAIN)
        deltas += out.drain()
    if out.finish_reason is None:
        out.finish(FinishReason.LENGTH)
    return deltas + out.drain()


@given(st.text(min_size=1), st.lists(st.integers(0, 200)))
def test_bytes_split_anywhere_come_out_as_whole_characters(text: str, cuts: list[int]) -> None:
    raw = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()
    points = sorted({0, len(raw), *(c % (len(raw) + 1) for c in cuts)})
    pieces = [raw[a:b] for a, b in itertools.pairwise(points)]
    deltas = push_all(output(pieces), len(pieces))
    assert "".join(d.text for d in deltas) == raw.decode()


def test_a_character_cut_by_the_token_limit_is_dropped() -> None:
    raw = "a🙂".encode()
    out = output([raw[:3], raw[3:]], max_tokens=1)
    assert "".join(d.text for d in push_all(out, 2)) == "a"


def test_invalid_bytes_are_replaced_and_the_text_goes_on() -> None:
    deltas = push_all(output([b"a\xff", b"b"]), 2)
    assert "".join(d.text for d in deltas) == "a\ufffdb"


def test_a_delta_names_the_tokens_and_the_origin_that_completed_it() -> None:
    smile = "🙂".encode()
    out = output([smile[:2], smile[2:], b"!"])
    out.push(0, Origin.CORRECTION)
    out.push(1, Origin.DRAFT)
    out.push(2, Origin.BONUS)
    assert out.drain() == [
        TextDelta("🙂", (0, 1), Origin.DRAFT),
        TextDelta("!", (2,), Origin.BONUS),
    ]


def test_text_held_for_a_stop_string_keeps_its_own_origin() -> None:
    out = output([b"xE", b"N", b"y"], stop=["END"])
    for token, origin in enumerate((Origin.PLAIN, Origin.DRAFT, Origin.BONUS)):
        out.push(token, origin)
    assert [(d.text, d.tokens, d.origin) for d in out.drain()] == [
        ("x", (0,), Origin.PLAIN),
        ("E", (), Origin.PLAIN),
        ("N", (1,), Origin.DRAFT),
        ("y", (2,), Origin.BONUS),
    ]


@pytest.mark.parametrize("max_tokens", [0, -3])
def test_no_room_means_no_token(max_tokens: int) -> None:
    out = output([b"a"], max_tokens=max_tokens)
    assert out.room == 0 and out.finish_reason is FinishReason.LENGTH


def test_the_given_beginning_comes_out_whole_where_no_token_follows() -> None:
    """Even where it could have become a mark."""
    reasoning = ReasoningFormat(Marks("<think>", "</think>"), has_begun=False, control={})
    for text in ("Yes", "<th"):
        opening = Opening(text, reasoning)
        out = Output(lambda t: b"", lambda t: False, max_tokens=0, opening=opening)
        assert [(d.text, d.origin) for d in out.drain()] == [(text, Origin.GIVEN)]


@pytest.mark.parametrize(("given", "stops"), [("[", ["["]), ("[", ["[y"]), ("Yes", ["Y", "sy"])])
def test_no_stop_string_is_looked_for_in_the_given_beginning(given: str, stops: list[str]) -> None:
    """Even where the beginning could have become a mark, and comes out with the first token."""
    reasoning = ReasoningFormat(Marks("[THINK]", "[/THINK]"), has_begun=False, control={})
    out = Output(
        lambda t: b"y",
        lambda t: False,
        stop=stops,
        max_tokens=2,
        opening=Opening(given, reasoning),
    )
    out.push(1, Origin.PLAIN)
    out.push(1, Origin.PLAIN)
    assert "".join(delta.text for delta in out.drain()) == f"{given}yy"
    assert out.finish_reason is FinishReason.LENGTH


def test_text_that_only_began_like_a_stop_string_is_released_at_the_end() -> None:
    out = output([b"aEN", b""], stop=["END"])
    assert "".join(d.text for d in push_all(out, 2)) == "aEN"
    assert out.finish_reason is FinishReason.STOP
