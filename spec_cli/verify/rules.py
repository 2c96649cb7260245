"""A check of the acceptance rules on real rows: do they leave the target's distribution?

Two consecutive rows of target and draft are fixed, and many rounds with two draft tokens are
played on them. The second row is taken to be the same whatever the first token is, so the first
two tokens that come must follow p1 x p2; where a round commits only one, the next round, without
a draft, gives the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from spec_cli.errors import Cancelled
from spec_cli.spec.acceptance import make_rule
from spec_cli.spec.interfaces import NO_DRAFT, AcceptanceRule, Draft, Logits
from spec_cli.spec.sampling import candidates
from spec_cli.spec.settings import Accept, SamplingSettings
from spec_cli.verify.chisquare import ChiSquare, Counts, chi_square
from spec_cli.verify.rows import RowPair

FALSE_ALARM = 1e-6  # the probability that any of the checks fails though every rule is right
SAMPLINGS = {
    "default": SamplingSettings(),
    "unfiltered": SamplingSettings(temp=1, top_k=0, top_p=1, min_p=0),
}
_N_ROUNDS_UNASKED = 100  # between two questions whether to stop

Pair = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RuleCheck:
    """One rule with one sampling on one pair of rows."""

    accept: Accept
    sampling: str
    prompt: str
    position: int
    n_rounds: int
    n_drafted: int
    n_accepted: int
    test: ChiSquare

    def passes(self, n_checks: int) -> bool:
        """Whether it passes as one of `n_checks` that together keep to `FALSE_ALARM`."""
        return self.test.p_value >= FALSE_ALARM / n_checks


def check_rules(
    rows: Sequence[RowPair],
    seed: int,
    n_rounds: int,
    cancelled: Callable[[], bool],
    progress: Callable[[str, float | None], None],
) -> tuple[RuleCheck, ...]:
    """Every rule with every sampling on every pair of rows. Raises Cancelled."""
    plans = [(a, s, pair) for a in Accept for s in SAMPLINGS for pair in rows]
    checks = []
    for i, (accept, sampling, pair) in enumerate(plans):
        progress(f"the rule {accept}, {sampling} sampling", i / len(plans))
        rule = make_rule(accept, SAMPLINGS[sampling], (seed + i) % 2**64)
        game = Game(rule, pair)
        for played in range(n_rounds):
            if played % _N_ROUNDS_UNASKED == 0 and cancelled():
                raise Cancelled
            game.play()
        checks.append(
            RuleCheck(
                accept,
                sampling,
                pair.prompt,
                pair.position,
                n_rounds,
                n_drafted=2 * n_rounds,
                n_accepted=game.n_accepted,
                test=_test(game.outcomes, pair, SAMPLINGS[sampling]),
            )
        )
    return tuple(checks)


class Game:
    """Rounds of two draft tokens on a pair of rows."""

    def __init__(self, rule: AcceptanceRule, pair: RowPair) -> None:
        self.outcomes: Counter[Pair] = Counter()
        self.n_accepted = 0
        self._rule = rule
        self._draft = pair.draft
        self._target = pair.target[[0, 1, 1]]  # after both draft tokens anything may follow
        self._n_context = 0

    def play(self) -> None:
        """One round, and where it commits one token only, the next one."""
        # Of a context only the length is looked at: it is the position, which keys the noise.
        context = range(self._n_context)
        self._n_context += 3
        drawn = [self._rule.draw(row, len(context) + i, ()) for i, row in enumerate(self._draft)]
        q = tuple(d.q for d in drawn if d.q is not None)
        draft = Draft(tuple(d.token for d in drawn), q or None)
        tokens = self._rule.verify(self._target, draft, context).tokens
        self.n_accepted += len(tokens) - 1
        if len(tokens) == 1:
            after = range(len(context) + 1)
            tokens += self._rule.verify(self._target[1:2], NO_DRAFT, after).tokens
        self.outcomes[tokens[:2]] += 1


def _test(outcomes: Counter[Pair], pair: RowPair, sampling: SamplingSettings) -> ChiSquare:
    """The outcomes against p1 x p2, over all pairs of ids."""
    first, second = (_law(row, sampling) for row in pair.target)
    expected = outcomes.total() * np.outer(first, second)
    observed = np.zeros_like(expected)
    for tokens, n in outcomes.items():
        observed[tokens] = n
    return chi_square(observed, expected)


def _law(row: Logits, sampling: SamplingSettings) -> Counts:
    """The processed distribution over all ids of the row, shape [n]."""
    found = candidates(row, (), sampling).distribution()
    law = np.zeros(row.size)
    law[found.ids] = found.probabilities
    return law
