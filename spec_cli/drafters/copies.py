"""Guessing by looking up what followed the same words before (prompt lookup decoding)."""

from __future__ import annotations

from collections.abc import Sequence

from spec_cli.spec.lookup import Copy, MatchIndex
from spec_cli.spec.survival import Survival, copy_evidence


class TextCopies:
    """Copies from the prompt and the text so far, and from `earlier` texts.

    At each committed token the guess that would have been copied in its place is scored: what
    copies are worth is known before the first one is drafted.
    """

    def __init__(self, survival: Survival, earlier: Sequence[int] = ()) -> None:
        """`earlier` are token ids, with a BREAK after each text."""
        self._survival = survival
        self._earlier = earlier
        self._index = MatchIndex()

    def begin(self, prompt: Sequence[int]) -> None:
        """Forget everything but the prompt, and what was there before it."""
        self._index = MatchIndex()
        for token in (*self._earlier, *prompt):
            self._index.append(token)

    def after(self, drafted: Sequence[int], n: int) -> list[Copy]:
        """Up to `n` guesses for what follows the context and `drafted` tokens."""
        return list(self._index.continuation(drafted, n))

    def commit(self, context: Sequence[int]) -> None:
        """Score and add the new tokens."""
        for token in context[len(self._index) - len(self._earlier) :]:
            for copy in self._index.continuation((), 1):
                self._survival.learn(copy_evidence(copy), accepted=copy.token == token)
            self._index.append(token)
