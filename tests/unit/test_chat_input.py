"""The prompt of a chat, where a signal meets it before it listens; and what is piped in."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit import PromptSession

from spec_cli.cli.chat_input import TypedTurns
from spec_cli.cli.chat_piped import PipedTurns
from spec_cli.cli.signals import Terminated
from spec_cli.errors import UsageError
from spec_cli.files import MAX_INPUT_BYTES


@pytest.fixture
def turns(tmp_path: Path) -> TypedTurns:
    return TypedTurns(io.StringIO(), tmp_path / "history", {}, (), edit=lambda text: text)


def prompts(monkeypatch: pytest.MonkeyPatch, outcomes: Iterator[str | None]) -> None:
    """Each prompt ends with the next outcome; None: with the interrupt of a signal."""

    def prompt(self: object, message: str, *, default: str) -> str:
        text = next(outcomes)
        if text is None:
            raise KeyboardInterrupt
        return text

    monkeypatch.setattr(PromptSession, "prompt", prompt)


def test_one_interrupt_before_the_prompt_listens_does_not_end_the_chat(
    turns: TypedTurns, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts(monkeypatch, iter([None, "one", None, "two"]))
    assert [turns.read(""), turns.read("")] == ["one", "two"]


def test_a_terminate_signal_that_comes_together_with_enter_ends_the_chat(
    turns: TypedTurns, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Loop:
        """Of a prompt that is answered: what is called soon is not called any more."""

        def call_soon_threadsafe(self, _act: object) -> None:
            pass

    def prompt(self: PromptSession[str], message: str, *, default: str) -> str:
        with monkeypatch.context() as patch:
            patch.setattr(self.app, "loop", Loop())
            os.kill(os.getpid(), signal.SIGTERM)
        return "never said"

    monkeypatch.setattr(PromptSession, "prompt", prompt)
    with pytest.raises(Terminated):
        turns.read("")


def test_two_of_them_do(turns: TypedTurns, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts(monkeypatch, iter([None, None, "never"]))
    with pytest.raises(KeyboardInterrupt):
        turns.read("")


def test_an_endless_line_of_a_pipe_is_the_last_one() -> None:
    turns = PipedTurns(io.BytesIO(b"first\n" + b"\0" * (MAX_INPUT_BYTES + 1) + b"\nlast\n"))
    assert turns.read("") == "first"
    with pytest.raises(UsageError, match="line 2 of the input holds more than 32 MiB"):
        turns.read("")
    with pytest.raises(EOFError):
        turns.read("")
