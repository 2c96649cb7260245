"""The summary: four lines that can be trusted."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from spec_cli.events import DraftingOff, Finished, FinishReason
from spec_cli.render.info import RunInfo
from spec_cli.render.style import number
from spec_cli.render.summary import Summary, summary_lines
from spec_cli.spec.counts import counted
from spec_cli.spec.stats import RoundCount, RunStats
from tests.cli.scripted_run import INFO

PLAIN = replace(INFO, draft=None, drafter="none")


def stats(*, drafted: bool = True, estimate_s: float | None = 0.032) -> RunStats:
    run = RunStats(n_prompt=512, prefill_s=0.21, ttft_s=0.25, plain_step_estimate_s=estimate_s)
    for _ in range(10):
        count = RoundCount(4, 2, 3) if drafted else RoundCount(0, 0, 1)
        run.add_round(count, draft_s=0.008 * drafted, verify_s=0.04, host_s=0.0)
    return run


def lines(
    run: RunStats,
    info: RunInfo = INFO,
    reason: FinishReason = FinishReason.STOP,
    *,
    stop: str | None = None,
    off: str | None = None,
) -> list[str]:
    return summary_lines(info, Finished(reason, (), run, stop), off)


def test_four_lines_say_speed_drafting_the_text_and_the_rest() -> None:
    assert lines(stats()) == [
        "speed  62.5 tok/s, 2.00x plain (est.); 30 tokens in 0.48 s; end of text",
        "draft  20/40 accepted (50 %), k=auto, 3.0 tok/pass, draft 8.0 + verify 40.0 ms",
        "text   bit-exact: widths 1-8; coupled, seed 1234",
        "run    prompt 512 tokens 0.21 s, first token 0.25 s, load 0.90 s",
    ]


def test_one_token_is_no_tokens() -> None:
    assert counted(1, "token") == "1 token"
    assert [counted(n, "token") for n in (0, 2)] == ["0 tokens", "2 tokens"]
    assert [counted(n, "byte") for n in (999, 1000, 8_388_608)] == [
        "999 bytes",
        "1,000 bytes",
        "8,388,608 bytes",
    ]


def test_a_speedup_from_this_very_run_is_called_measured() -> None:
    run = stats()
    for _ in range(8):
        run.add_round(RoundCount(0, 0, 1), draft_s=0.0, verify_s=0.03, host_s=0.0)
    assert "x plain (measured);" in lines(run)[0]


def test_without_a_known_plain_step_there_is_no_speedup() -> None:
    assert "plain" not in lines(stats(estimate_s=None))[0]


def test_a_plain_run_is_not_compared_with_itself_and_has_no_draft_line() -> None:
    speed, text, run = lines(stats(drafted=False), PLAIN)
    assert "plain" not in speed
    assert text.startswith("text ") and run.startswith("run ")


def test_where_kernels_differ_by_width_near_ties_are_counted() -> None:
    fast = replace(INFO, plan=replace(INFO.plan, widths=None, max_difference=0.1), accept="greedy")
    run = stats()
    assert lines(run, fast)[2] == "text   fast: kernels differ by width, 0 near-ties; greedy"
    run.n_near_ties = 1
    assert lines(run, fast)[2] == "text   fast: kernels differ by width, 1 near-tie; greedy"


def test_drafting_that_is_off_is_explained() -> None:
    reason = "a draft token takes 20.1 ms, a plain step 31.0 ms"
    assert lines(stats(drafted=False), off=reason)[1] == f"draft  off: {reason}"
    drafted_first = lines(stats(), off=reason)[1]
    assert drafted_first.startswith("draft  20/40 accepted (50 %)")
    assert drafted_first.endswith(f"; off: {reason}")


@pytest.mark.parametrize(
    ("reason", "stop", "words"),
    [
        (FinishReason.STOP, None, "; end of text"),
        (FinishReason.LENGTH, None, "; length limit"),
        (FinishReason.INTERRUPTED, None, "; interrupted"),
        (FinishReason.STOP_STRING, "\n\n", "; stop string '\\n\\n'"),
    ],
)
def test_the_end_is_named(reason: FinishReason, stop: str | None, words: str) -> None:
    assert lines(stats(), reason=reason, stop=stop)[0].endswith(words)


def test_what_is_not_known_is_not_zero() -> None:
    assert lines(RunStats(), PLAIN) == [
        "speed  n/a tok/s; 0 tokens in 0.00 s; end of text",
        "text   bit-exact: widths 1-8; coupled, seed 1234",
        "run    prompt 512 tokens 0.00 s, first token n/a, load 0.90 s",
    ]


def test_styles_are_for_terminals_and_change_no_word() -> None:
    for styled in (False, True):
        stderr = io.StringIO()
        summary = Summary(stderr, INFO, styled=styled, legend=styled)
        summary.handle(DraftingOff("too slow"))
        summary.handle(Finished(FinishReason.STOP, (), stats()))
        out = stderr.getvalue()
        assert out.count("\n") == (5 if styled else 4)
        assert ("\x1b" in out) == styled
        assert "; off: too slow" in out
        assert ("correction" in out) == styled


def test_numbers_keep_their_width() -> None:
    values = (0.0, 0.994, 0.996, 9.96, 99.94, 99.96, 1234.5)
    assert [number(value) for value in values] == [
        "0.00", "0.99", "1.0", "10.0", "99.9", "100", "1,234"
    ]  # fmt: skip
