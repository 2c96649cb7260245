"""Where the prompt comes from: the argument, stdin or a file."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from spec_cli.errors import UsageError
from spec_cli.prompt import Message, check_text
from spec_cli.terminal import Terminal

_STDIN = "-"
_MAX_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class PromptInput:
    """The user's text, and how it becomes a prompt; `chat_template` is Jinja source.

    `given` is how the answer begins. `variables` are those of the template; `think` sets its switch
    for thinking, None leaves it alone. `messages`, where there are any, stand in place of the text.
    """

    text: str
    system: str | None
    raw: bool
    chat_template: str | None
    given: str = ""
    variables: Mapping[str, object] = field(default_factory=dict)
    think: bool | None = None
    messages: tuple[Message, ...] = ()

    def __post_init__(self) -> None:
        of_template = {
            "--system": self.system is not None,
            "--chat-template": self.chat_template is not None,
            "--prefill": bool(self.given),
            "--template-var": bool(self.variables),
            "messages": bool(self.messages),
            "--think" if self.think else "--no-think": self.think is not None,
        }
        for option, is_given in of_template.items():
            if self.raw and is_given:
                raise UsageError(
                    f"`--raw` uses no chat template, so `{option}` has no place",
                    hint="leave out `--raw`, or write the whole prompt yourself",
                )
        check_text(self.system or "", "the system prompt")
        check_text(self.given, "--prefill")


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
