"""Telling a model's reasoning from its answer.

A block of reasoning stands at the beginning of an answer, between two marks. Marks that come later
are text like any other: the answer may speak of them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol, Self


def n_undecided(text: str, marks: Sequence[str]) -> int:
    """Length of the longest tail of `text` that is the beginning of one of `marks`, but not all."""
    longest = max((len(mark) - 1 for mark in marks), default=0)
    for n in range(min(longest, len(text)), 0, -1):
        if any(mark.startswith(text[-n:]) for mark in marks):
            return n
    return 0


class Part(Enum):
    """What a stretch of text is."""

    REASONING = auto()
    ANSWER = auto()
    MARK = auto()  # a mark, or the white space around one: not shown


@dataclass(frozen=True, slots=True)
class Marks:
    """The texts around a block of reasoning; `skip` begins an answer without one, if not empty."""

    begin: str
    end: str
    skip: str = ""


KNOWN_MARKS = (
    Marks("<think>", "</think>"),  # Qwen, DeepSeek, SmolLM3, GLM and most others
    Marks("[THINK]", "[/THINK]"),  # Magistral
    Marks("<|START_THINKING|>", "<|END_THINKING|>"),  # Command A
    Marks("<seed:think>", "</seed:think>"),  # Seed-OSS
    Marks(  # gpt-oss
        "<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
        skip="<|channel|>final<|message|>",
    ),
)


@dataclass(frozen=True, slots=True)
class ReasoningFormat:
    """How one answer marks its reasoning.

    `has_begun`: the prompt ends within the block. `control` gives the texts of those control
    tokens which marks are made of; a control token has no text otherwise.
    """

    marks: Marks
    has_begun: bool
    control: Mapping[int, bytes]


class Vocabulary(Protocol):
    """What is asked of the target's vocabulary."""

    def tokenize(self, text: str, *, special: bool, bos: bool) -> list[int]:
        """Token ids of `text`, control tokens in it recognised where `special`."""

    def piece(self, token: int) -> bytes:
        """The bytes that a token stands for; empty for control tokens."""

    def token_text(self, token: int) -> str:
        """The vocabulary's entry of a token."""


def find_format(vocabulary: Vocabulary, template: str, prompt: str) -> ReasoningFormat | None:
    """How the model marks its reasoning after the rendered `prompt`; None where it has none.

    Marks count where the template's source names one, or where both are tokens.
    """
    for marks in KNOWN_MARKS:
        tokens = {
            text: vocabulary.tokenize(text, special=True, bos=False)
            for text in (marks.begin, marks.end, marks.skip)
        }
        are_tokens = len(tokens[marks.begin]) == len(tokens[marks.end]) == 1
        if are_tokens or marks.begin in template or marks.end in template:
            control = {
                token: vocabulary.token_text(token).encode()
                for token in set().union(*tokens.values())
                if not vocabulary.piece(token)
            }
            return ReasoningFormat(marks, prompt.rstrip().endswith(marks.begin), control)
    return None


class Stage(Enum):
    """How far a text has come."""

    OPEN = auto()  # nothing but white space yet: a block may begin
    BEGUN = auto()  # after the first mark: white space is dropped
    REASONING = auto()
    ENDED = auto()  # after the second mark: white space is dropped
    ANSWER = auto()


Stretch = tuple[Part, str]


class ReasoningSplitter:
    """Cuts a stream of text into stretches of reasoning and of answer, and what parts them.

    Invariant: the stretches given out, and what is held back, are the text pushed so far; what is
    held back could still turn out to be a mark or the white space around one.
    """

    def __init__(self, marks: Marks, *, has_begun: bool) -> None:
        self._marks = marks
        self._stage = Stage.BEGUN if has_begun else Stage.OPEN
        self._held = ""

    @property
    def stage(self) -> Stage:
        """How far the text has come."""
        return self._stage

    @property
    def held(self) -> str:
        """The end of the text, which is not decided yet."""
        return self._held

    @property
    def is_reasoning(self) -> bool:
        """Whether the block has begun and has not ended."""
        return self._stage in (Stage.BEGUN, Stage.REASONING)

    def copy(self) -> Self:
        """One that goes on by itself."""
        return copy.copy(self)

    def push(self, text: str) -> list[Stretch]:
        """Add `text`. Returns what is decided now."""
        self._held += text
        stretches: list[Stretch] = []
        before = None
        while self._held and self._stage is not before:
            before = self._stage
            stretches += self._step()
        return stretches

    def flush(self) -> list[Stretch]:
        """What was held back: no mark will come any more."""
        part = {Stage.OPEN: Part.ANSWER, Stage.REASONING: Part.REASONING}
        return self._take(part.get(self._stage, Part.MARK), len(self._held))

    def _step(self) -> list[Stretch]:
        """What the present stage makes of the text; it may be left for another."""
        match self._stage:
            case Stage.OPEN:
                return self._open()
            case Stage.BEGUN:
                return self._drop_space(Stage.REASONING)
            case Stage.REASONING:
                return self._reasoning()
            case Stage.ENDED:
                return self._drop_space(Stage.ANSWER)
            case Stage.ANSWER:
                return self._take(Part.ANSWER, len(self._held))

    def _open(self) -> list[Stretch]:
        """A mark, a text that is none, or too little to tell."""
        text = self._held.lstrip()
        n_space = len(self._held) - len(text)
        marks = self._marks
        for mark, stage in ((marks.begin, Stage.BEGUN), (marks.skip, Stage.ENDED)):
            if mark and text.startswith(mark):
                self._stage = stage
                return self._take(Part.MARK, n_space + len(mark))
        if not any(mark.startswith(text) for mark in (marks.begin, marks.skip)):
            self._stage = Stage.ANSWER
        return []

    def _drop_space(self, following: Stage) -> list[Stretch]:
        n_space = len(self._held) - len(self._held.lstrip())
        if n_space < len(self._held):
            self._stage = following
        return self._take(Part.MARK, n_space)

    def _reasoning(self) -> list[Stretch]:
        """Up to the mark; without one, up to what may become it or the space before it."""
        mark = self._marks.end
        at = self._held.find(mark)
        if at < 0:
            n_decided = len(self._held) - n_undecided(self._held, [mark])
            return self._take(Part.REASONING, len(self._held[:n_decided].rstrip()))
        self._stage = Stage.ENDED
        n_text = len(self._held[:at].rstrip())
        text = self._take(Part.REASONING, n_text)
        return [*text, *self._take(Part.MARK, at - n_text + len(mark))]

    def _take(self, part: Part, n: int) -> list[Stretch]:
        text, self._held = self._held[:n], self._held[n:]
        return [(part, text)] if text else []
