"""Pearson's chi-square test: do counts follow a distribution?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.float64]

MIN_EXPECTED = 25.0  # so that the far tail, where the test decides, is that of the chi-square
_PRECISION = 1e-15
_TINY = 1e-300


@dataclass(frozen=True, slots=True)
class ChiSquare:
    """Pearson's statistic; `p_value` is the probability of one as large where the law holds."""

    statistic: float
    degrees_of_freedom: int
    p_value: float


def chi_square(observed: Counts, expected: Counts) -> ChiSquare:
    """Test `observed` counts against `expected` ones, both of one shape and one sum.

    Outcomes expected less than `MIN_EXPECTED` times are pooled; one that was observed though its
    expectation is 0 has a p-value of 0.
    """
    if np.any(observed[expected == 0]):
        return ChiSquare(math.inf, 1, 0.0)
    seen, wanted = _pooled(observed.ravel(), expected.ravel())
    statistic = float(((seen - wanted) ** 2 / wanted).sum())
    return ChiSquare(statistic, seen.size - 1, upper_tail(statistic, seen.size - 1))


def upper_tail(statistic: float, degrees_of_freedom: int) -> float:
    """The probability that a chi-square variable is `statistic` or larger."""
    if degrees_of_freedom == 0:
        return 1.0
    return upper_gamma(degrees_of_freedom / 2, statistic / 2)


def upper_gamma(a: float, x: float) -> float:
    """The regularised upper incomplete gamma function Q(a, x), for a above 0 and x from 0 on.

    Below a + 1 by the series of the lower one, above by Lentz's continued fraction (Press et al.,
    Numerical Recipes, 6.2).
    """
    if x <= 0:
        return 1.0
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    return 1.0 - front * _series(a, x) if x < a + 1 else front * _fraction(a, x)


def _series(a: float, x: float) -> float:
    term = total = 1 / a
    n = a
    while term > total * _PRECISION:
        n += 1
        term *= x / n
        total += term
    return total


def _fraction(a: float, x: float) -> float:
    b = x + 1 - a
    c, d = 1 / _TINY, 1 / b
    value = d
    i, change = 0, 0.0
    while abs(change - 1) > _PRECISION:
        i += 1
        b += 2
        factor = i * (a - i)
        d = 1 / (factor * d + b or _TINY)
        c = b + factor / c or _TINY
        change = c * d
        value *= change
    return value


def _pooled(observed: Counts, expected: Counts) -> tuple[Counts, Counts]:
    """The frequent outcomes, the likeliest first, and one for the rest: the last ones joined."""
    order = np.argsort(-expected, kind="stable")
    observed, expected = observed[order], expected[order]
    n = int((expected >= MIN_EXPECTED).sum())
    if expected[n:].sum() < MIN_EXPECTED:
        n = max(n - 1, 0)  # the rest alone would be too rare
    return (
        np.append(observed[:n], observed[n:].sum()),
        np.append(expected[:n], expected[n:].sum()),
    )
