from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_cli.spec.costs import CostTable, PassTimes
from spec_cli.spec.forecast import forecast, forecast_after, mean_acceptance, tilted
from spec_cli.spec.survival import GREEDY, Survival

SURVIVAL = Survival()
LEVELS, FOLLOWING = SURVIVAL.model_acceptance(), SURVIVAL.following()
FLAT = PassTimes((1, 16), (1.0, 1.0))
SHARES = st.floats(0.45, 0.97)


@settings(deadline=None, max_examples=40)
@given(SHARES)
def test_tilted_levels_are_right_as_often_as_supposed(acceptance: float) -> None:
    shares = tilted(FOLLOWING, LEVELS, acceptance)
    assert mean_acceptance(shares, LEVELS) == pytest.approx(acceptance, abs=1e-6)
    assert shares.sum(axis=1) == pytest.approx(1.0)


def test_no_tilt_is_needed_for_the_acceptance_that_was_calibrated() -> None:
    acceptance = mean_acceptance(FOLLOWING, LEVELS)
    assert tilted(FOLLOWING, LEVELS, acceptance) == pytest.approx(FOLLOWING, abs=1e-6)


@pytest.mark.parametrize("acceptance", [0.6, 0.8, 0.9])
@pytest.mark.parametrize("k_max", [1, 2, 5])
def test_free_guesses_and_checks_emit_one_token_and_all_that_survive(
    acceptance: float, k_max: int
) -> None:
    emitted = 1 + sum(survivals(acceptance, k_max))
    assert forecast(CostTable(FLAT, 0.0), acceptance, k_max).auto == pytest.approx(emitted)


@settings(deadline=None, max_examples=40)
@given(SHARES, st.floats(0.0, 0.5), st.floats(1.0, 4.0), st.integers(1, 8))
def test_no_fixed_length_gains_more_from_the_same_guesses(
    acceptance: float, draft: float, widest: float, k: int
) -> None:
    costs = CostTable(PassTimes((1, 16), (1.0, widest)), draft)
    emitted = 1 + sum(survivals(acceptance, k))
    fixed = emitted / (k * draft + costs.target(k + 1))
    assert forecast(costs, acceptance, 15).auto >= fixed * 0.995


def survivals(acceptance: float, k: int) -> list[float]:
    """The probability that the first 1, 2, ... k guesses are all right."""
    shares = tilted(FOLLOWING, LEVELS, acceptance)
    alive, found = shares[-1] * LEVELS, []
    for _ in range(k):
        found.append(float(alive.sum()))
        alive = (alive @ shares[:-1]) * LEVELS
    return found


@settings(deadline=None, max_examples=40)
@given(SHARES, st.floats(0.0, 2.0), st.floats(1.0, 6.0), st.integers(0, 15))
def test_drafting_as_much_as_pays_is_never_slower_than_plain(
    acceptance: float, draft: float, widest: float, k_max: int
) -> None:
    costs = CostTable(PassTimes((1, 16), (1.0, widest)), draft)
    assert 1.0 <= forecast(costs, acceptance, k_max).auto <= k_max + 1


def test_where_even_perfect_guesses_lose_nothing_is_gained() -> None:
    found = forecast(CostTable(FLAT, 1.2), 0.9, 15)
    assert found.auto == pytest.approx(1.0)
    assert found.fixed < 1.0


def test_the_typical_pair_is_that_of_the_calibration() -> None:
    costs = CostTable(PassTimes((1, 4, 16), (1.0, 1.5, 2.5)), 0.2)
    found = forecast_after(costs, GREEDY, 15)
    assert found.acceptance == mean_acceptance(FOLLOWING, LEVELS)
    assert found.auto == pytest.approx(forecast(costs, found.acceptance, 15).auto)


def test_more_right_guesses_gain_more() -> None:
    costs = CostTable(PassTimes((1, 4, 16), (1.0, 1.5, 2.5)), 0.2)
    speedups = [forecast(costs, acceptance, 15).auto for acceptance in np.linspace(0.6, 0.9, 4)]
    assert speedups == sorted(speedups)
    assert speedups[0] < speedups[-1]


@settings(deadline=None, max_examples=40)
@given(SHARES, st.floats(0.01, 100.0))
def test_only_the_ratio_of_the_times_counts(acceptance: float, unit: float) -> None:
    one = CostTable(PassTimes((1, 16), (1.0, 2.0)), 0.2)
    other = CostTable(PassTimes((1, 16), (unit, 2 * unit)), 0.2 * unit)
    found, same = forecast(one, acceptance, 8), forecast(other, acceptance, 8)
    assert found.auto == pytest.approx(same.auto)
    assert found.k == same.k
