"""A recorded session: the screen that is wanted, in its colours, with nothing to fetch."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from rich.color import Color

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import record_session

PANEL = b"text\r\n\x1b[2mpanel\x1b[22m \x1b[1;32m2x\x1b[0m"
GONE = b"\r\x1b[Ktext goes on\r\n"


def test_the_last_screen_is_the_last_with_the_text() -> None:
    rows = record_session.last_screen([b"$ run\r\n", PANEL, GONE], 20, 5, "panel")
    assert [row.plain for row in rows] == ["$ run", "text", "panel 2x"]
    assert [row.plain for row in record_session.last_screen([PANEL, GONE], 20, 5, "")] == [
        "text",
        "text goes on",
    ]


def test_a_text_that_never_stood_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="`panel` is on no screen"):
        record_session.last_screen([GONE], 20, 5, "panel")


def test_colours_are_kept_and_dim_text_is_grey() -> None:
    *_, panel = record_session.last_screen([PANEL], 20, 5, "panel")
    styles = {panel.plain[span.start : span.end].strip(): span.style for span in panel.spans}
    assert not isinstance(styles["panel"], str) and not isinstance(styles["2x"], str)
    assert styles["panel"].color == Color.parse("bright_black")
    assert styles["2x"].color == Color.parse("green") and styles["2x"].bold


def test_a_command_is_recorded_as_a_terminal_shows_it() -> None:
    written = record_session.record(["sh", "-c", "test -t 1 && echo seen"], 20, 5)
    assert b"".join(written) == b"$ sh -c 'test -t 1 && echo seen'\r\nseen\r\n"


def test_the_picture_needs_nothing_from_the_network() -> None:
    picture = record_session.svg(record_session.last_screen([PANEL], 20, 5, ""), 20, "title")
    assert "title" in picture and "2x" in picture
    assert "font-face" not in picture and "url(http" not in picture
