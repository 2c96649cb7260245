"""Which renderers a run gets, told by what they write."""

from __future__ import annotations

import io
import itertools
import os
import re
from collections.abc import Sequence

import pytest
from rich.style import Style

from spec_cli.events import Event, Origin, PromptText, ReasoningDelta
from spec_cli.render.choose import choose_renderers
from spec_cli.render.options import RenderOptions
from spec_cli.render.reasoning import ReasoningText
from spec_cli.terminal import Terminal
from tests.cli.scripted_run import INFO, TEXT, scripted_events

PANEL = "position"
STREAMS = list(itertools.product([False, True], repeat=2))
SUMMARY = "accepted (62 %), k="


@pytest.fixture(autouse=True)
def _size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Terminal, "stderr_size", lambda _self: os.terminal_size((80, 24)))


def show(
    options: RenderOptions,
    *,
    out_tty: bool,
    err_tty: bool,
    color: bool = True,
    animate: bool = True,
    color_anywhere: bool = False,
    first: Sequence[Event] = (),
) -> tuple[str, str]:
    """What a scripted run leaves on stdout and on stderr."""
    stdout, stderr = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    terminal = Terminal(
        stdin=io.StringIO(),
        stdout=stdout,
        stderr=stderr,
        stdin_is_tty=False,
        stdout_is_tty=out_tty,
        stderr_is_tty=err_tty,
        color=color,
        animate=animate and err_tty,
        color_anywhere=color_anywhere,
    )
    ticks = itertools.count(0.0, 0.05)
    renderer = choose_renderers(terminal, options, INFO, clock=lambda: next(ticks))
    with renderer:
        for event in (*first, *scripted_events(TEXT)):
            renderer.handle(event)
    for stream in (stdout, stderr):
        stream.flush()
    return stdout.buffer.getvalue().decode(), stderr.buffer.getvalue().decode()


@pytest.mark.parametrize(("out_tty", "err_tty"), STREAMS)
def test_the_panel_is_on_stderr_where_that_is_a_terminal(out_tty: bool, err_tty: bool) -> None:
    out, err = show(RenderOptions(), out_tty=out_tty, err_tty=err_tty)
    assert (PANEL in err) == err_tty
    assert SUMMARY in err
    assert (out == TEXT) == (not out_tty)
    assert ("\x1b" in err) == err_tty
    assert "\x1b" not in out or not out_tty


@pytest.mark.parametrize(("out_tty", "err_tty"), STREAMS)
def test_quiet_leaves_the_text(out_tty: bool, err_tty: bool) -> None:
    out, err = show(RenderOptions(quiet=True), out_tty=out_tty, err_tty=err_tty)
    assert "Speculative" in out
    assert err == ""


def test_no_tui_leaves_the_summary_without_a_panel() -> None:
    _, err = show(RenderOptions(no_tui=True), out_tty=True, err_tty=True)
    assert PANEL not in err
    assert SUMMARY in err


def test_a_terminal_that_must_not_move_gets_no_panel() -> None:
    _, err = show(RenderOptions(), out_tty=True, err_tty=True, animate=False)
    assert PANEL not in err


@pytest.mark.parametrize("options", [RenderOptions(json=True), RenderOptions(jsonl=True)])
def test_json_is_the_only_thing_on_stdout(options: RenderOptions) -> None:
    out, err = show(options, out_tty=False, err_tty=True)
    assert all(line.startswith("{") for line in out.splitlines())
    assert PANEL in err


def test_lines_of_json_on_a_terminal_leave_no_place_for_a_panel() -> None:
    _, err = show(RenderOptions(jsonl=True), out_tty=True, err_tty=True)
    assert PANEL not in err


def test_origins_are_coloured_on_a_terminal_that_takes_colour() -> None:
    green = "\x1b[32m"
    wanted = RenderOptions(show_origin=True)
    out, err = show(wanted, out_tty=True, err_tty=True)
    assert green in out
    assert "correction" in err
    for out_tty, color in ((False, True), (True, False)):
        out, err = show(wanted, out_tty=out_tty, err_tty=True, color=color)
        assert green not in out
        assert "correction" not in err


@pytest.mark.parametrize("err_tty", [False, True])
def test_origins_are_coloured_in_a_pipe_where_the_user_wants_colour_anywhere(err_tty: bool) -> None:
    colored, err = show(
        RenderOptions(show_origin=True), out_tty=False, err_tty=err_tty, color_anywhere=True
    )
    assert "\x1b[32m" in colored
    assert "correction" in err and "\x1b[2m" in err
    assert (PANEL in err) == err_tty
    out, _ = show(RenderOptions(), out_tty=False, err_tty=err_tty, color_anywhere=True)
    assert out == TEXT


THOUGHTS = [ReasoningDelta(text, (), Origin.PLAIN) for text in ("I wonder\x1b[1m ", "why.")]
SHOWN = "I wonder␛[1m why."


def uncoloured(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", text)


@pytest.mark.parametrize(("out_tty", "err_tty"), STREAMS)
@pytest.mark.parametrize("no_tui", [False, True])
def test_reasoning_is_on_stderr_and_never_on_stdout(
    out_tty: bool, err_tty: bool, no_tui: bool
) -> None:
    options = RenderOptions(no_tui=no_tui)
    out, err = show(options, out_tty=out_tty, err_tty=err_tty, first=THOUGHTS)
    assert "wonder" not in out
    assert (SHOWN if err_tty and not no_tui else f"{SHOWN}\n\n") in uncoloured(err)
    assert ("\x1b[2mI wonder" in err) == err_tty
    assert out_tty or out == TEXT
    without, _ = show(options, out_tty=out_tty, err_tty=err_tty)
    assert uncoloured(out) == uncoloured(without)


@pytest.mark.parametrize(
    "options",
    [
        RenderOptions(hide_reasoning=True),
        RenderOptions(json=True),
        RenderOptions(jsonl=True),
    ],
)
@pytest.mark.parametrize(("out_tty", "err_tty"), STREAMS)
def test_reasoning_is_not_shown_where_it_is_not_wanted_or_in_the_json(
    options: RenderOptions, out_tty: bool, err_tty: bool
) -> None:
    out, err = show(options, out_tty=out_tty, err_tty=err_tty, first=THOUGHTS)
    assert "wonder" not in err
    assert ("wonder" in out) == (options.json or options.jsonl)


def test_reasoning_without_an_answer_ends_its_line() -> None:
    stderr = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with ReasoningText(stderr, Style()) as renderer:
        renderer.handle(THOUGHTS[1])
    assert stderr.buffer.getvalue() == b"why.\n\n"  # type: ignore[attr-defined]


@pytest.mark.parametrize(("out_tty", "err_tty"), STREAMS)
def test_the_prompt_goes_where_the_text_goes(out_tty: bool, err_tty: bool) -> None:
    first = [PromptText("Say it: ")]
    out, err = show(RenderOptions(), out_tty=out_tty, err_tty=err_tty, first=first)
    assert out.startswith("Say it: Speculative decoding")
    assert "Say it" not in err
