"""How draft tokens are accepted: the rules that decide what a target pass commits."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from spec_cli.spec.coupling import Chooser, make_chooser
from spec_cli.spec.interfaces import AcceptanceRule, Draft, Drawn, Logits, Verdict
from spec_cli.spec.sampling import SamplingSettings


class Accept(StrEnum):
    """The acceptance rule. All keep the target's distribution; at temperature 0 all are greedy."""

    COUPLED = "coupled"


def make_rule(
    accept: Accept, settings: SamplingSettings, seed: int, *, tie_margin: float = 0.0
) -> AcceptanceRule:
    """The rule `accept`; `tie_margin` is that of `MatchRule`."""
    return MatchRule(make_chooser(settings, seed), tie_margin=tie_margin)


class MatchRule:
    """Keeps draft tokens while they equal the target's choice: the rule `coupled`, and greedy.

    The emitted token at a position is a function of the target's logits there, the seed and the
    position; nothing that the drafter does can change it. `tie_margin` is the margin, in logits,
    below which a choice counts as a near-tie; 0 counts none.
    """

    def __init__(self, chooser: Chooser, *, tie_margin: float = 0.0) -> None:
        self._chooser = chooser
        self._tie_margin = tie_margin
        self.n_history = chooser.n_history

    def draw(self, logits: Logits, position: int, history: Sequence[int]) -> Drawn:
        """The draft model's choice, made with the noise that the target's choice is made with."""
        return Drawn(self._chooser.choose(logits, position, history))

    def verify(self, rows: Logits, draft: Draft, context: Sequence[int]) -> Verdict:
        """Choose row by row until a choice differs from the draft."""
        history = recent(context, self.n_history)
        tokens: list[int] = []
        n_near_ties = 0
        for row, guess in zip(rows, (*draft.tokens, None), strict=True):
            at = len(context) + len(tokens)
            token = self._chooser.choose(row, at, history)
            if self._tie_margin:
                n_near_ties += self._chooser.margin(row, at, history) < self._tie_margin
            tokens.append(token)
            history.append(token)
            if token != guess:
                break
        return Verdict(tuple(tokens), n_near_ties)


def recent(context: Sequence[int], n: int) -> list[int]:
    """The last `n` tokens of `context`; all of it where it is shorter."""
    return list(context[max(0, len(context) - n) :])
