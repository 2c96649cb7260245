"""What a verification found, as a whole, and whether it passed."""

from __future__ import annotations

from dataclasses import dataclass

from spec_cli.spec.counts import counted
from spec_cli.spec.exactness import ExactnessPlan
from spec_cli.verify.comparison import Comparison
from spec_cli.verify.matrix import Cell
from spec_cli.verify.rules import RuleCheck


@dataclass(frozen=True, slots=True)
class Report:
    """`comparisons` are those that were made of `cells`, in their order; all if not `interrupted`.

    `rules_skipped` says why the acceptance rules were not checked, None when they were.
    """

    cells: tuple[Cell, ...]
    comparisons: tuple[Comparison, ...]
    plan: ExactnessPlan
    rules: tuple[RuleCheck, ...] = ()
    rules_skipped: str | None = None
    interrupted: bool = False

    @property
    def equal(self) -> list[Comparison]:
        """The comparisons of equal texts."""
        return [c for c in self.comparisons if c.is_equal]

    @property
    def near_ties(self) -> list[Comparison]:
        """The differences that rounding explains."""
        return [c for c in self.comparisons if c.is_near_tie]

    @property
    def unexplained(self) -> list[Comparison]:
        """All other differences."""
        return [c for c in self.comparisons if not c.is_equal and not c.is_near_tie]

    @property
    def failed_rules(self) -> list[RuleCheck]:
        """The checks of acceptance rules that failed."""
        return [check for check in self.rules if not check.passes(len(self.rules))]

    @property
    def failure(self) -> str | None:
        """What is wrong, in one sentence; None when nothing is, as far as was looked."""
        n, total = len(self.unexplained), len(self.comparisons)
        rules = ", ".join(dict.fromkeys(str(check.accept) for check in self.failed_rules))
        wrong = []
        if n:
            texts = f"{counted(n, 'speculative text')} {'differs' if n == 1 else 'differ'}"
            wrong.append(f"{texts} from plain decoding, of {total:,} compared, without explanation")
        if rules:
            wrong.append(f"the target's distribution is not kept by: {rules}")
        return "; ".join(wrong) or None

    @property
    def conclusion(self) -> str:
        """The outcome in one sentence."""
        equal, n = self.equal, len(self.comparisons)
        if not n:
            return f"interrupted before the first of {counted(len(self.cells), 'comparison')}"
        n_tokens = sum(c.n_tokens for c in equal)
        size = counted(n_tokens, "token")
        outcome = f"{_share(len(equal), n)} plain decoding, token for token ({size})"
        if near := len(self.near_ties):
            outcome += f", and {near:,} {'leaves' if near == 1 else 'leave'} it at a near-tie"
        if self.interrupted:
            outcome = f"interrupted after {n:,} of {len(self.cells):,} comparisons: {outcome}"
        failure = f"; FAILED: {self.failure}" if self.failure else ""
        return f"{outcome}; {self.plan.describe()}{failure}"


def _share(n_equal: int, n: int) -> str:
    if n_equal == n == 1:
        return "the one speculative text equals"
    share = f"all {n:,}" if n_equal == n > 0 else f"{n_equal:,} of {n:,}"
    return f"{share} speculative texts equal"
