"""How many tokens are drafted, and when none are."""

from __future__ import annotations

import itertools

from spec_cli.spec.costs import CostTable, PassTimes
from spec_cli.spec.policy import K_MAX, CostAware, FixedLength
from spec_cli.spec.stats import RoundCount

WIDTHS = tuple(range(1, 17))
CHEAP = CostTable(PassTimes(WIDTHS, (1.0,) * 16), 0.05)
TIGHT = CostTable(PassTimes(WIDTHS, tuple(0.5 + 0.5 * w for w in WIDTHS)), 0.2)


def feed(policy: CostAware, n_rounds: int, acceptance: int) -> list[int]:
    """Rounds in which the first `acceptance` draft tokens are right; the planned lengths."""
    planned = []
    for _ in range(n_rounds):
        k = policy.plan(K_MAX)
        n_accepted = min(k, acceptance)
        policy.observe(RoundCount(k, n_accepted, n_accepted + 1))
        planned.append(k)
    return planned


def test_a_fixed_length_is_kept_but_for_the_room_left() -> None:
    policy = FixedLength(4)
    assert [policy.plan(room) for room in (9, 4, 2, 0)] == [4, 4, 2, 0]


def test_guesses_that_hold_make_drafts_longer_and_failures_make_them_shorter() -> None:
    policy = CostAware(CHEAP)
    assert feed(policy, 40, acceptance=99)[-1] == K_MAX
    assert feed(policy, 60, acceptance=1)[-1] <= 4


def test_drafting_stops_when_it_loses() -> None:
    policy = CostAware(TIGHT)
    planned = feed(policy, 400, acceptance=0)
    assert planned[0] > 0
    assert sum(k > 0 for k in planned[50:]) <= 4
    assert all(k <= 1 for k in planned[50:])


def test_pauses_grow_while_trying_again_fails() -> None:
    policy = CostAware(TIGHT)
    planned = feed(policy, 600, acceptance=0)
    tries = [i for i, k in enumerate(planned) if k > 0 and i > 20]
    gaps = [b - a for a, b in itertools.pairwise(tries)]
    assert len(gaps) >= 2 and gaps == sorted(gaps) and gaps[-1] > gaps[0]


def test_drafting_comes_back_when_guesses_hold_again() -> None:
    policy = CostAware(TIGHT)
    feed(policy, 60, acceptance=0)
    assert feed(policy, 1200, acceptance=99)[-1] > 1


def test_a_plain_step_by_choice_is_explained_with_numbers() -> None:
    policy = CostAware(TIGHT)
    feed(policy, 30, acceptance=0)
    assert policy.plan(K_MAX) == 0
    assert policy.idle_reason is not None
    assert f"acceptance of {policy.acceptance:.0%}" in policy.idle_reason
    assert "0.92x plain" in policy.idle_reason
    feed(policy, 1500, acceptance=99)
    assert policy.idle_reason is None


def test_no_room_is_no_reason() -> None:
    policy = CostAware(CHEAP)
    assert policy.plan(0) == 0 and policy.idle_reason is None


def test_the_room_bounds_every_plan() -> None:
    policy = CostAware(CHEAP)
    assert [policy.plan(room) <= room for room in (0, 1, 2)] == [True] * 3


def test_plain_rounds_teach_nothing_about_acceptance() -> None:
    policy = CostAware(CHEAP)
    before = policy.acceptance
    policy.observe(RoundCount(0, 0, 1))
    assert policy.acceptance == before


def test_unjudged_tokens_after_a_rejection_do_not_count() -> None:
    one, two = CostAware(CHEAP), CostAware(CHEAP)
    one.observe(RoundCount(2, 1, 2))
    two.observe(RoundCount(9, 1, 2))
    assert one.acceptance == two.acceptance
