"""Ratios, their means and intervals, and the verdict that they allow."""

from __future__ import annotations

import math
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest

from spec_cli.bench.matrix import PLAIN, Arm
from spec_cli.bench.ratios import PromptKey, Ratios, kept, prompt_ratios, ratios_of, score
from spec_cli.bench.statistics import Estimate, estimate
from spec_cli.bench.verdict import verdict
from spec_cli.settings import DrafterKind
from spec_cli.spec.settings import Accept
from tests.unit.test_bench_runs import AUTO, FOUR, made


def test_the_mean_is_geometric() -> None:
    assert estimate([2.0, 0.5], 1).mean == pytest.approx(1.0)
    assert estimate([1.0, 8.0, 1.0], 1).mean == pytest.approx(2.0)
    same = estimate([1.1] * 9, 1)
    assert (same.mean, same.low, same.high) == pytest.approx((1.1, 1.1, 1.1)) and same.n == 9


def test_one_ratio_has_no_interval() -> None:
    found = estimate([1.5], 1)
    assert (found.low, found.high, found.n) == (None, None, 1)
    assert estimate([1.5], 1).side == 0


def test_the_interval_of_two_ratios_is_spanned_by_them() -> None:
    # Each resample is one of four, so more than 2.5 % of them are the smaller one twice.
    found = estimate([1.0, 4.0], 1)
    assert (found.low, found.high) == pytest.approx((1.0, 4.0))


def test_the_interval_is_that_of_all_resamples_at_expanded_percentiles() -> None:
    ratios = [0.9, 1.0, 1.1, 1.3, 1.6]
    means = [math.exp(np.log(sample).mean()) for sample in product(ratios, repeat=5)]
    # Student's t has 2.5 % beyond 2.7764 with four degrees of freedom.
    tail = NormalDist().cdf(-math.sqrt(5 / 4) * 2.7764)
    low, high = np.quantile(means, (tail, 1 - tail))
    found = estimate(ratios, 1)
    assert found.low == pytest.approx(low, abs=0.02)
    assert found.high == pytest.approx(high, abs=0.03)


@pytest.mark.parametrize(("n", "share"), [(5, 0.88), (7, 0.92), (14, 0.93)])
def test_the_interval_holds_the_mean_about_as_often_as_it_says(n: int, share: float) -> None:
    rng = np.random.default_rng(0)
    found = [estimate(np.exp(rng.normal(0, 0.3, n)).tolist(), i) for i in range(500)]
    held = [e.low is not None and e.high is not None and e.low <= 1 <= e.high for e in found]
    assert np.mean(held) > share


def test_intervals_are_those_of_their_seed() -> None:
    ratios = [0.9, 1.0, 1.1, 1.3, 1.6, 1.7, 1.9]
    assert estimate(ratios, 1) == estimate(ratios, 1) != estimate(ratios, 2)


def test_few_prompts_leave_the_question_open() -> None:
    assert estimate([1.5] * 4, 1).side == 0
    assert estimate([1.5] * 5, 1).side == 1
    assert estimate([0.5] * 5, 1).side == -1


@pytest.mark.parametrize(
    ("low", "high", "side"), [(1.01, 1.2, 1), (0.8, 0.99, -1), (0.99, 1.01, 0), (1.0, 1.2, 0)]
)
def test_an_interval_with_1_in_it_leaves_the_question_open(
    low: float, high: float, side: int
) -> None:
    assert Estimate(1.0, low, high, 5).side == side


def test_a_prompt_counts_with_the_median_of_its_rounds() -> None:
    runs = [made(FOUR, ratio, round_=i) for i, ratio in enumerate((1.0, 3.0, 1.2))]
    runs.append(made(FOUR, 0.8, prompt="p1"))
    ratios = {key.id: ratio for key, ratio in prompt_ratios(runs).items()}
    assert ratios == {"p0": pytest.approx(1.2), "p1": pytest.approx(0.8)}


def test_of_a_group_measured_twice_the_steadier_attempt_counts() -> None:
    noisy, steady = made(FOUR, 3.0, noise=0.2), made(FOUR, 1.1, noise=0.01, attempt=1)
    worse, other = made(FOUR, 1.2, noise=0.3, attempt=1), made(FOUR, 2.0, noise=0.4, round_=1)
    assert kept([noisy, steady]) == [steady]
    assert kept([noisy, worse, other]) == [noisy, other]
    plain = [made(PLAIN), made(PLAIN, turn=1)]
    assert kept(plain) == plain


def test_temperatures_are_joined_where_a_prompt_has_them_all() -> None:
    runs = [
        made(FOUR, 1.0, temp=0.0),
        made(FOUR, 4.0, temp=0.8),
        made(FOUR, 9.0, temp=0.0, prompt="p1"),
        made(AUTO, 9.0, temp=0.8),
    ]
    assert {k.id: r for k, r in ratios_of(runs, FOUR, (0.0, 0.8)).items()} == {
        "p0": pytest.approx(2.0)
    }
    assert len(ratios_of(runs, FOUR, (0.0,))) == 2


def test_at_temperature_0_all_acceptance_rules_are_the_same_run() -> None:
    block = Arm(DrafterKind.AUTO, 4, Accept.BLOCK)
    runs = [made(FOUR, 1.5), made(block, 2.0, temp=0.8), made(FOUR, 1.0, temp=0.8)]
    assert list(ratios_of(runs, block, (0.0,)).values()) == [pytest.approx(1.5)]
    assert list(ratios_of(runs, block, (0.8,)).values()) == [pytest.approx(2.0)]


def test_the_worst_prompt_is_named() -> None:
    found = score(ratios(1.2, 0.7, 1.4), 1)
    assert found is not None
    assert (found.worst_prompt, found.worst) == ("p1", 0.7)
    assert score({}, 1) is None


def ratios(*values: float) -> Ratios:
    return {PromptKey("code", f"p{i}", ""): value for i, value in enumerate(values)}


def test_a_winner_is_named_with_its_interval_and_worst_prompt() -> None:
    found = verdict(
        {FOUR: ratios(1.0, 1.01, 1.02, 1.0, 1.0), AUTO: ratios(1.2, 1.1, 1.3, 1.2, 1.2)}, 1
    )
    assert found.arm == AUTO
    assert found.sentence == (
        "`-k auto` is the fastest of these: 1.20x plain (1.12 to 1.28), worst prompt p1 1.10x"
    )


def test_an_only_arm_beats_plain_decoding() -> None:
    assert verdict({AUTO: ratios(1.2, 1.1, 1.3, 1.2, 1.2)}, 1).sentence.startswith(
        "`-k auto` beats plain decoding here: 1.20x"
    )


def test_arms_that_cannot_be_told_apart_are_named() -> None:
    near = verdict(
        {FOUR: ratios(1.3, 1.1, 1.2, 1.2, 1.2), AUTO: ratios(1.2, 1.2, 1.3, 1.2, 1.2)}, 1
    )
    assert near.arm == AUTO and near.sentence.endswith("; too close to call: `-k 4`")


def test_an_interval_with_1_in_it_does_not_win() -> None:
    found = verdict({AUTO: ratios(1.3, 0.9, 1.1)}, 1)
    assert found.arm == PLAIN
    assert found.sentence.startswith(
        "nothing is shown to beat plain decoding here: `-k auto` comes closest, 1.09x plain (0.90"
    )


def test_one_prompt_proves_nothing() -> None:
    found = verdict({AUTO: ratios(1.5)}, 1)
    assert found.arm == PLAIN
    assert found.sentence == (
        "nothing is shown to beat plain decoding here: `-k auto` comes closest, 1.50x plain "
        "(one prompt, no interval); more prompts or rounds would tell"
    )


def test_where_all_lose_plain_decoding_is_recommended() -> None:
    found = verdict({FOUR: ratios(0.7, 0.6), AUTO: ratios(0.98, 0.99)}, 1)
    assert found.arm == PLAIN
    assert found.sentence.startswith(
        "nothing beat plain decoding here: the best of the others, `-k auto`, gives 0.98x plain"
    )


def test_nothing_measured_is_nothing_claimed() -> None:
    assert verdict({AUTO: {}}, 1).sentence == (
        "no prompt was measured in full, so nothing can be said"
    )
