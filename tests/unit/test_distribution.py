"""Operations on distributions against dense arithmetic, and sampling by exact integration.

`outcomes` runs a program on uniform numbers that record what they are compared with, once for
every way that the comparisons can turn out: its result is exact, up to rounding, and needs no
knowledge of the program.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.spec.distribution import certain, excess, probability, residual, sample
from spec_cli.spec.interfaces import Distribution, Weights

Result = TypeVar("Result", bound=Hashable)
Uniform = Callable[[], float]


class Walk:
    """One run of a program: which cell each uniform number fell into, and how likely that was."""

    def __init__(self, path: tuple[int, ...]) -> None:
        self._path = path
        self._n_splits = 0
        self.probability = 1.0
        self.untried: list[tuple[int, ...]] = []

    def uniform(self) -> float:
        return Unknown(self)

    def choose(self, lengths: list[float]) -> int:
        """Which cell to go into: the one that `path` says, or the first, the others for later."""
        at = self._n_splits
        self._n_splits += 1
        if at == len(self._path):
            self.untried += [(*self._path, i) for i in range(1, len(lengths))]
            self._path += (0,)
        choice = self._path[at]
        self.probability *= lengths[choice] / sum(lengths)
        return choice


class Unknown(float):
    """A uniform number of which only an interval is known: each comparison cuts it.

    As a plain number it is NaN: a program that uses it in another way gets nothing sensible.
    """

    walk: Walk

    def __new__(cls, walk: Walk) -> Unknown:
        return super().__new__(cls, math.nan)

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.scale = 1.0
        self.interval = [0.0, 1.0]

    def __mul__(self, scale: float) -> Unknown:
        scaled = Unknown(self.walk)
        scaled.scale, scaled.interval = self.scale * scale, self.interval
        return scaled

    __rmul__ = __mul__

    def __lt__(self, thresholds: Any) -> Any:
        cuts = np.asarray(thresholds) / self.scale
        low, high = self.interval
        inner = sorted({float(cut) for cut in cuts.flat if low < cut < high})
        edges = [low, *inner, high]
        cell = self.walk.choose([b - a for a, b in pairwise(edges)])
        self.interval[:] = edges[cell : cell + 2]
        below = self.interval[1] <= cuts
        return below if below.ndim else bool(below)

    def __ge__(self, threshold: Any) -> Any:
        return not self < threshold


def outcomes(program: Callable[[Uniform], Result]) -> dict[Result, float]:
    """The distribution of what `program` returns, given a source of uniform numbers."""
    found: dict[Result, float] = defaultdict(float)
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        walk = Walk(waiting.pop())
        found[program(walk.uniform)] += walk.probability
        waiting += walk.untried
    return dict(found)


def sparse(dense: Weights | list[float]) -> Distribution:
    weights = np.asarray(dense, dtype=np.float64)
    ids = np.flatnonzero(weights)
    return Distribution(ids, weights[ids] / weights.sum())


def dense(distribution: Distribution, n: int) -> Weights:
    weights = np.zeros(n)
    weights[distribution.ids] = distribution.probabilities
    return weights


N = 6
distributions = (
    st.lists(st.integers(0, 5), min_size=N, max_size=N)
    .filter(any)
    .map(lambda weights: sparse([float(w) for w in weights]))
)


def test_the_walk_integrates_products_and_repeated_comparisons() -> None:
    def program(uniform: Uniform) -> str:
        u, v = uniform(), uniform()
        if u < 0.5:
            return "low" if u < 0.25 else "middle"
        return "high" if 2 * (v * 0.5) >= 0.1 and v >= 0.2 else "other"

    assert outcomes(program) == {"low": 0.25, "middle": 0.25, "high": 0.4, "other": 0.1}


@given(d=distributions)
def test_a_sample_has_exactly_the_distribution(d: Distribution) -> None:
    found = outcomes(lambda uniform: sample(d, uniform()))
    assert found == pytest.approx(
        dict(zip(d.ids.tolist(), d.probabilities, strict=True)), abs=1e-15
    )


@given(d=distributions)
def test_the_ends_of_the_unit_interval_give_the_first_and_the_last_id(d: Distribution) -> None:
    assert sample(d, 0.0) == d.ids[0]
    assert sample(d, math.nextafter(1.0, 0.0)) == d.ids[-1]


def test_an_id_of_probability_zero_is_never_sampled() -> None:
    d = Distribution(np.arange(4), np.array([0.0, 0.5, 0.0, 0.5]))
    for u in (0.0, math.nextafter(0.5, 0.0), 0.5, math.nextafter(1.0, 0.0)):
        assert sample(d, u) in (1, 3)


@pytest.mark.parametrize("total", [1 - 2**-30, 1 + 2**-30])
def test_a_sum_that_is_not_quite_1_favours_no_id(total: float) -> None:
    d = Distribution(np.array([3, 5, 8]), np.array([0.25, 0.25, 0.5]) * total)
    found = outcomes(lambda uniform: sample(d, uniform()))
    assert found == pytest.approx({3: 0.25, 5: 0.25, 8: 0.5}, abs=1e-15)
    assert sample(d, math.nextafter(1.0, 0.0)) == 8


@given(d=distributions)
def test_the_probability_of_an_id_that_is_not_there_is_zero(d: Distribution) -> None:
    assert [probability(d, token) for token in range(N + 1)] == dense(d, N + 1).tolist()


def test_a_certain_token_has_all_of_the_probability() -> None:
    assert dense(certain(2), 4).tolist() == [0, 0, 1, 0]


@given(p=distributions, q=distributions, scale=st.floats(0, 1))
def test_the_excess_is_the_positive_part_of_the_difference(
    p: Distribution, q: Distribution, scale: float
) -> None:
    expected = np.maximum(scale * dense(p, N) - dense(q, N), 0)
    assert excess(p, q, scale).tolist() == expected[p.ids].tolist()
    assert expected.sum() == pytest.approx(excess(p, q, scale).sum(), abs=1e-15)


@given(p=distributions, q=distributions, scale=st.floats(0, 1))
def test_the_residual_is_the_excess_normalised_and_p_where_there_is_none(
    p: Distribution, q: Distribution, scale: float
) -> None:
    r = residual(p, q, scale)
    assert r.probabilities.sum() == pytest.approx(1, abs=1e-12)
    assert (r.probabilities > 0).all() and (np.diff(r.ids) > 0).all()
    over = np.maximum(scale * dense(p, N) - dense(q, N), 0)
    if over.any():
        assert dense(r, N) == pytest.approx(over / over.sum(), abs=1e-12)
    else:
        assert r is p


@given(p=distributions, q=distributions)
def test_without_a_scale_an_empty_residual_means_that_p_equals_q(
    p: Distribution, q: Distribution
) -> None:
    assert excess(p, q).any() or dense(p, N) == pytest.approx(dense(q, N), abs=1e-15)


@given(p=distributions, token=st.integers(0, N))
def test_the_residual_of_a_certain_token_is_p_without_it(p: Distribution, token: int) -> None:
    rest = dense(p, N + 1)
    rest[token] = 0
    if rest.any():
        assert dense(residual(p, certain(token)), N + 1) == pytest.approx(rest / rest.sum())
