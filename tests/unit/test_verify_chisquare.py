"""The chi-square test against known values, and on counts that do and do not follow a law."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.verify.chisquare import MIN_EXPECTED, ChiSquare, chi_square, upper_gamma, upper_tail


# Tables of the chi-square distribution: upper 5 %, 1 % and 0.1 % points.
@pytest.mark.parametrize(
    ("degrees_of_freedom", "points"),
    [
        (1, (3.841459, 6.634897, 10.827566)),
        (2, (5.991465, 9.210340, 13.815511)),
        (10, (18.307038, 23.209251, 29.588298)),
        (100, (124.342113, 135.806723, 149.449253)),
    ],
)
def test_the_tail_is_that_of_the_tables(degrees_of_freedom: int, points: tuple[float, ...]) -> None:
    for point, tail in zip(points, (0.05, 0.01, 0.001), strict=True):
        assert upper_tail(point, degrees_of_freedom) == pytest.approx(tail, rel=1e-5)


@given(st.floats(0, 600))
def test_special_values_have_closed_forms(x: float) -> None:
    assert upper_gamma(1.0, x) == pytest.approx(math.exp(-x), rel=1e-10)
    assert upper_gamma(0.5, x) == pytest.approx(math.erfc(math.sqrt(x)), rel=1e-10, abs=1e-15)
    poisson = math.exp(-x) * (1 + x + x**2 / 2)  # at most 2 events
    assert upper_gamma(3.0, x) == pytest.approx(poisson, rel=1e-10)


@given(st.floats(0.5, 200), st.floats(0, 400), st.floats(0, 50))
def test_the_tail_falls_from_one_and_joins_where_the_methods_meet(
    a: float, x: float, step: float
) -> None:
    assert 0 <= upper_gamma(a, x + step) <= upper_gamma(a, x) + 1e-12 <= 1 + 1e-12
    below, above = upper_gamma(a, (a + 1) * (1 - 1e-12)), upper_gamma(a, (a + 1) * (1 + 1e-12))
    assert below == pytest.approx(above, rel=1e-9)


def test_a_tail_far_out_is_small_and_not_zero() -> None:
    assert 0 < upper_tail(400.0, 20) < 1e-70


def test_rare_outcomes_are_pooled() -> None:
    expected = np.array([[100.0, 50.0], [20.0, 4.0], [2.0, 4.0]])  # 30 in all below the limit
    observed = expected + np.array([[10.0, 0.0], [-5.0, -1.0], [-2.0, -2.0]])
    found = chi_square(observed, expected)
    assert found.degrees_of_freedom == 2
    assert found.statistic == pytest.approx(10**2 / 100 + 10**2 / 30)


def test_what_is_too_rare_even_together_joins_the_rarest_frequent_outcome() -> None:
    expected = np.array([60.0, MIN_EXPECTED, 10.0])
    found = chi_square(np.array([60.0, 30.0, 5.0]), expected)
    assert (found.statistic, found.degrees_of_freedom) == (0.0, 1)


def test_one_outcome_alone_decides_nothing() -> None:
    assert chi_square(np.array([9.0, 1.0]), np.array([8.0, 2.0])) == ChiSquare(0.0, 0, 1.0)
    assert chi_square(np.array([100.0]), np.array([100.0])).p_value == 1.0


def test_an_impossible_outcome_fails() -> None:
    assert chi_square(np.array([99.0, 1.0]), np.array([100.0, 0.0])).p_value == 0.0


def test_counts_of_the_law_have_uniform_p_values_and_others_none() -> None:
    rng = np.random.default_rng(0)
    law = np.array([0.4, 0.3, 0.2, 0.09, 0.01])
    ps = [
        chi_square(rng.multinomial(2000, law).astype(float), 2000 * law).p_value for _ in range(400)
    ]
    quartiles = np.quantile(ps, (0.25, 0.5, 0.75))
    assert np.abs(quartiles - (0.25, 0.5, 0.75)).max() < 0.08
    other = np.array([0.3, 0.4, 0.2, 0.09, 0.01])
    assert chi_square(rng.multinomial(2000, other).astype(float), 2000 * law).p_value < 1e-10
