"""The line after an answer of a chat."""

from __future__ import annotations

import io
import os
from dataclasses import replace

import pytest

from spec_cli.events import Finished, FinishReason
from spec_cli.render.turn import TurnLine, turn_line
from spec_cli.spec.stats import RoundCount, RunStats
from tests.cli.scripted_run import INFO

WHOLE = (
    "62.5 tok/s, 2.00x plain (est.); 50 % accepted; prompt 512, 480 kept, 0.21 s; context 13 %; "
    "seed 1234"
)


def finished(
    reason: FinishReason = FinishReason.STOP, *, n_cached: int = 480, n_drafted: int = 4
) -> Finished:
    stats = RunStats(n_prompt=512, n_cached=n_cached, prefill_s=0.21, plain_step_estimate_s=0.032)
    for _ in range(10):
        count = RoundCount(n_drafted, n_drafted // 2, 3)
        stats.add_round(count, draft_s=0.008, verify_s=0.04, host_s=0.0)
    return Finished(reason, (), stats)


def test_the_line_has_speed_drafts_and_how_much_of_the_context_is_used() -> None:
    assert turn_line(INFO, finished(), None) == WHOLE


def test_what_does_not_fit_the_terminal_is_left_out_from_the_end() -> None:
    for width in range(10, 130):
        line = turn_line(INFO, finished(), width)
        assert WHOLE.startswith(line)
        assert len(line) <= max(width, WHOLE.index(";"))
    assert turn_line(INFO, finished(), 60) == WHOLE[: WHOLE.index("; prompt")]


def test_an_end_that_is_not_the_models_comes_early() -> None:
    for reason, words in (
        (FinishReason.INTERRUPTED, "interrupted"),
        (FinishReason.LENGTH, "length limit"),
        (FinishReason.STOP_STRING, "stop string"),
    ):
        assert turn_line(INFO, finished(reason), None).split("; ")[1] == words


def test_of_what_did_not_happen_nothing_is_said() -> None:
    info = replace(INFO, accept="greedy")
    line = turn_line(info, finished(n_cached=0, n_drafted=0), None)
    assert line == "62.5 tok/s; prompt 512, 0.21 s; context 13 %"


@pytest.mark.parametrize(("styled", "begin"), [(True, "\x1b[2m62.5"), (False, "62.5")])
def test_it_is_dim_beside_the_text(styled: bool, begin: str) -> None:
    stderr = io.StringIO()
    with TurnLine(stderr, INFO, styled=styled, size=lambda: os.terminal_size((80, 24))) as line:
        line.handle(finished())
    assert stderr.getvalue().startswith(begin) and stderr.getvalue().endswith("\n")
