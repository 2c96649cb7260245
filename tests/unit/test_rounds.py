"""What a round drafts at given prices: by expected gain, and within its credit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spec_cli.spec.interfaces import Evidence, Source, Weights
from spec_cli.spec.rounds import CostAwareRound, FixedRound, Prices
from spec_cli.spec.stopping import stopping_table
from spec_cli.spec.survival import N_COPY_LEVELS, N_MODEL_LEVELS, Survival, model_evidence

SURE = Evidence(Source.COPY, N_COPY_LEVELS - 1)
UNSURE = Evidence(Source.COPY, 0)
FLAT = np.ones(8)
LINEAR = np.arange(1.0, 9.0)
STEEP = np.array([1.0, 1.6, 2.2, 2.8, 3.4, 4.0, 4.6, 5.2])
ACCEPTANCE = Survival().acceptance


def a_round(
    verify: Weights = FLAT,
    *,
    draft_s: float | None = None,
    catch_up_s: float = 0.0,
    invested_s: float = 0.0,
    credit_s: float = math.inf,
    is_try: bool = False,
    may_drop: bool = True,
    room: int = 7,
    level: int = N_MODEL_LEVELS,
) -> CostAwareRound:
    survival = Survival()
    prices = Prices(verify, draft_s or 0.0, catch_up_s, invested_s, rate=1.0)
    table = None
    if draft_s is not None:
        table = stopping_table(
            survival.model_acceptance(),
            survival.following(),
            draft=draft_s,
            verify=verify,
            may_drop=may_drop,
        )
    return CostAwareRound(
        room,
        prices,
        survival,
        table,
        level=level,
        credit_s=credit_s,
        is_try=is_try,
        may_drop=may_drop,
    )


def test_free_checks_take_every_copy_there_is_room_for() -> None:
    plan = a_round(room=5)
    assert plan.take([UNSURE] * 9) == 5
    assert (plan.room, plan.keep()) == (0, 5)


def test_copies_are_taken_while_each_is_likelier_than_its_check_is_dear() -> None:
    assert a_round(STEEP).take([SURE, SURE, UNSURE, SURE]) == 2
    assert a_round(STEEP).take([UNSURE, SURE]) == 0
    assert a_round(LINEAR).take([SURE] * 5) == 0


def test_a_stretch_that_costs_the_same_as_its_first_token_is_taken_whole() -> None:
    """Two tokens alone do not pay, five at the price of two do."""
    steps = np.array([1.0, 2.2, 2.4, 2.4, 2.4, 2.4, 9.0, 9.0])
    assert a_round(steps).take([SURE, SURE]) == 2
    assert a_round(steps).take([SURE]) == 0
    assert a_round(steps).take([SURE] * 7) == 5


def test_the_draft_model_goes_on_while_its_guesses_are_worth_it() -> None:
    plan = a_round(STEEP, draft_s=0.1)
    assert plan.wants_model()
    plan.add(model_evidence(0.999))
    assert plan.wants_model()
    plan.add(model_evidence(0.1))
    assert not plan.wants_model()


def test_a_guess_that_turned_out_unsure_is_not_checked() -> None:
    plan = a_round(STEEP, draft_s=0.1)
    plan.add(model_evidence(0.999))
    plan.add(model_evidence(0.1))
    assert plan.keep() == 1
    assert a_round(STEEP, draft_s=0.1).keep() == 0


def test_what_was_drawn_at_random_is_always_checked() -> None:
    plan = a_round(STEEP, draft_s=0.1, may_drop=False)
    plan.add(model_evidence(0.999))
    plan.add(model_evidence(0.1))
    assert plan.keep() == 2


def test_a_dear_draft_model_is_not_asked() -> None:
    assert not a_round(STEEP, draft_s=0.9).wants_model()
    assert not a_round(STEEP, draft_s=0.05, catch_up_s=5.0).wants_model()


def test_catching_up_is_paid_once() -> None:
    plan = a_round(FLAT, draft_s=0.05, catch_up_s=1.0)
    assert plan.wants_model()
    plan.add(model_evidence(0.999))
    assert plan.wants_model()


def test_a_model_that_is_tried_makes_one_guess_and_no_more() -> None:
    plan = a_round(STEEP, draft_s=0.9, is_try=True)
    assert plan.wants_model() and not plan.used_model
    plan.add(model_evidence(0.5))
    assert plan.used_model and not plan.wants_model()


def test_no_round_can_lose_more_than_its_credit() -> None:
    """Whatever is rejected: the drafts made, and the check of those kept, against a plain step."""
    for credit in np.arange(0.0, 4.0, 0.25):
        plan = a_round(STEEP, draft_s=0.1, credit_s=float(credit))
        spent = 0.0
        while plan.wants_model():
            plan.add(model_evidence(0.999))
            spent += 0.1
        assert spent + STEEP[plan.keep()] - STEEP[0] <= credit + 1e-9
        plan = a_round(STEEP, credit_s=float(credit))
        assert STEEP[plan.take([SURE] * 7)] - STEEP[0] <= credit + 1e-9
    assert not a_round(STEEP, draft_s=0.1, credit_s=0.69).wants_model()
    assert a_round(STEEP, draft_s=0.1, credit_s=0.71).wants_model()


def test_what_later_rounds_repay_counts_as_a_loss_but_not_against_the_gain() -> None:
    prices = {"draft_s": 0.1, "catch_up_s": 0.1, "invested_s": 2.0}
    assert not a_round(STEEP, **prices, credit_s=2.79).wants_model()
    plan = a_round(STEEP, **prices, credit_s=2.81)
    assert plan.wants_model()
    plan.add(model_evidence(0.999))
    assert not plan.wants_model()  # the next guess would have to be affordable, too
    assert a_round(STEEP, **prices).wants_model()


def test_a_sure_copy_goes_before_a_guess_and_an_unsure_one_leaves_it_to_the_model() -> None:
    assert a_round(STEEP, draft_s=0.3).take([SURE] * 3, or_model=True) == 3
    assert a_round(STEEP, draft_s=0.05).take([UNSURE] * 3, or_model=True) == 0


def test_a_copy_may_go_first_where_the_model_can_go_on_from_it() -> None:
    plan = a_round(STEEP, draft_s=0.05)
    assert plan.take([SURE, SURE, UNSURE], or_model=True) == 2
    assert plan.wants_model()


@pytest.mark.parametrize("k", [1, 3, 7])
def test_a_fixed_round_drafts_so_many_and_checks_them_all(k: int) -> None:
    plan = FixedRound(k)
    n = plan.take([UNSURE, UNSURE])
    assert n == min(k, 2)
    while plan.wants_model():
        plan.add(model_evidence(0.1))
        n += 1
    assert n == k == plan.keep()


def test_a_fixed_round_takes_sure_copies_before_the_model_and_unsure_ones_after_nothing() -> None:
    assert FixedRound(4).take([SURE, UNSURE, SURE], or_model=True) == 1
    assert FixedRound(4).take([UNSURE, SURE], or_model=True) == 0
    assert FixedRound(4).take([UNSURE, SURE], or_model=False) == 2
    assert ACCEPTANCE(SURE) > 0.75 > ACCEPTANCE(UNSURE)


def test_a_sure_guess_that_held_makes_the_next_one_worth_more_but_not_after_a_copy() -> None:
    sure = model_evidence(0.999).level
    prices = {"draft_s": 0.3, "level": sure}
    assert a_round(STEEP, **prices).wants_model()
    assert not a_round(STEEP, draft_s=0.3).wants_model()
    plan = a_round(STEEP, **prices)
    assert plan.take([SURE]) == 1
    assert not plan.wants_model()
