"""Pass times that follow the machine: medians of what passes took against the table."""

from __future__ import annotations

import pytest

from spec_cli.spec.costs import PassTimes, TimesByLength
from spec_cli.spec.meter import MeteredModel, PassMeter
from tests.engine.fakes import TableLM

TABLE = PassTimes((1, 2, 4), (1.0, 1.5, 2.0))
LONGER = TimesByLength(TABLE, PassTimes((1, 2, 4), (2.0, 1.5, 3.0)), n_long=100)


def test_without_a_pass_the_table_counts() -> None:
    meter = PassMeter(TABLE)
    assert [meter.seconds(w, 0) for w in (1, 2, 3, 4)] == [1.0, 1.5, 1.75, 2.0]
    assert meter.curve((1, 4), 0).tolist() == [1.0, 2.0]


def test_a_slower_machine_is_slower_at_every_width() -> None:
    meter = PassMeter(TABLE)
    for width in (1, 2, 2):
        assert meter.curve((1, 2, 4), 0).tolist() == [1.0, 1.5, 2.0]  # few passes say nothing
        meter.observe(width, 0, 3 * TABLE(width))
    assert meter.curve((1, 2, 4), 0) == pytest.approx([3.0, 4.5, 6.0])


def test_a_width_that_was_seen_often_speaks_for_itself() -> None:
    meter = PassMeter(TABLE)
    for _ in range(3):
        meter.observe(4, 0, 1.0)
        meter.observe(1, 0, 1.0)
    assert meter.seconds(4, 0) == 1.0
    assert meter.seconds(1, 0) == 1.0


def test_one_disturbed_pass_changes_nothing() -> None:
    meter = PassMeter(TABLE)
    for seconds in (1.0, 1.0, 40.0, 1.0, 1.0):
        meter.observe(1, 0, seconds)
    assert meter.seconds(1, 0) == 1.0


def test_a_model_without_passes_of_its_own_drifts_like_the_one_beside_it() -> None:
    target = PassMeter(LONGER)
    draft = PassMeter(TABLE, beside=target)
    for _ in range(3):
        target.observe(1, 0, 0.8)
    assert draft.curve((1, 4), 0) == pytest.approx([0.8, 1.6])
    for _ in range(3):
        draft.observe(1, 0, 0.5)
    assert draft.curve((1, 4), 0) == pytest.approx([0.5, 1.0])
    assert target.drift == pytest.approx(0.8)


def test_a_model_that_seemed_slow_and_is_not_asked_is_believed_its_table_again() -> None:
    target = PassMeter(TABLE)
    draft = PassMeter(TABLE, beside=target)
    for _ in range(3):
        draft.observe(1, 0, 5.0)
    for _ in range(20):
        target.observe(1, 0, 1.0)
    assert draft.seconds(1, 0) == draft.drift == 5.0
    for _ in range(20):
        target.observe(1, 0, 1.0)
    assert draft.seconds(1, 0) == draft.drift == 1.0


def test_old_passes_are_forgotten() -> None:
    meter = PassMeter(TABLE)
    for seconds in [5.0] * 20 + [1.0] * 9:
        meter.observe(1, 0, seconds)
    assert meter.seconds(1, 0) == 1.0


@pytest.mark.parametrize(("n_past", "seconds"), [(0, 1.0), (50, 1.5), (100, 2.0), (200, 3.0)])
def test_passes_take_longer_after_more_tokens(n_past: int, seconds: float) -> None:
    assert PassMeter(LONGER).seconds(1, n_past) == seconds


def test_a_longer_context_is_never_taken_to_be_faster() -> None:
    noisy = TimesByLength(TABLE, PassTimes((1, 2, 4), (0.5, 0.5, 0.5)), n_long=100)
    assert noisy.at(1000) == TABLE


def test_a_long_pass_is_compared_with_the_table_for_its_length() -> None:
    meter = PassMeter(LONGER)
    for _ in range(3):
        meter.observe(1, 100, 2.0)
    assert meter.seconds(1, 0) == 1.0


def test_a_metered_model_is_the_model_and_times_the_passes_that_are_planned_with() -> None:
    ticks = iter([0.0, 2.0, 2.0, 9.0, 11.0, 11.0, 13.0])
    inner, meter = TableLM(), PassMeter(TABLE)
    model = MeteredModel(inner, meter, lambda: next(ticks))
    rows = model.eval([1])
    assert rows.tolist() == [inner.row([1]).tolist()]
    model.eval([2, 3, 4], n_rows=0)
    assert (model.n_past, model.n_ctx, model.n_batch, model.n_vocab) == (4, 64, 8, 5)
    for _ in range(2):
        model.rollback(1)
        assert inner.kv == [1]
        model.eval([2])
    assert meter.seconds(1, 0) == 2.0
