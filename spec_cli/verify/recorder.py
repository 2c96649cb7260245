"""An acceptance rule that is watched: it notices where a text leaves the one that is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spec_cli.spec.interfaces import AcceptanceRule, Draft, Drawn, Logits, Verdict


@dataclass(frozen=True, slots=True)
class Departure:
    """The first token that is not the known one: `position` tokens were generated before it.

    `row` is a copy of the logits [n_vocab] that it was chosen from.
    """

    position: int
    token: int
    row: Logits


class Recorder:
    """Decides as `rule` does, and keeps the row where a verdict first departs from `known`."""

    def __init__(self, rule: AcceptanceRule, *, n_prompt: int, known: Sequence[int]) -> None:
        self.departure: Departure | None = None
        self.n_history = rule.n_history
        self.samples_drafts = rule.samples_drafts
        self._rule = rule
        self._n_prompt = n_prompt
        self._known = known

    def draw(self, logits: Logits, position: int, history: Sequence[int]) -> Drawn:
        """What the rule draws."""
        return self._rule.draw(logits, position, history)

    def verify(self, rows: Logits, draft: Draft, context: Sequence[int]) -> Verdict:
        """What the rule decides."""
        verdict = self._rule.verify(rows, draft, context)
        first = len(context) - self._n_prompt
        for i, (token, known) in enumerate(zip(verdict.tokens, self._known[first:], strict=False)):
            if token != known and self.departure is None:
                self.departure = Departure(first + i, token, rows[i].copy())
        return verdict
