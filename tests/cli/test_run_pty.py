"""`spec-cli run` on a terminal: what is left on the screen when it has ended."""

from __future__ import annotations

import re
import shlex
import time
from dataclasses import dataclass
from pathlib import Path

import pexpect
import pytest

from spec_cli.render.inert import inert
from tests.cli.conftest import GREEDY, N_TOKENS, Call, Done, SpecCli
from tests.cli.emulator import Emulator, printed
from tests.cli.tiny_models import Models

TERMINAL = {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
SUMMARY = re.compile(r"(speed|draft|text|run) {2,4}\S.*")


@dataclass(frozen=True, slots=True)
class Screen:
    """A terminal on which a process has ended."""

    emulator: Emulator
    sent: str
    exit_code: int | None

    @property
    def rows(self) -> list[str]:
        """The rows above the summary and the cursor's empty row."""
        return [row for row in self.emulator.rows if row and not SUMMARY.fullmatch(row)]

    def assert_in_order(self) -> None:
        """The panel is gone, and the cursor visible below everything."""
        assert self.emulator.below_cursor == []
        assert self.emulator.cursor_is_visible
        assert self.emulator.wraps
        assert self.emulator.rows[-1] == ""


@dataclass(frozen=True, slots=True)
class Terminal:
    """Starts shell scripts on a terminal of 80 columns."""

    spec_cli: SpecCli
    columns: int = 80

    def start(self, script: str, **env: str) -> pexpect.spawn:
        return pexpect.spawn(
            "/bin/sh",
            ["-c", script],
            dimensions=(24, self.columns),
            env=self.spec_cli.environ(TERMINAL | env),
            cwd=str(self.spec_cli.home),
            timeout=60,
        )

    def __call__(self, script: str, **env: str) -> Screen:
        return self.end(self.start(script, **env))

    def end(self, child: pexpect.spawn, seen: bytes = b"") -> Screen:
        """Wait for the end; `seen` is what has been read already."""
        child.expect(pexpect.EOF)
        child.close()
        sent = seen + child.before
        emulator = Emulator(self.columns, 24)
        emulator.feed(sent)
        return Screen(emulator, sent.decode(), child.exitstatus)


@pytest.fixture(scope="module")
def terminal(spec_cli: SpecCli) -> Terminal:
    return Terminal(spec_cli)


def line(spec_cli: SpecCli, *words: object) -> str:
    """A line of a shell script that ends as the program does."""
    return "exec " + shlex.join(map(str, (*spec_cli.program, *words)))


@pytest.fixture(scope="module")
def run(spec_cli: SpecCli, models: Models) -> str:
    return line(spec_cli, *GREEDY, "-n", N_TOKENS, *models.pair, "-k", 4)


def test_redirected_text_is_exact_and_the_panel_was_on_the_terminal(
    terminal: Terminal, run: str, plain: Done, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    screen = terminal(f"{run} > {out}")
    assert out.read_bytes() == plain.json["text"].encode() + b"\n"
    assert screen.exit_code == 0
    panel, _, after = screen.sent.partition("speed  ")
    assert "tok/s" in panel and "──" in panel
    assert "──" not in after
    assert screen.rows == []
    assert len(screen.emulator.rows) == 5
    screen.assert_in_order()


def test_text_and_summary_are_all_that_stays_on_the_screen(
    terminal: Terminal, run: str, plain: Done
) -> None:
    screen = terminal(run)
    assert "──" in screen.sent
    assert screen.rows == printed(plain.json["text"], 80, 24)
    screen.assert_in_order()


@pytest.mark.parametrize("variable", ["SPEC_CLI_NO_TUI", "CI"])
def test_a_variable_can_forbid_the_panel(terminal: Terminal, run: str, variable: str) -> None:
    screen = terminal(run, **{variable: "1"})
    assert "──" not in screen.sent
    assert "tok/s" in screen.sent


@pytest.mark.parametrize("env", [{}, {"TERM": "dumb"}], ids=["panel", "dumb"])
def test_what_a_model_writes_does_not_steer_the_terminal(
    terminal: Terminal, spec_cli: SpecCli, call: Call, models: Models, env: dict[str, str]
) -> None:
    args = ("run", "hi", "--temp", "2", "--seed", "3", "-n", "200", "-m", models.babble)
    text = call(*args, "--json").json["text"]
    assert inert(text) != text
    screen = terminal(line(spec_cli, *args), **env)
    shown = printed(inert(text), 80, 24)
    assert screen.emulator.rows[: len(shown)] == shown
    screen.assert_in_order()


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"CI": "1", "NO_COLOR": "1"}])
def test_where_nothing_may_move_there_are_no_control_codes(
    terminal: Terminal, run: str, plain: Done, env: dict[str, str]
) -> None:
    screen = terminal(run, **env)
    assert "\x1b" not in screen.sent
    assert screen.sent.startswith(plain.json["text"] + "\r\n")


def test_no_color_leaves_the_panel_without_colours(terminal: Terminal, run: str) -> None:
    screen = terminal(run, NO_COLOR="1")
    assert "──" in screen.sent
    assert not re.search(r"\x1b\[[\d;]*m", screen.sent.replace("\x1b[0m", ""))
    screen.assert_in_order()


def test_without_the_panel_text_comes_straight_away(
    terminal: Terminal, run: str, plain: Done
) -> None:
    screen = terminal(f"{run} --no-tui")
    assert "──" not in screen.sent
    assert screen.rows == printed(plain.json["text"], 80, 24)
    screen.assert_in_order()


def test_a_narrow_terminal_keeps_all_of_the_text(spec_cli: SpecCli, run: str, plain: Done) -> None:
    screen = Terminal(spec_cli, columns=20)(run)
    shown = printed(plain.json["text"], 20, 24)
    assert screen.emulator.rows[: len(shown)] == shown
    screen.assert_in_order()


def test_quiet_sends_the_text_alone(terminal: Terminal, run: str, plain: Done) -> None:
    screen = terminal(f"{run} -q")
    assert screen.sent == plain.json["text"] + "\r\n"


@pytest.mark.parametrize("keys", [b"\x03", b"\x03\x03"], ids=["once", "twice"])
def test_control_c_leaves_text_and_terminal_in_order(
    terminal: Terminal, spec_cli: SpecCli, models: Models, plain: Done, keys: bytes
) -> None:
    child = terminal.start(line(spec_cli, *GREEDY, *models.pair, "-k", 4, "-c", 60000))
    child.expect_exact(b"tok/s")
    seen = child.before + child.after
    time.sleep(0.5)
    child.send(keys)
    screen = terminal.end(child, seen)
    assert screen.exit_code in ((130,) if len(keys) == 1 else (130, None))
    assert any(row.startswith(plain.json["text"][:20]) for row in screen.emulator.rows)
    assert screen.emulator.cursor_is_visible
    assert "Traceback" not in screen.sent
    if len(keys) == 1:
        assert "; interrupted" in screen.sent
        screen.assert_in_order()


def test_control_c_while_the_prompt_is_read_in_removes_the_panel(
    terminal: Terminal, spec_cli: SpecCli, models: Models, tmp_path: Path
) -> None:
    path = tmp_path / "long.txt"
    path.write_text("the quick brown fox jumps over the lazy dog. " * 1200)
    child = terminal.start(line(spec_cli, "run", "-m", models.target, "-f", path, "-c", 60000))
    child.expect_exact(b"prompt tokens")
    child.send(b"\x03")
    screen = terminal.end(child, child.before + child.after)
    assert screen.exit_code == 130
    assert not any("──" in row or "prompt tokens" in row for row in screen.emulator.rows)
    screen.assert_in_order()


def test_a_terminal_as_stdin_is_not_waited_for(terminal: Terminal, spec_cli: SpecCli) -> None:
    screen = terminal(line(spec_cli, "run"))
    assert screen.exit_code == 2
    assert screen.sent.startswith("error: no prompt\r\nhint: ")


def test_a_run_under_nohup_works(terminal: Terminal, run: str, plain: Done, tmp_path: Path) -> None:
    screen = terminal(f"cd {tmp_path}; {run.replace('exec', 'exec nohup')} -q")
    assert screen.exit_code == 0
    assert plain.json["text"] in (tmp_path / "nohup.out").read_text()
