"""What a comparison of two texts found."""

from __future__ import annotations

from dataclasses import dataclass

from spec_cli.events import FinishReason
from spec_cli.verify.difference import Difference
from spec_cli.verify.matrix import Cell


@dataclass(frozen=True, slots=True)
class Text:
    """What a generation gave: token ids, the text they spell, and why it ended."""

    tokens: tuple[int, ...]
    text: str
    reason: FinishReason


@dataclass(frozen=True, slots=True)
class Comparison:
    """A speculative text beside the plain one; `difference` is the first, None when they are equal.

    `n_tokens` counts those of the plain text; `n_passes` are the target's passes for the
    speculative one, the widest of them over `max_width` rows.
    """

    cell: Cell
    n_tokens: int
    n_passes: int
    n_drafted: int
    n_accepted: int
    max_width: int
    difference: Difference | None

    @property
    def is_equal(self) -> bool:
        """Whether token ids, text and end are the same."""
        return self.difference is None

    @property
    def is_near_tie(self) -> bool:
        """Whether rounding explains the difference."""
        return self.difference is not None and self.difference.is_near_tie
