"""When to stop drafting: optimal stopping by backward induction over the measured costs.

A round that drafts k tokens and emits E of them gains E - rate * time, with `rate` the tokens a
second that are had on the whole: the policy with the largest expected gain has the largest rate
(Dinkelbach 1967). After j tokens with survival A (the probability that all of them hold), of which
the last had level l, one more costs the draft model d seconds and the check t(j + 2) - t(j + 1);
it has level m with probability P(m | l), and then survives with A a(m). What drafting on is worth:

    C_j(A, l) = max(0, -rate d + sum over m of P(m | l) V(m))
    V(m) = max(0, A a(m) - rate (t(j + 2) - t(j + 1)) + C_(j+1)(A a(m), m))

The inner maximum leaves the new token unchecked (its draft time is spent); it is not there where
what was drawn must be checked. t need not be convex: later terms of the induction see what lies
beyond a step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spec_cli.spec.interfaces import Weights

_GRID = np.linspace(0.0, 1.0, 33)  # of survival


@dataclass(frozen=True, slots=True)
class StoppingTable:
    """C_j(A, l), in tokens, shape [k_max + 1, grid, levels + 1]; the last level: no guess yet."""

    worth: Weights

    def __call__(self, j: int, survival: float, level: int) -> float:
        """What drafting on is worth after `j` tokens; 0 where it is best to stop."""
        if j >= len(self.worth):
            return 0.0
        at = survival * (len(_GRID) - 1)
        low = min(int(at), len(_GRID) - 2)
        below, above = self.worth[j, low : low + 2, level].tolist()
        return float(below + (at - low) * (above - below))


def stopping_table(
    acceptance: Weights,
    following: Weights,
    *,
    draft: float,
    verify: Weights,
    may_drop: bool,
) -> StoppingTable:
    """The table for model guesses.

    `acceptance` [L] and `following` [L + 1, L] are those of `Survival`; `draft` is the price of
    one more token and `verify` [k_max + 1] that of a pass over 1.. rows, both in tokens: seconds
    times the rate. `may_drop`: drafted tokens may be left unchecked.
    """
    after = _GRID[:, np.newaxis] * acceptance  # [grid, L]
    low = np.minimum((after * (len(_GRID) - 1)).astype(np.intp), len(_GRID) - 2)
    share = after * (len(_GRID) - 1) - low
    levels = np.arange(acceptance.size)
    k_max = verify.size - 1
    worth = np.zeros((k_max + 1, _GRID.size, acceptance.size + 1))
    for j in range(k_max - 1, -1, -1):
        later = worth[j + 1][:, :-1]
        go_on = later[low, levels] * (1 - share) + later[low + 1, levels] * share
        value = after - (verify[j + 1] - verify[j]) + go_on
        if may_drop:
            value = np.maximum(value, 0.0)
        worth[j] = np.maximum(value @ following.T - draft, 0.0)
    return StoppingTable(worth)
