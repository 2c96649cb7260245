"""What drafting is expected to gain with a draft model whose guesses are right so often.

The levels of a draft model's confidence keep the acceptance that was calibrated for them
(`survival`); a worse draft is one that is seldom sure. So the shares of the levels are tilted,
P(m | l) -> P(m | l) exp(theta m) / Z_l, until the guesses are right as often as supposed.

The rate r of the best policy is the root of 1 + C_0(r) - r t(1) = 0, where C_0 is what drafting is
worth in a round at that rate (`stopping`); the speed-up is r t(1), never below 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spec_cli.spec.costs import CostTable
from spec_cli.spec.interfaces import Weights
from spec_cli.spec.stopping import stopping_table
from spec_cli.spec.survival import N_MODEL_LEVELS, Prior, Survival

_N_STEPS = 30  # of a bisection, and towards the long run
_MAX_TILT = 20.0


@dataclass(frozen=True, slots=True)
class Forecast:
    """The speed-up over plain decoding where guesses are right with probability `acceptance`.

    `auto` is that of drafting as many tokens as pays; `fixed` that of always drafting `k`, the
    best fixed number.
    """

    acceptance: float
    auto: float
    k: int
    fixed: float


def forecast(costs: CostTable, acceptance: float, k_max: int) -> Forecast:
    """The forecast at these costs for drafts of up to `k_max` tokens."""
    survival = Survival()
    levels = survival.model_acceptance()
    following = tilted(survival.following(), levels, acceptance)
    return _forecast(costs, acceptance, k_max, levels, following)


def forecast_after(costs: CostTable, prior: Prior, k_max: int) -> Forecast:
    """The forecast for guesses of which so much is known as `prior` says, in the long run."""
    survival = Survival(prior)
    levels, following = survival.model_acceptance(), survival.following()
    return _forecast(costs, mean_acceptance(following, levels), k_max, levels, following)


def _forecast(
    costs: CostTable, acceptance: float, k_max: int, levels: Weights, following: Weights
) -> Forecast:
    verify = costs.target.of(range(1, k_max + 2)) / costs.target(1)
    draft = costs.draft_token_s / costs.target(1)

    def gain(rate: float) -> float:
        table = stopping_table(
            levels, following, draft=rate * draft, verify=rate * verify, may_drop=True
        )
        return 1 + table(0, 1.0, N_MODEL_LEVELS) - rate

    low, high = 1.0, k_max + 1.0
    for _ in range(_N_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if gain(middle) > 0 else (low, middle)
    k, fixed = costs.best(acceptance, k_max)
    return Forecast(acceptance, low, k, fixed)


def tilted(following: Weights, levels: Weights, acceptance: float) -> Weights:
    """`following`, its shares shifted to where guesses are right with probability `acceptance`."""
    low, high = -_MAX_TILT, _MAX_TILT
    for _ in range(_N_STEPS):
        middle = (low + high) / 2
        is_low = mean_acceptance(_tilt(following, middle), levels) < acceptance
        low, high = (middle, high) if is_low else (low, middle)
    return _tilt(following, low)


def mean_acceptance(following: Weights, levels: Weights) -> float:
    """How often guesses are right whose levels follow each other like this, in the long run."""
    shares = np.full(levels.size, 1 / levels.size)
    for _ in range(_N_STEPS):
        shares = shares @ following[:-1]
    return float(shares @ levels)


def _tilt(following: Weights, theta: float) -> Weights:
    weights = following * np.exp(theta * np.arange(following.shape[1]) / following.shape[1])
    shares: Weights = weights / weights.sum(axis=1, keepdims=True)
    return shares
