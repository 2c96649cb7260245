"""The drafter of plain decoding."""

from __future__ import annotations

from collections.abc import Sequence

from spec_cli.spec.interfaces import NO_DRAFT, Budget, Draft


class NoDrafter:
    """Proposes nothing."""

    def begin(self, prompt: Sequence[int]) -> None:
        """Nothing to prepare."""

    def n_behind(self, context: Sequence[int]) -> int:
        """There is no draft model."""
        return 0

    def propose(self, context: Sequence[int], budget: Budget) -> Draft:
        """No tokens."""
        return NO_DRAFT

    def commit(self, context: Sequence[int]) -> None:
        """Nothing to learn."""
