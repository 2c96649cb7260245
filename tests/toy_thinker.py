"""A tiny vocabulary that thinks in many ways, and a grammar for its answers."""

from __future__ import annotations

import re

import numpy as np

from spec_cli.free_reasoning import FreeReasoning, ThinkingTokens
from spec_cli.reasoning import Marks, ReasoningFormat, ReasoningSplitter, Stage
from tests.toy_constraint import Tokens, Toy

END = 0  # the end-of-generation token
MARKS = Marks("<t>", "</t>", skip="<a>")
TEXTS = (
    *("", "a", "b", "ab", "<t>", "</t>", "<a>"),
    *("<", "/", "t", ">", "t>", " ", "\n\n", " a", "</t>\n", "</t>a", ">a", "<t>b", "é"),
)
PIECES = (*(text.encode() for text in TEXTS), b"\xc3", b"\xa9", b"</t>\xc3", b"")
CONTROL = len(PIECES) - 1  # a control token, of no text


def follows(text: str) -> bool:
    """Whether an answer may begin with `text`: `ab`, some times, perhaps with a space between."""
    return re.fullmatch(r"(ab ?)*(a?)", text) is not None


def is_whole(text: str) -> bool:
    """Whether it may be all of it."""
    return re.fullmatch(r"(ab ?)+", text) is not None


def text_of(tokens: Tokens) -> str:
    return b"".join(PIECES[token] for token in tokens).decode(errors="replace")


def _rule(tokens: Tokens, x: int) -> bool:
    if x == END:
        return is_whole(text_of(tokens))
    return bool(PIECES[x]) and follows(text_of((*tokens, x)))


def answer_rule() -> Toy:
    """What an answer may be."""
    return Toy(_rule, len(PIECES), end=END)


def thinker(*, has_begun: bool) -> FreeReasoning:
    """What may follow a prompt that ends within a block of reasoning, or does not."""
    reasoning = ReasoningFormat(MARKS, has_begun, control={})
    splitter = ReasoningSplitter(MARKS, has_begun=has_begun)
    start = answer_rule()
    return FreeReasoning(
        ThinkingTokens(reasoning, PIECES, np.array([END])),
        splitter,
        start=start,
        grammar=start if splitter.stage is Stage.OPEN else None,
    )
