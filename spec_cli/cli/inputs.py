"""Where the prompt comes from: the argument, stdin or a file."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from spec_cli.errors import UsageError
from spec_cli.llama.model import LlamaModel
from spec_cli.prompt import Message, chat_tokens, check_text, choose_template, raw_tokens
from spec_cli.terminal import Terminal

_STDIN = "-"
_MAX_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class PromptInput:
    """The user's text, and how it becomes a prompt; `chat_template` is Jinja source."""

    text: str
    system: str | None
    raw: bool
    chat_template: str | None

    def __post_init__(self) -> None:
        if self.raw and (self.system is not None or self.chat_template is not None):
            raise UsageError(
                "`--raw` uses no chat template, so `--system` and `--chat-template` have no place",
                hint="leave out `--raw`, or write the whole prompt yourself",
            )
        check_text(self.system or "", "the system prompt")


def read_material(terminal: Terminal, file: str | None) -> bytes | None:
    """The bytes of `--file`, else of stdin unless it is a terminal. Raises UsageError."""
    if file is not None and file != _STDIN:
        try:
            with Path(file).open("rb") as opened:
                return _read(opened, file)
        except OSError as error:
            raise UsageError(f"cannot read {file}: {error.strerror}") from None
    if terminal.stdin_is_tty and file != _STDIN:
        return None
    try:
        return _read(terminal.stdin.buffer, "stdin")
    except OSError as error:
        if error.errno == errno.EBADF and file != _STDIN:
            return None  # nohup leaves a stdin that is open for writing only
        raise UsageError(f"cannot read stdin: {error.strerror}") from None


def _read(file: BinaryIO, name: str) -> bytes:
    data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise UsageError(
            f"{name} holds more than {_MAX_BYTES >> 20} MiB: no context has room for it"
        )
    return data


def encode_prompt(
    model: LlamaModel,
    template: str | None,
    prompt: PromptInput,
    now: datetime,
    *,
    cancelled: Callable[[], bool] = lambda: False,
) -> list[int]:
    """Token ids of `prompt`; `template` is the model's own chat template, if it has one.

    Raises UsageError or ModelError when there is no usable template, and Cancelled.
    """
    if prompt.raw:
        return raw_tokens(model, prompt.text, bos_token=model.bos_text)
    chosen = choose_template(
        template,
        prompt.chat_template,
        bos_token=model.bos_text,
        eos_token=model.eos_text,
        now=now,
    )
    messages = [Message("system", prompt.system)] if prompt.system is not None else []
    messages.append(Message("user", prompt.text))
    return chat_tokens(model, chosen, messages, cancelled=cancelled)
