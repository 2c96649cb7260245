"""Reasoning and answer: told apart alike however the text comes, and shown whole."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.events import FinishReason, Origin, ReasoningDelta, TextDelta
from spec_cli.reasoning import (
    KNOWN_MARKS,
    Marks,
    Part,
    ReasoningFormat,
    ReasoningSplitter,
    find_format,
)
from spec_cli.text import Opening, Output

MARKS = Marks("<t>", "</t>", skip="<a>")
THINK = KNOWN_MARKS[0]
texts = st.lists(st.sampled_from(["<t>", "</t>", "<a>", "<", "/", "t>", " ", "\n", "x", "y"])).map(
    "".join
)


def cut(text: str, cuts: Sequence[int]) -> list[str]:
    points = sorted({0, len(text), *(c % (len(text) + 1) for c in cuts)})
    return [text[a:b] for a, b in itertools.pairwise(points)]


def split(pieces: Sequence[str], *, has_begun: bool) -> list[tuple[Part, str]]:
    splitter = ReasoningSplitter(MARKS, has_begun=has_begun)
    return [s for piece in pieces for s in splitter.push(piece)] + splitter.flush()


def of(part: Part, stretches: Sequence[tuple[Part, str]]) -> str:
    return "".join(text for kind, text in stretches if kind is part)


def expected(text: str, *, has_begun: bool) -> tuple[str, str]:
    """Reasoning and answer by the definition, with the whole text at hand."""
    if not has_begun:
        if skipped := re.match(r"\s*<a>\s*", text):
            return "", text[skipped.end() :]
        begun = re.match(r"\s*<t>", text)
        if begun is None:
            return "", text
        text = text[begun.end() :]
    reasoning, mark, answer = text.lstrip().partition("</t>")
    return (reasoning.rstrip(), answer.lstrip()) if mark else (reasoning, "")


@given(text=texts, cuts=st.lists(st.integers(0, 99)), has_begun=st.booleans())
def test_any_cutting_of_the_text_gives_the_split_that_is_defined(
    text: str, cuts: list[int], has_begun: bool
) -> None:
    stretches = split(cut(text, cuts), has_begun=has_begun)
    found = of(Part.REASONING, stretches), of(Part.ANSWER, stretches)
    assert found == expected(text, has_begun=has_begun)


@given(text=texts, cuts=st.lists(st.integers(0, 99)), has_begun=st.booleans())
def test_every_character_comes_out_once_and_in_order(
    text: str, cuts: list[int], has_begun: bool
) -> None:
    assert "".join(s for _, s in split(cut(text, cuts), has_begun=has_begun)) == text


@given(text=texts, has_begun=st.booleans())
def test_nothing_is_given_out_before_it_is_decided(text: str, has_begun: bool) -> None:
    splitter = ReasoningSplitter(MARKS, has_begun=has_begun)
    reasoning = answer = ""
    whole = expected(text, has_begun=has_begun)
    for character in text:
        stretches = splitter.push(character)
        reasoning += of(Part.REASONING, stretches)
        answer += of(Part.ANSWER, stretches)
        assert whole[0].startswith(reasoning) and whole[1].startswith(answer)


@given(text=st.text(), cuts=st.lists(st.integers(0, 99)))
def test_a_text_without_marks_is_an_answer_and_not_one_character_changes(
    text: str, cuts: list[int]
) -> None:
    splitter = ReasoningSplitter(THINK, has_begun=False)
    pieces = cut(text.replace("<", ""), cuts)
    stretches = [s for piece in pieces for s in splitter.push(piece)] + splitter.flush()
    assert of(Part.ANSWER, stretches) == "".join(pieces)


def test_a_mark_within_the_answer_is_text() -> None:
    stretches = split(["<t>a</t>b <t>c</t>"], has_begun=False)
    assert (of(Part.REASONING, stretches), of(Part.ANSWER, stretches)) == ("a", "b <t>c</t>")


@pytest.mark.parametrize(
    ("text", "is_reasoning"), [("", False), ("<t>", True), ("<t> a", True), ("<t>a</t>", False)]
)
def test_a_block_is_open_until_its_mark_comes(text: str, is_reasoning: bool) -> None:
    splitter = ReasoningSplitter(MARKS, has_begun=False)
    splitter.push(text)
    assert splitter.is_reasoning == is_reasoning


class Pieces:
    """A vocabulary of given tokens; control tokens have no text. Letters are tokens, too."""

    def __init__(self, *texts: str, control: Sequence[str] = ()) -> None:
        self._texts = [*texts, *control, *map(chr, range(32, 127)), "\n"]
        self._control = set(control)

    def tokenize(self, text: str, *, special: bool, bos: bool) -> list[int]:
        tokens = []
        while text:
            token = max((t for t in self._texts if text.startswith(t)), key=len)
            tokens.append(self._texts.index(token))
            text = text[len(token) :]
        return tokens

    def piece(self, token: int) -> bytes:
        text = self._texts[token]
        return b"" if text in self._control else text.encode()

    def token_text(self, token: int) -> str:
        return self._texts[token]


def test_marks_are_found_where_the_template_names_one_or_both_are_tokens() -> None:
    plain, thinking = Pieces(), Pieces("<think>", "</think>")
    assert find_format(plain, "{{ messages }}", "hi") is None
    assert find_format(Pieces("<think>"), "", "hi") is None
    assert find_format(plain, "content.split('</think>')", "hi") == ReasoningFormat(
        THINK, False, {}
    )
    assert find_format(thinking, "", "hi") == ReasoningFormat(THINK, False, {})


@pytest.mark.parametrize(
    ("prompt", "has_begun"),
    [("<think>\n", True), ("<think>\n\n</think>\n\n", False), ("say <think> twice", False)],
)
def test_a_prompt_may_end_within_the_block(prompt: str, has_begun: bool) -> None:
    found = find_format(Pieces("<think>", "</think>"), "", prompt)
    assert found is not None and found.has_begun == has_begun


def test_control_tokens_get_the_texts_that_marks_are_made_of() -> None:
    control = ("<|channel|>", "<|message|>", "<|end|>", "<|start|>")
    vocabulary = Pieces(control=control)
    found = find_format(vocabulary, "{{ '<|channel|>analysis<|message|>' }}", "<|start|>assistant")
    assert found is not None
    assert set(found.control.values()) == {text.encode() for text in control}


def output(
    text: str, *, marks: Marks = MARKS, given: str = "", stop: Sequence[str] = (), n: int = 10_000
) -> tuple[Output, list[TextDelta | ReasoningDelta]]:
    """What comes of a text whose tokens are its characters; token 0 ends it."""
    out = Output(
        lambda token: chr(token).encode(),
        lambda token: token == 0,
        stop=stop,
        max_tokens=n,
        opening=Opening(given, ReasoningFormat(marks, has_begun=False, control={})),
    )
    deltas = out.drain()
    for character in f"{text}\0":
        out.push(ord(character), Origin.PLAIN)
        deltas += out.drain()
        if out.finish_reason:
            break
    return out, deltas


def shown(deltas: Sequence[TextDelta | ReasoningDelta]) -> tuple[str, str]:
    reasoning = "".join(d.text for d in deltas if isinstance(d, ReasoningDelta))
    return reasoning, "".join(d.text for d in deltas if isinstance(d, TextDelta))


@given(text=texts, stop=st.lists(st.text("xy<t>\n ", min_size=1, max_size=3), max_size=1))
def test_stop_strings_end_the_answer_and_never_the_reasoning(text: str, stop: list[str]) -> None:
    out, deltas = output(text, stop=stop)
    reasoning, answer = expected(text, has_begun=False)
    ends = [at for s in stop if (at := answer.find(s)) >= 0]
    assert shown(deltas) == (reasoning, answer[: min(ends, default=None)])
    assert (out.finish_reason is FinishReason.STOP_STRING) == bool(ends)


@given(text=texts, given_text=texts, stop=st.lists(st.text("xy", min_size=1), max_size=1))
def test_every_token_is_in_exactly_one_delta(text: str, given_text: str, stop: list[str]) -> None:
    out, deltas = output(text, given=given_text, stop=stop)
    assert [token for delta in deltas for token in delta.tokens] == out.tokens


@given(given_text=texts, text=texts)
def test_what_is_given_is_the_beginning_of_the_text(given_text: str, text: str) -> None:
    _, deltas = output(text, given=given_text)
    assert shown(deltas) == expected(given_text + text, has_begun=False)


def test_no_stop_string_is_looked_for_in_what_is_given() -> None:
    out, deltas = output("cxd", given="axb", stop=["x"])
    assert shown(deltas) == ("", "axbc")
    assert out.stop == "x"
    assert deltas[0] == TextDelta("axb", (), Origin.GIVEN)


def test_an_answer_that_was_not_begun_is_all_reasoning() -> None:
    out, deltas = output("<t>hm ", n=6)
    assert shown(deltas) == ("hm ", "")
    assert out.is_reasoning and out.finish_reason is FinishReason.LENGTH


def test_marks_of_several_control_tokens_are_recognised() -> None:
    marks, names = KNOWN_MARKS[-1], ("<|channel|>", "<|message|>", "<|end|>", "<|start|>")
    vocabulary = Pieces(control=names)
    out = Output(
        vocabulary.piece,
        lambda _: False,
        max_tokens=999,
        opening=Opening(reasoning=find_format(vocabulary, marks.begin, "")),
    )
    text = f"{marks.begin}We add.{marks.end}It is 4."
    for token in vocabulary.tokenize(text, special=True, bos=False):
        out.push(token, Origin.PLAIN)
    out.finish(FinishReason.STOP)
    assert shown(out.drain()) == ("We add.", "It is 4.")
