"""The cost table: what drafting gains at given costs, and when it cannot gain anything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.spec.costs import CostTable, PassTimes, measure_passes
from tests.engine.fakes import TableLM

FLAT = PassTimes(tuple(range(1, 17)), (1.0,) * 16)
LINEAR = PassTimes(tuple(range(1, 17)), tuple(float(w) for w in range(1, 17)))


@given(alpha=st.floats(0.01, 0.99), k=st.integers(1, 15), c=st.floats(0, 2))
def test_a_flat_verify_curve_gives_the_formula_of_leviathan(alpha: float, k: int, c: float) -> None:
    """Leviathan et al. 2023, theorem 3.8: (1 - a**(k+1)) / ((1 - a) (k c + 1))."""
    expected = (1 - alpha ** (k + 1)) / ((1 - alpha) * (k * c + 1))
    assert CostTable(FLAT, c).speedup(k, alpha) == pytest.approx(expected)


def test_the_best_draft_length_may_lie_beyond_a_dip() -> None:
    """Five rows cost as much as eight: a greedy search would stop at k = 3."""
    steps = PassTimes((1, 2, 3, 4, 5, 6, 7, 8), (1, 1.1, 1.2, 1.3, 2.2, 2.2, 2.2, 2.2))
    table = CostTable(steps, 0.0)
    assert table.speedup(3, 0.95) > table.speedup(4, 0.95)
    assert table.best(0.99, 7)[0] == 7


def test_linear_verification_and_a_draft_that_costs_anything_can_never_win() -> None:
    reason = CostTable(LINEAR, 0.1).verdict(15)
    assert reason is not None
    assert "0.10" in reason and "2.00" in reason and "0.95x plain at best" in reason


def test_free_guesses_on_a_flat_curve_can_win() -> None:
    assert CostTable(FLAT, 0.0).verdict(15) is None


def test_no_room_for_a_draft_means_no_draft() -> None:
    assert CostTable(FLAT, 0.0).best(1.0, 0) == (0, 1.0)


def test_times_between_measured_widths_are_interpolated_and_beyond_them_extrapolated() -> None:
    times = PassTimes((1, 4, 8), (1.0, 4.0, 6.0))
    assert times(2) == pytest.approx(2.0)
    assert times(6) == pytest.approx(5.0)
    assert times(16) == pytest.approx(12.0)


def test_measuring_takes_the_minimum_and_leaves_the_model_empty() -> None:
    model = TableLM(n_ctx=32, n_batch=16)
    now, n_before = 0.0, 0
    passes: list[tuple[int, int]] = []

    def clock() -> float:
        """Each pass takes its width in seconds and a tenth for each token before it; the first of
        each width is disturbed by 9 s, but that of the widest."""
        nonlocal now, n_before
        if width := model.n_evaluated - n_before:
            n_past = len(model.kv) - width
            is_first = width not in [w for w, _ in passes]
            now += width + n_past / 10 + (9 if is_first and width < 8 else 0)
            passes.append((width, n_past))
            n_before = model.n_evaluated
        return now

    times = measure_passes(model, (4, 1, 8, 2), clock=clock)
    assert times.widths == (1, 2, 4, 8)
    assert times.seconds == pytest.approx((1.8, 2.8, 4.8, 8.0))
    assert model.kv == []


def test_of_two_measurements_the_shorter_times_count() -> None:
    again = PassTimes((1, 4), (0.5, 9.0))
    assert PassTimes((1, 2, 4), (1.0, 2.0, 3.0)).shortest(again) == PassTimes(
        (1, 2, 4), (0.5, 2.0, 3.0)
    )
