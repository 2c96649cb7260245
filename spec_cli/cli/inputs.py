"""Where the prompt comes from: the argument, stdin or a file."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field

from spec_cli.errors import UsageError
from spec_cli.files import read_bounded, read_input
from spec_cli.prompt import Message, check_text
from spec_cli.terminal import Terminal

_STDIN = "-"


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
        return read_input(file, file)
    if terminal.stdin_is_tty and file != _STDIN:
        return None
    try:
        return read_bounded(terminal.stdin.buffer, "stdin")
    except OSError as error:
        if error.errno == errno.EBADF and file != _STDIN:
            return None  # nohup leaves a stdin that is open for writing only
        raise UsageError(f"cannot read stdin: {error.strerror}") from None
