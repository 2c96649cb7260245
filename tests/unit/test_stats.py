"""The definitions of the figures that a run reports."""

from __future__ import annotations

import pytest

from spec_cli.spec.stats import MIN_PLAIN_STEPS, RECENT_ROUNDS, RoundCount, RunStats


def stats_of(*rounds: tuple[int, int, int], plain_step_s: float | None = None) -> RunStats:
    """Rounds as (drafted, accepted, emitted), each of 1 s draft, 2 s verify and 1 s host time."""
    stats = RunStats(plain_step_estimate_s=plain_step_s)
    for numbers in rounds:
        stats.add_round(RoundCount(*numbers), draft_s=1.0, verify_s=2.0, host_s=1.0)
    return stats


def test_nothing_generated_has_no_figures() -> None:
    stats = stats_of()
    assert stats.acceptance_rate is stats.acceptance_length is stats.tokens_per_s is None
    assert stats.speedup is stats.recent_acceptance_rate is stats.prompt_tokens_per_s is None
    assert stats.acceptance_rate_at == []


def test_rates_and_lengths_follow_their_definitions() -> None:
    stats = stats_of((0, 0, 1), (3, 3, 4), (3, 1, 2), (2, 0, 1))
    assert stats.acceptance_rate == 4 / 8
    assert stats.acceptance_length == 8 / 4
    assert stats.tokens_per_s == 8 / 16
    assert stats.acceptance_rate_at == [2 / 3, 1 / 3, 1 / 2]
    assert stats.accepted_histogram == [1, 1, 0, 1]


def test_recent_figures_forget_old_rounds() -> None:
    stats = stats_of(*[(1, 0, 1)] * 50, *[(1, 1, 2)] * RECENT_ROUNDS)
    assert stats.recent_acceptance_rate == 1
    assert stats.acceptance_rate == pytest.approx(RECENT_ROUNDS / (50 + RECENT_ROUNDS))


def test_the_speedup_is_plain_time_over_own_time_for_the_same_tokens() -> None:
    speedup = stats_of((3, 3, 4), plain_step_s=2.0).speedup
    assert speedup is not None and speedup.ratio == 4 * 2.0 / 4.0
    assert not speedup.measured


def test_enough_plain_steps_of_this_run_replace_the_estimate() -> None:
    few = stats_of(*[(0, 0, 1)] * (MIN_PLAIN_STEPS - 1), plain_step_s=9.0).speedup
    enough = stats_of(*[(0, 0, 1)] * MIN_PLAIN_STEPS, plain_step_s=9.0).speedup
    assert few is not None and not few.measured
    # A plain step is verify and host time; the draft time of this made-up round is extra.
    assert enough is not None and enough.measured and enough.ratio == 3 / 4
