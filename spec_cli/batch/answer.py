"""Answering requests one after the other with a loaded pair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from spec_cli.batch.request import Failure, Request
from spec_cli.errors import Cancelled, ResourceError, SpecError
from spec_cli.events import Event, Finished, FinishReason, TextDelta
from spec_cli.session import Session

Encode = Callable[[Request], list[int]]
"""The token ids of a request's prompt; raises UsageError or ModelError."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The whole text for a request, and how it came about; `n_prompt` is in tokens."""

    request: Request
    n_prompt: int
    text: str
    finished: Finished


def answer(
    session: Session, request: Request, encode: Encode, watch: Callable[[Event], None]
) -> Answer | Failure:
    """The answer that a run of this request alone would give; `watch` sees its events.

    What is wrong with the request itself makes a Failure. Raises ResourceError, and Cancelled when
    the user stopped it.
    """
    try:
        tokens = encode(request)
        max_tokens = request.generation.max_tokens
        session.prepare(len(tokens), max_tokens)
        # An earlier, longer prompt may have left a larger context than this one gets alone.
        room = session.room(len(tokens), max_tokens)
        generation = replace(
            request.generation, max_tokens=room if max_tokens is None else min(room, max_tokens)
        )
        text = []
        for event in session.generate(tokens, generation):
            watch(event)
            if isinstance(event, TextDelta):
                text.append(event.text)
    except ResourceError:
        raise
    except SpecError as error:
        return Failure(request.index, request.key, request.id, error)
    assert isinstance(event, Finished)
    if event.reason is FinishReason.INTERRUPTED:
        raise Cancelled
    return Answer(request, len(tokens), "".join(text), event)
