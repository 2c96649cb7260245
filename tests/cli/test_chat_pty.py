"""`spec-cli chat` on a terminal: editing, stopping, and what stays on the screen."""

from __future__ import annotations

import os
import re
import shlex
import signal
import stat
import termios
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pexpect
import pytest

from tests.cli.conftest import SpecCli
from tests.cli.emulator import Emulator
from tests.cli.tiny_models import Models

TERMINAL = {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "PROMPT_TOOLKIT_NO_CPR": "1"}
PROMPT = b"> "


class Screen:
    """A chat on a terminal of 100 columns."""

    def __init__(
        self,
        spec_cli: SpecCli,
        *args: object,
        redirect: str = "",
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`redirect` is what a shell says behind the command."""
        self.emulator = Emulator(100, 30)
        words = shlex.join(map(str, (*spec_cli.program, "chat", *args)))
        self.child = pexpect.spawn(
            "/bin/sh",
            ["-c", f"exec {words} {redirect}"],
            dimensions=(30, 100),
            env=spec_cli.environ(TERMINAL | dict(env)),
            cwd=str(spec_cli.home),
            timeout=60,
        )
        self.child.delaybeforesend = None

    def wait(self, pattern: str | type[pexpect.EOF]) -> None:
        """Until the terminal was sent this."""
        self.child.expect(pattern if isinstance(pattern, type) else pattern.encode())
        end = self.child.after if isinstance(self.child.after, bytes) else b""
        self.emulator.feed(self.child.before + end)

    def see(self, words: str) -> None:
        """Until this stands on the screen: only what changes is drawn."""
        while not any(words in row for row in self.emulator.window):
            self.wait(r"(?s).+")

    def prompt(self) -> None:
        """Until the next message can be typed: pasting is bracketed from there on."""
        self.wait(r"\x1b\[\?2004h")

    def type(self, *keys: str) -> None:
        for key in keys:
            self.child.send(key)

    def say(self, text: str) -> None:
        """A message, and its answer."""
        self.type(text, "\r")
        self.wait(r"tok/s[;,] [^\n]*\n")
        self.prompt()

    def end(self) -> int | None:
        self.wait(pexpect.EOF)
        self.child.close()
        return self.child.exitstatus

    @property
    def text(self) -> str:
        return "\n".join(self.emulator.rows)


@pytest.fixture
def args(models: Models) -> tuple[object, ...]:
    return ("--temp", "0", "-n", 12, "-c", 400, "-m", models.target, "--no-draft", "--no-tui")


@pytest.fixture
def screen(spec_cli: SpecCli, args: tuple[object, ...]) -> Iterator[Screen]:
    screen = Screen(spec_cli, *args)
    screen.prompt()
    yield screen
    screen.child.close(force=True)


def test_an_exchange_is_a_message_its_answer_and_a_line_of_figures(screen: Screen) -> None:
    screen.say("hello there")
    screen.type("\x04")
    assert screen.end() == 0
    rows = [row for row in screen.emulator.rows if row]
    assert rows[0] == "Tiny llama 0. `/help` lists the commands, Ctrl-D leaves."
    assert rows[1] == "> hello there"
    assert any(re.match(r"[\d.,]+ tok/s; length limit; prompt \d+", row) for row in rows)
    assert screen.emulator.cursor_is_visible


def test_the_line_and_the_panel_are_of_the_answer_alone(spec_cli: SpecCli, models: Models) -> None:
    screen = Screen(spec_cli, "--temp", "0", "-n", 40, *models.pair, "-k", 4)
    screen.prompt()
    screen.type("hello there\r")
    screen.wait(r"tok/pass")  # the panel
    screen.wait(r"accepted; [^\n]*\n")
    screen.prompt()
    screen.type("\x04")
    assert screen.end() == 0
    assert "──" not in screen.text and "tok/pass" not in screen.text


def test_the_history_is_kept_in_a_private_file(
    spec_cli: SpecCli, args: tuple[object, ...], screen: Screen
) -> None:
    screen.say("hello from yesterday")
    screen.type("/exit\r")
    assert screen.end() == 0
    path = spec_cli.home / "STATE" / "spec-cli" / "chat-history"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = Screen(spec_cli, *args)
    again.prompt()
    again.type("\x1b[A", "\x1b[A", "\r")
    again.wait(r"tok/s[;,] [^\n]*\n")
    again.prompt()
    assert "> hello from yesterday" in again.emulator.rows
    again.type("\x04")
    assert again.end() == 0


def test_control_c_stops_the_answer_and_the_next_one_goes_on(
    spec_cli: SpecCli, models: Models
) -> None:
    args = ("--temp", "0", "-c", 60000, "-m", models.target, "--no-draft")
    screen = Screen(spec_cli, *args)
    screen.prompt()
    screen.type("hello there\r")
    screen.wait("tok/s")
    screen.type("\x03")
    screen.wait(r"tok/s; interrupted[^\n]*\n")
    screen.prompt()
    screen.type("/set max-tokens 5\r")
    screen.wait("max-tokens  5")
    screen.prompt()
    screen.type("and then?\r")
    screen.wait(r"tok/s; length limit; prompt \d+, \d+ kept[^\n]*\n")
    screen.prompt()
    screen.type("\x04")
    assert screen.end() == 0
    assert "Traceback" not in screen.text


def test_control_c_clears_the_line_and_leaves_the_second_time(screen: Screen) -> None:
    screen.type("never sent", "\x03")
    screen.see("Ctrl-C again leaves")
    assert "never sent" not in screen.text
    screen.type("x", "\x03")
    screen.see("Ctrl-C again leaves")
    screen.type("\x03")
    assert screen.end() == 130
    assert screen.emulator.cursor_is_visible and "Traceback" not in screen.text


def test_an_interrupt_that_is_no_key_keeps_what_was_typed(screen: Screen) -> None:
    """So comes a Ctrl-C that is older than the prompt; what follows it may be on the line."""
    screen.type("typed after it")
    screen.see("> typed after it")
    screen.child.kill(signal.SIGINT)
    screen.see("Ctrl-C again leaves")
    assert any(row.startswith("> typed after it") for row in screen.emulator.window)
    screen.child.kill(signal.SIGINT)
    assert screen.end() == 130


def test_messages_of_several_lines_come_by_key_by_quotes_and_by_pasting(
    screen: Screen, tmp_path: Path
) -> None:
    saved = tmp_path / "saved.json"
    screen.say("one\x1b\rtwo")
    screen.say('"""\rthree\r\rfour\r"""')
    screen.say("\x1b[200~five\nsix\x1b[201~")
    screen.type(f"/save {saved}\r")
    screen.wait("3 turns saved")
    screen.prompt()
    text = saved.read_text()
    for message in (r'"one\ntwo"', r'"three\n\nfour"', r'"five\nsix"'):
        assert message in text


def test_a_message_that_does_not_fit_stays_to_be_edited(screen: Screen) -> None:
    screen.say("hello there")
    screen.type("y" * 400, "\r")
    screen.wait("error: the conversation would have")
    screen.prompt()
    screen.wait("yyyyyyyy")  # it is there again
    screen.type("\x7f" * 390, "\r")
    screen.wait(r"tok/s[;,] [^\n]*\n")
    screen.prompt()
    screen.type("\x04")
    assert screen.end() == 0


def test_commands_are_completed(screen: Screen) -> None:
    screen.type("/comp")
    screen.see("Drop the N oldest turns")
    screen.type("\t")
    screen.see("> /compact")
    screen.type("\r")
    screen.wait("there is no turn to drop")
    screen.prompt()
    screen.type("\x04")
    assert screen.end() == 0


def test_what_a_model_writes_does_not_steer_the_terminal(spec_cli: SpecCli, models: Models) -> None:
    screen = Screen(spec_cli, "--temp", "2", "--seed", 3, "-n", 200, "-m", models.babble)
    screen.prompt()
    screen.type("hi\r")
    screen.wait(r"tok/s[;,] [^\n]*\n")
    screen.prompt()
    screen.type("\x04")
    assert screen.end() == 0
    assert screen.emulator.title == "" and "> hi" in screen.emulator.rows


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminate_signal_at_the_prompt_leaves_the_terminal_in_order(
    screen: Screen, number: signal.Signals
) -> None:
    screen.type("typed, never sent")
    screen.child.kill(number)
    assert screen.end() == 128 + number
    assert screen.emulator.cursor_is_visible and "Traceback" not in screen.text


def test_a_terminal_that_hangs_up_ends_the_chat(
    spec_cli: SpecCli, args: tuple[object, ...]
) -> None:
    screen = Screen(spec_cli, *args)
    screen.prompt()
    screen.child.ptyproc.fileobj.close()
    _, status = os.waitpid(screen.child.pid, 0)
    screen.child.closed = screen.child.ptyproc.closed = True
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGHUP


def test_redirected_answers_are_text_alone_and_the_prompt_stays_on_the_terminal(
    spec_cli: SpecCli, args: tuple[object, ...], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    screen = Screen(spec_cli, *args, redirect=f"> {out}")
    screen.prompt()
    screen.say("hello there")
    screen.type("\x04")
    assert screen.end() == 0
    alone = spec_cli("run", "hello there", *map(str, args), "-q")
    assert out.read_bytes() == alone.stdout


def test_what_is_typed_during_an_answer_waits_for_its_end(
    spec_cli: SpecCli, models: Models
) -> None:
    args = ("--temp", "0", "-n", 3000, "-c", 60000, "-m", models.target, "--no-draft")
    screen = Screen(spec_cli, *args)
    screen.prompt()
    screen.type("hello there\r")
    screen.wait("tok/s")  # the panel
    screen.type("typed ahead")
    screen.wait(r"tok/s; length limit[^\n]*\n")
    assert "typed ahead" not in screen.text
    screen.see("> typed ahead")
    screen.type("\x03", "\x04")
    screen.wait(pexpect.EOF)
    assert termios.tcgetattr(screen.child.child_fd)[3] & termios.ECHO


def test_a_terminate_signal_while_the_editor_is_open_ends_the_chat_after_it(
    spec_cli: SpecCli, args: tuple[str, ...], tmp_path: Path
) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nkill -TERM $PPID\n")
    editor.chmod(0o755)
    screen = Screen(spec_cli, *args, env={"VISUAL": str(editor)})
    screen.prompt()
    screen.type("hello there", "\x18\x05")
    assert screen.end() == 128 + signal.SIGTERM
    assert screen.emulator.cursor_is_visible and "Traceback" not in screen.text


def test_a_message_can_be_edited_elsewhere_and_nothing_of_that_is_among_the_answers(
    spec_cli: SpecCli, args: tuple[object, ...], tmp_path: Path
) -> None:
    out, editor = tmp_path / "out", tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho a picture of the text\necho and more >> "$1"\n')
    editor.chmod(0o755)
    screen = Screen(spec_cli, *args, redirect=f"> {out}", env={"VISUAL": str(editor)})
    screen.prompt()
    screen.type("hello there ", "\x18\x05")
    screen.see("a picture of the text")
    screen.see("and more")
    screen.say("")
    screen.type("\x04")
    assert screen.end() == 0
    alone = spec_cli("run", "hello there and more", *map(str, args), "-q")
    assert out.read_bytes() == alone.stdout
