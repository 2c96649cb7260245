"""From committed tokens to the text the user sees, and when to stop.

Every rule that ends a generation is here, applied token by token, so plain and speculative
decoding print the same characters. Text is released in whole UTF-8 characters, and never while it
could still turn out to be the beginning of a stop string.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spec_cli.events import FinishReason, Origin, TextDelta


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
        n_safe = len(self._held) - self._n_undecided()
        safe, self._held = self._held[:n_safe], self._held[n_safe:]
        return safe, None

    def flush(self) -> str:
        """The text held back; no stop string will come any more."""
        held, self._held = self._held, ""
        return held

    def _n_undecided(self) -> int:
        """Length of the longest tail that is the beginning of a stop string."""
        longest = max((len(stop) - 1 for stop in self._stops), default=0)
        for n in range(min(longest, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-n:]) for stop in self._stops):
                return n
        return 0


@dataclass(slots=True)
class _Span:
    """The characters that one token completed, not yet all released."""

    n_chars: int
    tokens: tuple[int, ...]
    origin: Origin


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
    ) -> None:
        """`piece` gives a token's bytes, `is_end` knows the end-of-generation tokens."""
        self.tokens: list[int] = []
        self.finish_reason: FinishReason | None = FinishReason.LENGTH if max_tokens <= 0 else None
        self.stop: str | None = None
        self._piece = piece
        self._is_end = is_end
        self._stops = StopStrings(stop)
        self._max_tokens = max_tokens
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._silent: list[int] = []  # tokens since the last one that completed a character
        self._spans: deque[_Span] = deque()
        self._deltas: list[TextDelta] = []

    @property
    def room(self) -> int:
        """How many more tokens may come."""
        return 0 if self.finish_reason else self._max_tokens - len(self.tokens)

    def push(self, token: int, origin: Origin) -> None:
        """Take the next committed token."""
        self.tokens.append(token)
        self._silent.append(token)
        if self._is_end(token):
            self.finish(FinishReason.STOP)
            return
        safe, self.stop = self._stops.push(self._decode(token, origin))
        self._release(safe)
        if self.stop is not None:
            self.finish_reason = FinishReason.STOP_STRING
        elif len(self.tokens) == self._max_tokens:
            self.finish(FinishReason.LENGTH)

    def finish(self, reason: FinishReason) -> None:
        """End here: release held text; an incomplete character is dropped."""
        self.finish_reason = reason
        self._release(self._stops.flush())

    def drain(self) -> list[TextDelta]:
        """The deltas since the last call; at the end, one more for tokens that left no text."""
        deltas, self._deltas = self._deltas, []
        if self.finish_reason and (rest := self._unreported()):
            deltas.append(TextDelta("", rest, Origin.PLAIN))
        return deltas

    def _decode(self, token: int, origin: Origin) -> str:
        text = self._utf8.decode(self._piece(token))
        if text:
            self._spans.append(_Span(len(text), tuple(self._silent), origin))
            self._silent = []
        return text

    def _release(self, text: str) -> None:
        while text:
            span = self._spans[0]
            part, text = text[: span.n_chars], text[span.n_chars :]
            self._deltas.append(TextDelta(part, span.tokens, span.origin))
            span.n_chars -= len(part)
            span.tokens = ()
            if span.n_chars == 0:
                self._spans.popleft()

    def _unreported(self) -> tuple[int, ...]:
        rest = [token for span in self._spans for token in span.tokens] + self._silent
        self._spans.clear()
        self._silent = []
        return tuple(rest)
