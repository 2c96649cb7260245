"""Optimal stopping, against a recursion that tries every course of a draft."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.spec.interfaces import Weights
from spec_cli.spec.stopping import stopping_table
from spec_cli.spec.survival import N_MODEL_LEVELS, Survival

FLAT = np.ones(6)
LINEAR = np.arange(1.0, 7.0)
DIP = np.array([1.0, 1.9, 2.0, 2.0, 3.5, 3.5])


def worth(
    j: int,
    survival: float,
    level: int,
    acceptance: Weights,
    following: Weights,
    *,
    draft: float,
    verify: Weights,
    may_drop: bool,
) -> float:
    """C_j(A, l) by its definition, with no grid."""
    if j + 1 >= verify.size:
        return 0.0
    total = -draft
    for m, chance in enumerate(following[level]):
        held = survival * acceptance[m]
        gain = held - (verify[j + 1] - verify[j])
        gain += worth(
            j + 1, held, m, acceptance, following, draft=draft, verify=verify, may_drop=may_drop
        )
        total += chance * (max(gain, 0.0) if may_drop else gain)
    return max(total, 0.0)


@given(
    acceptance=st.lists(st.floats(0, 1), min_size=2, max_size=2),
    chances=st.lists(st.floats(0.01, 0.99), min_size=3, max_size=3),
    draft=st.floats(0, 0.6),
    verify=st.sampled_from([FLAT, LINEAR, DIP]),
    may_drop=st.booleans(),
)
def test_the_table_is_the_definition(
    acceptance: list[float], chances: list[float], draft: float, verify: Weights, may_drop: bool
) -> None:
    a = np.array(acceptance)
    following = np.array([[c, 1 - c] for c in chances])
    table = stopping_table(a, following, draft=draft, verify=verify, may_drop=may_drop)
    for level in range(3):
        exact = worth(0, 1.0, level, a, following, draft=draft, verify=verify, may_drop=may_drop)
        # The grid interpolates a convex function from above.
        assert exact - 1e-9 <= table(0, 1.0, level) <= exact + 0.03


def test_free_and_certain_guesses_are_worth_all_that_fit() -> None:
    table = stopping_table(np.array([1.0]), np.ones((2, 1)), draft=0.0, verify=FLAT, may_drop=True)
    assert [table(j, 1.0, 0) for j in range(7)] == pytest.approx([5, 4, 3, 2, 1, 0, 0])


def test_what_lies_beyond_a_steep_step_is_seen() -> None:
    """One token alone costs more than it brings, three bring more than they cost."""
    table = stopping_table(np.array([0.9]), np.ones((2, 1)), draft=0.05, verify=DIP, may_drop=True)
    assert 0.9 - 0.05 - (DIP[1] - DIP[0]) < 0
    assert table(0, 1.0, 1) > 0


def test_a_token_that_may_be_dropped_is_worth_more() -> None:
    survival = Survival()
    dropped, kept = (
        stopping_table(
            survival.model_acceptance(),
            survival.following(),
            draft=0.1,
            verify=0.4 + 0.6 * LINEAR,
            may_drop=may_drop,
        )(0, 1.0, N_MODEL_LEVELS)
        for may_drop in (True, False)
    )
    assert dropped > kept >= 0
