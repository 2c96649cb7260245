"""What a batch has done so far, in counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from spec_cli.batch.answer import Answer
from spec_cli.batch.request import Failure
from spec_cli.batch.results import Stored
from spec_cli.events import RoundDone
from spec_cli.spec.stats import RoundCount


@dataclass(slots=True)
class Tally:
    """Counts of lines, and of the tokens of this run; `n_found` lines were answered before."""

    n_found: int = 0
    n_answered: int = 0
    n_failed: int = 0
    n_tokens: int = 0
    n_rounds: int = 0
    n_drafted: int = 0
    n_accepted: int = 0

    @classmethod
    def of(cls, stored: Sequence[Stored]) -> Self:
        """That of the results of earlier runs."""
        n_found = sum(result.is_answer for result in stored)
        return cls(n_found=n_found, n_failed=len(stored) - n_found)

    @property
    def n_done(self) -> int:
        """Lines that have a result."""
        return self.n_found + self.n_answered + self.n_failed

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted over verified draft tokens; None when nothing was drafted."""
        return self.n_accepted / self.n_drafted if self.n_drafted else None

    @property
    def acceptance_length(self) -> float | None:
        """Tokens a round: of one text, in one target pass."""
        return self.n_tokens / self.n_rounds if self.n_rounds else None

    def add_round(self, done: RoundDone | RoundCount) -> None:
        """Count a round of one text."""
        self.n_rounds += 1
        self.n_tokens += done.n_emitted
        self.n_drafted += done.n_drafted
        self.n_accepted += done.n_accepted

    def add(self, outcome: Answer | Failure) -> None:
        """Count a line."""
        if isinstance(outcome, Answer):
            self.n_answered += 1
        else:
            self.n_failed += 1
