"""Means of ratios and how far they can be trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

CONFIDENCE = 0.95
MIN_RATIOS = 5  # fewer lie all on one side by chance too often: three in a quarter of the cases
_N_RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """The geometric mean of `n` ratios, and an interval that holds it with about `CONFIDENCE`.

    `low` and `high` are None where there is a single ratio: nothing tells how far it varies.
    """

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def side(self) -> int:
        """1 when the ratio is above 1, -1 when it is below, 0 when that is open: the interval
        has 1 in it, or there are fewer than `MIN_RATIOS`."""
        if self.low is None or self.high is None or self.n < MIN_RATIOS:
            return 0
        return int(self.low > 1) - int(self.high < 1)


def estimate(ratios: Sequence[float], seed: int) -> Estimate:
    """The geometric mean of `ratios`, all above 0, and its expanded percentile interval.

    Ratios are drawn with replacement (Efron 1979), seeded by `seed`, and the percentiles are moved
    apart as Student's t asks for so few (Hesterberg 2015, "What Teachers Should Know About the
    Bootstrap", 5.2): it holds the mean of 5, 7 or 14 normal logarithms in 91, 94 or 95 % of cases.
    Of kinds that differ, with equally many prompts each, it is too wide: prompts are drawn whatever
    their kind.
    """
    logs = np.log(np.asarray(ratios, dtype=np.float64))
    mean, n = math.exp(logs.mean()), len(logs)
    if n == 1:
        return Estimate(mean, None, None, n)
    draws = np.random.default_rng(seed).integers(0, n, size=(_N_RESAMPLES, n))
    tail = _tail(n)
    low, high = np.exp(np.quantile(logs[draws].mean(axis=1), (tail, 1 - tail)))
    return Estimate(mean, float(low), float(high), n)


def _tail(n: int) -> float:
    """The share of resampled means that the interval of `n` ratios leaves out at each end."""
    t = _student((1 - CONFIDENCE) / 2, n - 1)
    return NormalDist().cdf(-math.sqrt(n / (n - 1)) * t)


def _student(tail: float, dof: int) -> float:
    """The value that Student's t exceeds with probability `tail` (Abramowitz, Stegun 26.7.5).

    Off by less than 0.3 % from four degrees of freedom on.
    """
    z = -NormalDist().inv_cdf(tail)
    z2 = z * z
    first = z * (z2 + 1) / 4
    second = z * ((5 * z2 + 16) * z2 + 3) / 96
    third = z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384
    return z + first / dof + second / dof**2 + third / dof**3
