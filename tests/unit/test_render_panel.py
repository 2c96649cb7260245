"""What the panel says, and that it fits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.events import PromptProgress
from spec_cli.render.panel import ASCII, UNICODE, PanelState, glyphs_for, panel_rows
from spec_cli.spec.stats import RoundCount, RunStats
from tests.cli.scripted_run import INFO


def stats(rounds: list[tuple[int, int]], estimate_s: float | None = 0.03) -> RunStats:
    run = RunStats(plain_step_estimate_s=estimate_s)
    for n_drafted, n_accepted in rounds:
        count = RoundCount(n_drafted, n_accepted, n_accepted + 1)
        run.add_round(count, draft_s=0.002 * n_drafted, verify_s=0.04, host_s=0.0)
    return run


def rows(state: PanelState, width: int = 64, *, ascii_only: bool = False) -> list[str]:
    glyphs = ASCII if ascii_only else UNICODE
    return [row.plain.rstrip() for row in panel_rows(state, INFO, width, glyphs)]


ROUNDS = [(0, 0), (4, 4), (4, 2), (4, 0), (2, 1)]


def test_the_panel_shows_the_figures_of_the_run() -> None:
    assert rows(PanelState(stats(ROUNDS))) == [
        "── qwen2.5-coder-1.5b-instruct + qwen2.5-coder-0.5b-instruct ───",
        "52.6 tok/s       1.58x plain (est.)",
        "  50 % accepted  last 5 rounds 50 %",
        " 2.4 tok/pass    k=2   draft 5.6 + verify 40.0 ms",
        "position ▆▅▃▃    rounds ·█▅▁▃",
    ]


def test_an_ascii_terminal_gets_the_same_in_ascii() -> None:
    shown = rows(PanelState(stats(ROUNDS), preview="x" * 99), ascii_only=True)
    assert all(row.isascii() for row in shown)
    assert shown[1] == "..." + "x" * 61
    assert shown[-1] == "position +=::    rounds  #=_:"


def test_blocks_need_an_encoding_that_has_them() -> None:
    assert glyphs_for("utf-8") is UNICODE
    assert glyphs_for("ascii") is ASCII
    assert glyphs_for("latin-1") is ASCII


def test_nothing_is_shown_before_there_is_a_figure() -> None:
    assert rows(PanelState(RunStats())) == []


def test_the_prompt_has_a_bar_until_the_first_round() -> None:
    progress = PromptProgress(128, 512)
    bar = rows(PanelState(RunStats(), progress))[1]
    assert bar == " 128 of 512 prompt tokens  " + "━" * 6 + "─" * 18
    assert "prompt" not in "".join(rows(PanelState(stats(ROUNDS), progress)))


def test_a_run_without_drafts_shows_its_speed_and_why() -> None:
    reason = "a draft token takes 20.1 ms and a pass over 2 rows 57.2 ms; a plain step 31.0 ms"
    assert rows(PanelState(stats([(0, 0)] * 9), drafting_off=reason))[1:] == [
        "25.0 tok/s",
        "drafting off: a draft token takes 20.1 ms and a pass over 2 rows",
        "57.2 ms; a plain step 31.0 ms",
    ]


def test_a_reason_that_is_too_long_ends_in_an_ellipsis() -> None:
    state = PanelState(stats([(0, 0)] * 9), drafting_off="a reason of many words, " * 9)
    assert rows(state, 20)[-1] == "words, a reason of …"
    assert rows(state, 20, ascii_only=True)[-1].endswith(" ...")


def test_a_single_round_is_spoken_of_as_one() -> None:
    assert "last 1 round 50 %" in rows(PanelState(stats([(4, 2)])))[2]


def test_a_speedup_is_labelled_by_where_the_plain_step_is_from() -> None:
    assert "(est.)" in rows(PanelState(stats(ROUNDS)))[1]
    assert "(measured)" in rows(PanelState(stats(ROUNDS + [(0, 0)] * 8)))[1]
    assert "plain" not in rows(PanelState(stats(ROUNDS, estimate_s=None)))[1]


def test_the_end_of_a_long_preview_is_shown_on_one_row() -> None:
    preview = "first line\n\n  second\tline 界" + "\x1b[1m"
    assert rows(PanelState(stats(ROUNDS), preview=preview), 20)[1] == "… second line 界␛[1m"


@pytest.mark.parametrize("width", [19, 39])
def test_a_narrow_panel_drops_the_less_important(width: int) -> None:
    shown = rows(PanelState(stats(ROUNDS)), width)
    assert [row[:4] for row in shown[1:4]] == ["52.6", "  50", " 2.4"]
    assert ("1.58x" in shown[1]) == (width == 39)


@given(
    rounds=st.lists(st.integers(0, 16).flatmap(
        lambda n: st.tuples(st.just(n), st.integers(0, n))), max_size=40),
    width=st.integers(11, 120),
    done=st.integers(0, 10_000_000),
    reason=st.none() | st.text(st.characters(codec="ascii"), max_size=300),
    preview=st.text(max_size=300),
    name=st.text(max_size=80),
)  # fmt: skip
def test_no_row_is_wider_than_the_terminal(
    rounds: list[tuple[int, int]],
    width: int,
    done: int,
    reason: str | None,
    preview: str,
    name: str,
) -> None:
    info = replace(INFO, target=replace(INFO.target, name=name))
    state = PanelState(stats(rounds), PromptProgress(done, 10_000_000), reason, preview)
    for glyphs in (UNICODE, ASCII):
        for row in panel_rows(state, info, width, glyphs):
            assert row.cell_len <= width
            assert "\n" not in row.plain
