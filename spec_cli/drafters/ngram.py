"""Drafting by looking up what followed the same words before (prompt lookup decoding)."""

from __future__ import annotations

from collections.abc import Sequence

from spec_cli.spec.interfaces import NO_DRAFT, Draft

LONGEST = 8
SHORTEST = 2


class NgramDrafter:
    """Copies what followed the last occurrence of the longest n-gram that ends the context.

    The index maps each n-gram of `SHORTEST`..`LONGEST` tokens to the place after its latest
    occurrence that has a continuation. Each committed token costs a constant number of entries.
    """

    name = "ngram"

    def __init__(self) -> None:
        self._after: dict[tuple[int, ...], int] = {}
        self._n_indexed = 0

    def begin(self, prompt: Sequence[int]) -> None:
        """Index the prompt."""
        self._after.clear()
        self._n_indexed = 0
        self.commit(prompt)

    def propose(self, context: Sequence[int], k: int) -> Draft:
        """Up to `k` tokens that followed the longest match; none when nothing matches."""
        for n in range(min(LONGEST, len(context)), SHORTEST - 1, -1):
            at = self._after.get(tuple(context[len(context) - n :]))
            if at is not None:
                return Draft(tuple(_copy(context, at, k)))
        return NO_DRAFT

    def commit(self, context: Sequence[int]) -> None:
        """Index the n-grams that the new tokens continue."""
        for at in range(max(self._n_indexed, SHORTEST), len(context)):
            for n in range(SHORTEST, min(LONGEST, at) + 1):
                self._after[tuple(context[at - n : at])] = at
        self._n_indexed = len(context)


def _copy(context: Sequence[int], at: int, k: int) -> list[int]:
    """`k` tokens from `at` on; a copy that reaches the end of the context goes on with itself."""
    copied: list[int] = []
    period = len(context) - at
    for i in range(k):
        copied.append(context[at + i] if i < period else copied[i - period])
    return copied
