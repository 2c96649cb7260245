"""When colour is used: what the user says, then the environment, then the stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from spec_cli.terminal import ColorMode, Terminal, detect


class Stream:
    def __init__(self, is_tty: bool) -> None:
        self._is_tty = is_tty

    def isatty(self) -> bool:
        return self._is_tty


Look = Callable[..., Terminal]


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Look:
    """`detect` where stdout is a pipe and stderr a terminal."""

    def _look(*args: ColorMode, **kwargs: Any) -> Terminal:
        with monkeypatch.context() as patch:
            for name, is_tty in (("stdin", True), ("stdout", False), ("stderr", True)):
                patch.setattr(f"sys.{name}", Stream(is_tty))
            return detect(*args, **kwargs)

    return _look


def colors(terminal: Terminal) -> tuple[bool, bool]:
    """Whether stdout, a pipe, and stderr, a terminal, get colour."""
    return terminal.stdout_color, terminal.stderr_color


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, (False, True)),
        ({"NO_COLOR": "1"}, (False, False)),
        ({"NO_COLOR": ""}, (False, True)),
        ({"TERM": "dumb"}, (False, False)),
        ({"FORCE_COLOR": "1"}, (True, True)),
        ({"FORCE_COLOR": ""}, (False, True)),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, (False, False)),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, (True, True)),
    ],
)
def test_each_stream_gets_the_colour_that_it_can_show(
    look: Look, environ: dict[str, str], wanted: tuple[bool, bool]
) -> None:
    assert colors(look(environ=environ)) == wanted


@pytest.mark.parametrize("environ", [{}, {"NO_COLOR": "1"}, {"FORCE_COLOR": "1"}])
def test_what_the_user_says_prevails_over_the_environment(
    look: Look, environ: dict[str, str]
) -> None:
    assert colors(look(ColorMode.ALWAYS, environ=environ)) == (True, True)
    assert colors(look(ColorMode.NEVER, environ=environ)) == (False, False)


def test_colour_in_a_pipe_makes_nothing_move(look: Look) -> None:
    assert look(environ={}).animate
    assert not look(animate=False, environ={}).animate
    assert not look(ColorMode.ALWAYS, environ={"TERM": "dumb"}).animate
    assert not look(environ={"CI": "1"}).animate
