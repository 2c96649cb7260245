"""Answering requests one after the other with a loaded pair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from spec_cli.batch.request import Failure, Request
from spec_cli.errors import Cancelled, ResourceError, SpecError, UsageError
from spec_cli.events import (
    Event,
    Finished,
    FinishReason,
    PromptProgress,
    ReasoningDelta,
    TextDelta,
)
from spec_cli.session import Session
from spec_cli.settings import GenerationSettings
from spec_cli.text import Opening

Encode = Callable[[Request], tuple[list[int], Opening]]
"""The token ids of a request's prompt, and how its answer begins.

Raises UsageError or ModelError."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The whole text for a request, what the model thought before, and how it came about."""

    request: Request
    text: str
    reasoning: str
    finished: Finished


Outcome = Answer | Failure


class Gathered:
    """The text of an answer, while it comes."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []

    def add(self, event: Event) -> None:
        """Take what `event` has of it."""
        match event:
            case TextDelta(text=text):
                self._text.append(text)
            case ReasoningDelta(text=text):
                self._reasoning.append(text)
            case _:
                pass

    def answer(self, request: Request, finished: Finished) -> Answer:
        """The whole of it."""
        return Answer(request, "".join(self._text), "".join(self._reasoning), finished)


def prepared(
    session: Session, request: Request, encode: Encode
) -> tuple[list[int], Opening, GenerationSettings]:
    """What `encode` gives, and the settings that a run of this request alone has.

    Those have a limit: other prompts may have left a larger context than this one gets alone.
    Raises UsageError or ModelError.
    """
    (tokens, opening), asked = encode(request), request.generation
    if not tokens:
        raise UsageError("the prompt has no tokens")
    room = session.room(len(tokens), asked.max_tokens)
    limit = room if asked.max_tokens is None else min(room, asked.max_tokens)
    return tokens, opening, replace(asked, max_tokens=limit)


def answer(
    session: Session, request: Request, encode: Encode, watch: Callable[[Event], None]
) -> Outcome:
    """The answer that a run of this request alone gives; `watch` sees its events.

    What is wrong with the request itself makes a Failure. Raises ResourceError, and Cancelled when
    the user stopped it.
    """
    text = Gathered()
    try:
        tokens, opening, generation = prepared(session, request, encode)
        session.prepare(len(tokens), request.generation.max_tokens)
        session.forget_text()  # read in other parts, a prompt can have other bits
        watch(PromptProgress(0, len(tokens)))
        for event in session.generate(tokens, generation, opening=opening):
            watch(event)
            text.add(event)
    except ResourceError:
        raise
    except SpecError as error:
        return Failure(request.index, request.key, request.id, error)
    assert isinstance(event, Finished)
    if event.reason is FinishReason.INTERRUPTED:
        raise Cancelled
    return text.answer(request, event)
