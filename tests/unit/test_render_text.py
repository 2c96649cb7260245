"""Text on stdout, and notices beside it."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.events import Event, Finished, FinishReason, Notice, Origin, TextDelta
from spec_cli.render.base import Renderer, Tee
from spec_cli.render.inert import inert
from spec_cli.render.notices import Notices
from spec_cli.render.stdout import Stdout
from spec_cli.render.style import ORIGIN_STYLES
from spec_cli.render.text import PipeText, TerminalText
from spec_cli.spec.stats import RunStats

END = Finished(FinishReason.STOP, (), RunStats())
HOSTILE = "[bold] :smile: [/x] \x1b[31m\x1b]0;title\x07 \x9b31m a\rb \x08 \x7f \t界\n"


def delta(text: str, origin: Origin = Origin.PLAIN) -> TextDelta:
    return TextDelta(text, (1,), origin)


class Pipe:
    """An ASCII stdout that is not a terminal."""

    def __init__(self) -> None:
        self.raw = io.BytesIO()
        self.stdout = Stdout(io.TextIOWrapper(self.raw, encoding="ascii"))

    def after(self, renderer: Renderer, events: Sequence[Event]) -> str:
        with renderer:
            for event in events:
                renderer.handle(event)
        return self.raw.getvalue().decode()


@pytest.mark.parametrize("text", ["", "a", "a\n", "a\n\n", HOSTILE, "a" + HOSTILE.strip()])
def test_a_pipe_gets_the_exact_text_and_one_final_newline(text: str) -> None:
    pipe = Pipe()
    expected = text if not text or text.endswith("\n") else text + "\n"  # nothing stays nothing
    assert pipe.after(PipeText(pipe.stdout), [delta(text), delta(""), END]) == expected


def test_a_run_that_fails_ends_a_pipe_where_the_text_ended() -> None:
    pipe = Pipe()
    assert pipe.after(PipeText(pipe.stdout), [delta("half a li")]) == "half a li"


def test_each_delta_is_out_before_the_next() -> None:
    for renderer_type in (PipeText, TerminalText):
        pipe = Pipe()
        renderer = renderer_type(pipe.stdout)
        renderer.handle(delta("界"))
        assert pipe.raw.getvalue().decode() == "界"


@given(st.text())
def test_nothing_a_model_says_controls_the_terminal(text: str) -> None:
    shown = inert(text)
    assert len(shown) == len(text)
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in shown if c not in "\n\t")
    assert all(a == b for a, b in zip(text, shown, strict=True) if a.isprintable())


def test_a_terminal_shows_control_characters_instead_of_obeying_them() -> None:
    pipe = Pipe()
    shown = pipe.after(TerminalText(pipe.stdout), [delta(HOSTILE), END])
    assert shown == "[bold] :smile: [/x] ␛[31m␛]0;title␇ �31m a␍b ␈ ␡ \t界\n"


def test_origins_are_told_apart_by_colour_and_by_attribute() -> None:
    pipe = Pipe()
    events = [delta("x", origin) for origin in Origin]
    shown = pipe.after(TerminalText(pipe.stdout, ORIGIN_STYLES), [*events, END])
    assert shown == ("\x1b[32mx\x1b[0m\x1b[4;33mx\x1b[0m\x1b[1;36mx\x1b[0m\x1b[2mx\x1b[0mx\n")


def test_a_terminal_is_left_at_the_start_of_a_line_even_by_a_failure() -> None:
    pipe = Pipe()
    assert pipe.after(TerminalText(pipe.stdout), [delta("half a li")]) == "half a li\n"


def test_after_a_broken_pipe_closing_stdout_is_quiet(
    capfd: pytest.CaptureFixture[str],
) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    stream = os.fdopen(write_end, "w")
    with pytest.raises(BrokenPipeError), PipeText(Stdout(stream)) as renderer:
        renderer.handle(delta("a"))
    stream.close()
    assert capfd.readouterr() == ("", "")


def notices(events: Sequence[Event], *, quiet: bool = False, beside_text: bool = False) -> str:
    stderr = io.StringIO()
    with Notices(stderr, quiet=quiet, beside_text=beside_text) as renderer:
        for event in events:
            if isinstance(event, TextDelta):
                stderr.write(event.text)
            renderer.handle(event)
    return stderr.getvalue()


SAID: list[Event] = [
    Notice("first"),
    delta("text\n"),
    Notice("second", "do it", "warning"),
    delta("more\n"),
]


def test_notices_wait_for_the_end_of_text_on_the_same_terminal() -> None:
    shown = notices([*SAID, END], beside_text=True)
    assert shown == "note: first\ntext\nmore\nwarning: second\nhint: do it\n"
    assert notices(SAID, beside_text=True) == shown


def test_notices_beside_a_pipe_come_at_once() -> None:
    assert notices(SAID) == "note: first\ntext\nwarning: second\nhint: do it\nmore\n"


def test_quiet_leaves_warnings() -> None:
    assert notices(SAID, quiet=True) == "text\nwarning: second\nhint: do it\nmore\n"


class Recorder(Renderer):
    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def __enter__(self) -> Recorder:
        self.log.append(f"{self.name} in")
        return self

    def handle(self, event: Event) -> None:
        self.log.append(self.name)

    def __exit__(self, *exc: object) -> None:
        self.log.append(f"{self.name} out")


def test_of_several_renderers_the_first_is_first_in_everything_but_entering() -> None:
    log: list[str] = []
    with (
        pytest.raises(ValueError, match="boom"),
        Tee([Recorder("a", log), Recorder("b", log)]) as tee,
    ):
        tee.handle(END)
        raise ValueError("boom")
    assert log == ["b in", "a in", "a", "b", "a out", "b out"]
