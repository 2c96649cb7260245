"""Where the prompt comes from: the argument, stdin or a file."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from spec_cli.encoding import EncodedPrompt, encode_chat, template_for
from spec_cli.errors import UsageError
from spec_cli.files import read_bounded, read_input
from spec_cli.llama.model import LlamaModel
from spec_cli.prompt import Message, check_text, raw_tokens
from spec_cli.prompts import NamedPrompt
from spec_cli.session import Session
from spec_cli.terminal import Terminal
from spec_cli.text import NO_OPENING

# Templates may tell the time: a measurement that is continued tomorrow has the prompts of today.
_MEASURED = datetime(2026, 1, 1)
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


def encode(
    model: LlamaModel,
    template: str | None,
    prompt: PromptInput,
    now: datetime,
    *,
    cancelled: Callable[[], bool] = lambda: False,
) -> EncodedPrompt:
    """`prompt` for `model`; `template` is the model's own chat template, if it has one.

    Raises UsageError or ModelError when there is no usable template, and Cancelled.
    """
    if prompt.raw:
        tokens = raw_tokens(model, prompt.text, bos_token=model.bos_text)
        return EncodedPrompt(tokens, prompt.text, NO_OPENING)
    chosen = template_for(
        model,
        template,
        prompt.chat_template,
        now,
        variables=prompt.variables,
        think=prompt.think,
    )
    return encode_chat(model, chosen, _messages(prompt), prompt.given, cancelled=cancelled)


def encode_measured(
    session: Session, prompts: Sequence[NamedPrompt], *, cancelled: Callable[[], bool]
) -> dict[str, list[int]]:
    """Prompts of a measurement by their ids, in the model's chat template if it has one.

    Raises what `encode` raises.
    """
    template = session.target_header.chat_template

    def tokens(text: str) -> list[int]:
        user = PromptInput(text, system=None, raw=template is None, chat_template=None)
        return encode(session.model, template, user, _MEASURED, cancelled=cancelled).tokens

    return {prompt.id: tokens(prompt.text) for prompt in prompts}


def _messages(prompt: PromptInput) -> list[Message]:
    messages = prompt.messages or (Message("user", prompt.text),)
    if prompt.system is None or messages[0].role == "system":
        return [*messages]
    return [Message("system", prompt.system), *messages]
