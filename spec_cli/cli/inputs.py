"""Where the prompt comes from: the argument, stdin or a file."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from spec_cli.errors import UsageError
from spec_cli.llama.model import LlamaModel
from spec_cli.prompt import (
    ChatTemplate,
    Message,
    chat_tokens,
    check_text,
    choose_template,
    raw_tokens,
    render_chat,
)
from spec_cli.reasoning import find_format
from spec_cli.template_variables import with_variables
from spec_cli.terminal import Terminal
from spec_cli.text import NO_OPENING, Opening

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
    chosen = template_of(model, template, prompt, now)
    return chat_tokens(model, chosen, _messages(prompt), prompt.given, cancelled=cancelled)


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """A prompt for one model: its ids, and its text as far as the user's beginning of the answer.

    `opening` is how the answer begins.
    """

    tokens: list[int]
    text: str
    opening: Opening


def encode(
    model: LlamaModel,
    template: str | None,
    prompt: PromptInput,
    now: datetime,
    *,
    cancelled: Callable[[], bool] = lambda: False,
) -> EncodedPrompt:
    """`encode_prompt`, and what else there is to know."""
    tokens = encode_prompt(model, template, prompt, now, cancelled=cancelled)
    if prompt.raw:
        return EncodedPrompt(tokens, prompt.text, NO_OPENING)
    chosen = template_of(model, template, prompt, now)
    text = render_chat(chosen, _messages(prompt))
    opening = Opening(prompt.given, find_format(model, chosen.source, text))
    return EncodedPrompt(tokens, text, opening)


def template_of(
    model: LlamaModel, template: str | None, prompt: PromptInput, now: datetime
) -> ChatTemplate:
    """The chat template for `prompt`, with the variables that the user sets."""
    chosen = choose_template(
        template,
        prompt.chat_template,
        bos_token=model.bos_text,
        eos_token=model.eos_text,
        now=now,
    )
    return with_variables(chosen, prompt.variables, think=prompt.think)


def _messages(prompt: PromptInput) -> list[Message]:
    messages = prompt.messages or (Message("user", prompt.text),)
    if prompt.system is None or messages[0].role == "system":
        return [*messages]
    return [Message("system", prompt.system), *messages]
