"""A real terminal driver between the renderers and the emulator."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pexpect
import pytest

from spec_cli.events import Finished
from spec_cli.render.inert import inert
from spec_cli.render.summary import summary_lines
from tests.cli.emulator import Emulator, printed
from tests.cli.scripted_run import INFO, TEXT, scripted_events

NOTICE = "note: the tokenizer of the draft has 3 more tokens\n"
RUN = [sys.executable, "-m", "tests.cli.scripted_run"]
ESC = "\x1b"


@dataclass(frozen=True, slots=True)
class Watched:
    """A process that has ended, and the terminal it ran on."""

    emulator: Emulator
    sent: str
    exit_code: int


def start(*args: str, columns: int, lines: int, environ: Mapping[str, str]) -> pexpect.spawn:
    """Start on a new terminal, without what in our environment decides about terminals."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("CI", "NO_COLOR", "COLUMNS")}
    env = inherited | {"TERM": "xterm-256color"} | dict(environ)
    return pexpect.spawn(args[0], list(args[1:]), dimensions=(lines, columns), env=env, timeout=60)


def read(child: pexpect.spawn) -> bytes:
    """What has come since the last look; nothing at the end."""
    try:
        return bytes(child.read_nonblocking(65536, timeout=60))
    except pexpect.EOF:
        return b""


def watch(
    *args: str,
    columns: int = 80,
    lines: int = 24,
    environ: Mapping[str, str] = MappingProxyType({}),
) -> Watched:
    child = start(*args, columns=columns, lines=lines, environ=environ)
    emulator, sent = Emulator(columns, lines), b""
    while data := read(child):
        emulator.feed(data)
        sent += data
    child.close()
    return Watched(emulator, sent.decode(), child.exitstatus)


def summary(text: str) -> str:
    *_, finished = scripted_events(text)
    assert isinstance(finished, Finished)
    return "".join(f"{line}\n" for line in summary_lines(INFO, finished, None))


def ended_with_newline(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def assert_terminal_is_left_in_order(emulator: Emulator) -> None:
    assert emulator.below_cursor == []
    assert emulator.cursor_is_visible
    assert emulator.wraps


MARGIN = (
    "0123456789" * 10 + "\n" + "界" * 50 + "\n" + "a" + "界" * 50 + "\nlast line without newline"
)
LONG = "".join(f"line {n}: the quick brown fox jumps over the lazy dog\n" for n in range(500))


@pytest.mark.parametrize(
    ("text", "columns"),
    [(TEXT, 80), (TEXT, 40), (TEXT, 20), (MARGIN, 80), (MARGIN, 20), (LONG, 40), ("", 80)],
)
def test_the_screen_is_the_text_followed_by_the_summary(
    tmp_path: Path, text: str, columns: int
) -> None:
    source = tmp_path / "text"
    source.write_bytes(text.encode())
    watched = watch(*RUN, "--text", str(source), columns=columns)
    whole = NOTICE + (ended_with_newline(inert(text)) if text else "") + summary(text)
    assert watched.emulator.rows == printed(whole, columns, 24)
    assert_terminal_is_left_in_order(watched.emulator)
    assert "tok/pass" in watched.sent.split("speed  ")[0] or not text


@pytest.mark.parametrize("error", ["ValueError", "KeyboardInterrupt"])
def test_an_exception_leaves_the_text_so_far_and_a_clean_terminal(error: str) -> None:
    watched = watch(*RUN, "--raise", error, columns=40)
    rows = watched.emulator.rows
    text = "\n".join(rows[:-2])
    assert rows[-2:] == ["error: boom", ""]
    assert "Speculative decoding" in text
    assert "──" not in text
    assert_terminal_is_left_in_order(watched.emulator)


def test_a_resize_while_text_streams_leaves_no_ghost_lines(tmp_path: Path) -> None:
    text = "".join(f"line {n} of the text\n" for n in range(40))
    source = tmp_path / "text"
    source.write_text(text)
    child = start(
        *RUN, "--text", str(source), "--wait-for-resize", "20", columns=100, lines=24, environ={}
    )
    emulator = Emulator(100, 24)
    while emulator.title != "waiting":
        emulator.feed(read(child))
    assert len(emulator.below_cursor[0]) > 50
    emulator.resize(50, 24)
    child.setwinsize(24, 50)
    while data := read(child):
        emulator.feed(data)
    assert emulator.rows == printed(NOTICE + text + summary(text), 50, 24)
    assert_terminal_is_left_in_order(emulator)


def shell(command: str, tmp_path: Path) -> Watched:
    """Run the script in a shell on the terminal, `OUT` and `RUN` filled in."""
    filled = command.replace("RUN", " ".join(RUN)).replace("OUT", str(tmp_path / "out"))
    return watch("/bin/sh", "-c", filled)


def test_redirected_text_is_exact_while_the_panel_is_on_the_terminal(tmp_path: Path) -> None:
    watched = shell("RUN > OUT", tmp_path)
    assert (tmp_path / "out").read_bytes() == TEXT.encode()
    assert watched.emulator.rows == printed(NOTICE + summary(TEXT), 80, 24)
    assert "tok/pass" in watched.sent.split("speed  ")[0]
    assert "not markup" in watched.sent  # the preview
    assert_terminal_is_left_in_order(watched.emulator)


def test_json_is_all_of_stdout_while_the_panel_is_on_the_terminal(tmp_path: Path) -> None:
    watched = shell("RUN json > OUT", tmp_path)
    lines = (tmp_path / "out").read_text().splitlines()
    assert len(lines) == 1 and lines[0].startswith('{"schema": ')
    assert "tok/pass" in watched.sent


def test_json_on_the_terminal_does_not_run_into_the_panel() -> None:
    watched = watch(*RUN, "json")
    at = next(i for i, row in enumerate(watched.emulator.rows) if "schema" in row)
    assert watched.emulator.rows[at].startswith('{"schema": ')
    assert_terminal_is_left_in_order(watched.emulator)


def test_redirected_stderr_has_no_escape_codes(tmp_path: Path) -> None:
    watched = shell("RUN 2> OUT", tmp_path)
    assert (tmp_path / "out").read_text() == NOTICE + summary(TEXT)
    assert watched.emulator.rows == printed(inert(TEXT), 80, 24)


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {"CI": "1"}], ids=["dumb", "ci"])
def test_where_nothing_may_move_text_and_summary_are_plain(environ: dict[str, str]) -> None:
    watched = watch(*RUN, environ=environ | {"NO_COLOR": "1"})
    assert ESC not in watched.sent
    assert watched.sent.replace("\r\n", "\n") == NOTICE + inert(TEXT) + summary(TEXT)


def test_no_color_leaves_the_panel_and_no_colour() -> None:
    watched = watch(*RUN, "show_origin", environ={"NO_COLOR": "1"})
    assert "tok/pass" in watched.sent
    assert f"{ESC}[1m" not in watched.sent
    assert f"{ESC}[32m" not in watched.sent
    assert watched.emulator.rows == printed(NOTICE + inert(TEXT) + summary(TEXT), 80, 24)


def test_quiet_leaves_the_text_alone() -> None:
    watched = watch(*RUN, "quiet")
    assert watched.sent.replace("\r\n", "\n") == inert(TEXT)


def test_a_reader_that_leaves_ends_the_run_without_a_word(tmp_path: Path) -> None:
    source = tmp_path / "text"
    source.write_text("x" * 200_000)
    command = f"{' '.join(RUN)} --text {source} quiet | head -c 1"
    ended = subprocess.run(["/bin/sh", "-c", command], capture_output=True, timeout=60, check=True)
    assert ended.stdout == b"x"
    assert ended.stderr == b"broken pipe\n"
