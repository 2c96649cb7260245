"""What is measured of a run, and how it survives as a row."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from spec_cli.bench.figures import figures
from spec_cli.bench.limits import Limits
from spec_cli.bench.matrix import PLAIN, Arm
from spec_cli.bench.measure import Measure, Run, measure_of
from spec_cli.bench.rows import row_of, run_of, setup_of
from spec_cli.events import Finished, FinishReason
from spec_cli.settings import DrafterKind
from spec_cli.spec.settings import Accept
from spec_cli.spec.stats import RoundCount, RunStats

FOUR = Arm(DrafterKind.AUTO, 4)
AUTO = Arm(DrafterKind.AUTO, None)
MEASURE = Measure(
    n_prompt=20,
    n_tokens=10,
    finish_reason="length",
    tokens_sha256="00",
    first_difference=None,
    ttft_s=0.5,
    prefill_s=0.4,
    draft_s=0.1,
    verify_s=0.8,
    host_s=0.1,
    n_rounds=5,
    n_drafting_rounds=3,
    n_drafted=8,
    n_accepted=5,
    drafted_at=(3, 3, 2),
    accepted_at=(3, 2, 0),
)


def made(
    arm: Arm,
    speedup: float = 1.0,
    *,
    prompt: str = "p0",
    kind: str = "code",
    temp: float = 0.0,
    round_: int = 0,
    attempt: int = 0,
    turn: int = 0,
    noise: float = 0.0,
    difference: int | None = None,
) -> Run:
    """A run that is `speedup` times as fast as plain decoding, which takes 0.1 s for a token."""
    share = 0.1 / speedup * MEASURE.n_tokens / MEASURE.decode_s
    times = {name: getattr(MEASURE, name) * share for name in ("draft_s", "verify_s", "host_s")}
    return Run(
        arm=arm,
        prompt=prompt,
        kind=kind,
        prompt_sha256=f"sha of {prompt}",
        temp=temp,
        round=round_,
        attempt=attempt,
        turn=turn,
        load=0.5,
        plain_token_s=0.1,
        noise=noise,
        measure=replace(MEASURE, first_difference=difference, **times),
    )


def finished(tokens: tuple[int, ...]) -> Finished:
    stats = RunStats(n_prompt=3, prefill_s=0.25, ttft_s=0.5)
    for count in (RoundCount(0, 0, 1), RoundCount(3, 1, 2), RoundCount(2, 2, 3)):
        stats.add_round(count, draft_s=0.125, verify_s=0.5, host_s=0.25)
    return Finished(FinishReason.LENGTH, tokens, stats)


def test_a_measure_has_the_figures_of_the_run() -> None:
    measure = measure_of(finished((1, 2, 3, 4, 5, 6)), (1, 2, 3, 4, 5, 6))
    assert (measure.n_prompt, measure.n_tokens, measure.n_rounds) == (3, 6, 3)
    assert (measure.n_drafted, measure.n_accepted, measure.n_drafting_rounds) == (5, 3, 2)
    assert (measure.drafted_at, measure.accepted_at) == ((2, 2, 1), (2, 1, 0))
    assert (measure.draft_s, measure.verify_s, measure.host_s) == (0.375, 1.5, 0.75)
    assert measure.decode_s == 2.625 and measure.token_s == 0.4375
    assert measure.first_difference is None and measure.finish_reason == "length"


@pytest.mark.parametrize(
    ("tokens", "at"), [((1, 9, 3), 1), ((1, 2), 2), ((1, 2, 3, 4), 3), ((9, 2, 3), 0)]
)
def test_the_first_difference_from_plain_decoding_is_found(
    tokens: tuple[int, ...], at: int
) -> None:
    measure = measure_of(finished(tokens), (1, 2, 3))
    assert measure.first_difference == at
    assert measure.tokens_sha256 != measure_of(finished((1, 2, 3)), (1, 2, 3)).tokens_sha256


def test_texts_of_unequal_length_are_compared_by_their_time_per_token() -> None:
    run = made(FOUR, 1.25)
    shorter = replace(run.measure, n_tokens=5, draft_s=0.0, host_s=0.0, verify_s=0.4)
    assert run.speedup == pytest.approx(1.25)
    assert replace(run, measure=shorter).speedup == pytest.approx(1.25)


ARMS = [PLAIN, FOUR, AUTO, Arm(DrafterKind.NGRAM, 3, Accept.BLOCK)]


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.name)
@pytest.mark.parametrize("limits", [None, Limits(1.5, 1.75)])
def test_a_row_is_json_and_becomes_the_run_again(arm: Arm, limits: Limits | None) -> None:
    run = replace(made(arm, 1.5, temp=0.8, difference=3), limits=limits, load=None)
    setup = {"cpu": "a CPU", "widths": [1, 2], "draft_file": None}
    row = json.loads(json.dumps(row_of(setup, run), allow_nan=False))
    assert run_of(row) == run
    assert setup_of(row) == setup


def test_a_row_tells_what_can_be_derived() -> None:
    row = row_of({}, made(FOUR, 2.0))
    assert row["decode_s"] == pytest.approx(0.5)
    assert row["tokens_per_s"] == pytest.approx(20)
    assert (row["acceptance_rate"], row["acceptance_length"]) == (0.625, 2.0)
    assert row["speedup"] == pytest.approx(2.0)
    assert (
        row_of({}, replace(made(AUTO), measure=replace(MEASURE, n_drafted=0)))["acceptance_rate"]
        is None
    )


def test_figures_are_those_of_all_runs_together() -> None:
    one = made(FOUR, 1.0)
    other = replace(
        one,
        measure=replace(
            MEASURE,
            n_rounds=10,
            n_drafted=2,
            n_accepted=0,
            drafted_at=(2,),
            accepted_at=(0,),
            draft_s=0.0,
            verify_s=3.0,
            host_s=0.0,
            prefill_s=0.6,
            ttft_s=0.7,
        ),
        limits=Limits(1.5, 2.0),
    )
    both = figures([replace(one, limits=Limits(6.0, 8.0)), other])
    assert both is not None
    assert (both.n_runs, both.n_tokens, both.n_drafted, both.n_accepted) == (2, 20, 10, 5)
    assert both.acceptance_rate == 0.5
    assert both.acceptance_length == pytest.approx(20 / 15)
    assert both.acceptance_at == pytest.approx((0.6, 2 / 3, 0.0))
    assert both.tokens_per_s == pytest.approx(5)
    assert both.prompt_tokens_per_s == pytest.approx(40)
    assert both.ttft_s == pytest.approx(0.6)
    assert both.draft_share == pytest.approx(0.025)
    assert both.draft_share + both.verify_share + both.host_share == pytest.approx(1)
    assert (both.oracle_stop, both.free_draft) == pytest.approx((3, 4))


def test_what_did_not_occur_has_no_figures() -> None:
    assert figures([]) is None
    plain = replace(
        MEASURE, n_drafted=0, n_accepted=0, drafted_at=(), accepted_at=(), prefill_s=0.0
    )
    none = figures([replace(made(PLAIN), measure=plain)])
    assert none is not None
    assert none.acceptance_rate is None and none.acceptance_at == ()
    assert none.oracle_stop is None and none.prompt_tokens_per_s is None
