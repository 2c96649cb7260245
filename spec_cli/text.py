"""From committed tokens to the text the user sees, and when to stop.

Every rule that ends a generation is here, applied token by token, so plain and speculative
decoding print the same characters. Text is released in whole UTF-8 characters, and never while it
could still turn out to be the beginning of a stop string. Stop strings are looked for in the
answer, not in the reasoning before it.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spec_cli.events import FinishReason, Origin, ReasoningDelta, TextDelta
from spec_cli.reasoning import Part, ReasoningFormat, ReasoningSplitter, Stretch, n_undecided


class StopStrings:
    """Searches a stream of text for stop strings; holds back what may become one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""

    def push(self, text: str) -> tuple[str, str | None]:
        """Add `text`. Returns the text now safe to show, and the stop string if one matched.

        The match that starts first wins, of two that start together the shorter one.
        """
        self._held += text
        found = [(at, len(s), s) for s in self._stops if (at := self._held.find(s)) >= 0]
        if found:
            at, _, stop = min(found)
            safe, self._held = self._held[:at], ""
            return safe, stop
        n_safe = len(self._held) - n_undecided(self._held, self._stops)
        safe, self._held = self._held[:n_safe], self._held[n_safe:]
        return safe, None

    def flush(self) -> str:
        """The text held back; no stop string will come any more."""
        held, self._held = self._held, ""
        return held


@dataclass(slots=True)
class _Span:
    """The characters that one token completed, not yet all released."""

    n_chars: int
    tokens: tuple[int, ...]
    origin: Origin


Delta = TextDelta | ReasoningDelta


@dataclass(frozen=True, slots=True)
class Opening:
    """How an answer begins: with what is `given`, the end of the prompt already, and with what the
    model thinks before it answers, if it has a format for that."""

    given: str = ""
    reasoning: ReasoningFormat | None = None


NO_OPENING = Opening()


class Output:
    """Receives each committed token, decides the end, and releases text.

    Invariants: `tokens` holds every token pushed; each of them is in exactly one delta; nothing
    is pushed after `finish_reason` is set; a token beyond `max_tokens` is never asked for.
    """

    def __init__(
        self,
        piece: Callable[[int], bytes],
        is_end: Callable[[int], bool],
        *,
        stop: Sequence[str] = (),
        max_tokens: int,
        opening: Opening = NO_OPENING,
    ) -> None:
        """`piece` gives a token's bytes, `is_end` knows the end-of-generation tokens."""
        self.tokens: list[int] = []
        self.finish_reason: FinishReason | None = None
        self.stop: str | None = None
        self._piece = piece
        self._is_end = is_end
        self._stops = StopStrings(stop)
        self._max_tokens = max_tokens
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._silent: list[int] = []  # tokens since the last one that completed a character
        self._spans: deque[_Span] = deque()
        self._passed: tuple[int, ...] = ()  # tokens of marks, not yet in a delta
        self._deltas: list[Delta] = []
        reasoning = opening.reasoning
        self._control = reasoning.control if reasoning else {}
        self._splitter = (
            ReasoningSplitter(reasoning.marks, has_begun=reasoning.has_begun) if reasoning else None
        )
        if opening.given:
            self._give(opening.given)
        if max_tokens <= 0:
            self.finish(FinishReason.LENGTH)

    @property
    def room(self) -> int:
        """How many more tokens may come."""
        return 0 if self.finish_reason else self._max_tokens - len(self.tokens)

    @property
    def is_reasoning(self) -> bool:
        """Whether the text so far is reasoning that has not ended."""
        return self._splitter is not None and self._splitter.is_reasoning

    def push(self, token: int, origin: Origin) -> None:
        """Take the next committed token."""
        self.tokens.append(token)
        self._silent.append(token)
        if self._is_end(token):
            self.finish(FinishReason.STOP)
            return
        self._show(self._split(self._decode(token, origin)))
        if self.stop is not None:
            self.finish_reason = FinishReason.STOP_STRING
        elif len(self.tokens) == self._max_tokens:
            self.finish(FinishReason.LENGTH)

    def finish(self, reason: FinishReason) -> None:
        """End here: release held text; an incomplete character is dropped."""
        self.finish_reason = reason
        if self._splitter:
            self._show(self._splitter.flush())
        if self.stop is not None:
            self.finish_reason = FinishReason.STOP_STRING
        self._release(Part.ANSWER, self._stops.flush())

    def drain(self) -> list[Delta]:
        """The deltas since the last call; at the end, one more for tokens that left no text."""
        deltas, self._deltas = self._deltas, []
        if self.finish_reason and (rest := self._unreported()):
            deltas.append(TextDelta("", rest, Origin.PLAIN))
        return deltas

    def _give(self, text: str) -> None:
        """Release what the user has put at the beginning; no stop string is looked for in it."""
        self._spans.append(_Span(len(text), (), Origin.GIVEN))
        for part, stretch in self._split(text):
            self._release(part, stretch)

    def _decode(self, token: int, origin: Origin) -> str:
        text = self._utf8.decode(self._control.get(token) or self._piece(token))
        if text:
            self._spans.append(_Span(len(text), tuple(self._silent), origin))
            self._silent = []
        return text

    def _split(self, text: str) -> list[Stretch]:
        return self._splitter.push(text) if self._splitter else [(Part.ANSWER, text)]

    def _show(self, stretches: Sequence[Stretch]) -> None:
        """Release what no stop string can begin in, up to the first one."""
        for part, text in stretches:
            if part is Part.ANSWER:
                text = self._release_given(text)
                text, self.stop = self._stops.push(text)
            self._release(part, text)

    def _release_given(self, text: str) -> str:
        """Release what `text` begins with that was given, and held back for a mark; the rest."""
        if not self._spans or self._spans[0].origin is not Origin.GIVEN:
            return text
        n_given = self._spans[0].n_chars
        self._release(Part.ANSWER, text[:n_given])
        return text[n_given:]

    def _release(self, part: Part, text: str) -> None:
        while text:
            span = self._spans[0]
            n = min(span.n_chars, len(text))
            self._emit(part, text[:n], span)
            text = text[n:]
            span.n_chars -= n
            if span.n_chars == 0:
                self._spans.popleft()

    def _emit(self, part: Part, text: str, span: _Span) -> None:
        """A delta with the span's tokens; those of a mark go with the text after it."""
        if part is Part.MARK:
            self._passed += span.tokens
        else:
            kind = ReasoningDelta if part is Part.REASONING else TextDelta
            self._deltas.append(kind(text, (*self._passed, *span.tokens), span.origin))
            self._passed = ()
        span.tokens = ()

    def _unreported(self) -> tuple[int, ...]:
        held = (token for span in self._spans for token in span.tokens)
        rest = (*self._passed, *held, *self._silent)
        self._passed = ()
        self._spans.clear()
        self._silent = []
        return rest
