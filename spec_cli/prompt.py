"""From what the user gives to the token ids that the target starts from.

Text of a message stays text: `<|im_end|>` in a piped file is ten characters for the model to
read, never the end of its turn.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Protocol

from spec_cli.errors import ModelError, SpecError, UsageError
from spec_cli.files import read_input
from spec_cli.template import BrokenError, RefusedError, template_process

NO_VARIABLES: Mapping[str, object] = MappingProxyType({})
_TEMPLATE_CHARS = 1 << 20  # what a template may add to four times its messages
_STAND_INS = range(0xF0000, 0xFFFFE)  # a private-use plane: no text of its own, never stripped


class Tokenizer(Protocol):
    """The target's tokenizer."""

    def tokenize(self, text: str, *, special: bool, bos: bool) -> list[int]:
        """Token ids of `text`. With `special`, control tokens written in it are recognised; with
        `bos`, a BOS token comes first if the vocabulary asks for one. Never adds an EOS token."""

    def control_texts(self) -> Sequence[str]:
        """The texts of all control and unknown tokens of the vocabulary."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation; `role` is `system`, `user` or `assistant`."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A chat template and what it needs besides the messages.

    `source` is Jinja, the model's own or (`is_users`) the user's. `variables` reach the template
    too, and win over what is set here. `now` is the time that the template may tell the model.
    """

    source: str
    is_users: bool
    bos_token: str
    eos_token: str
    now: datetime
    variables: Mapping[str, object]


def compose_prompt(argument: str | None, material: bytes | None, *, raw: bool = False) -> str:
    """One prompt from the command line's argument and the material of a pipe or file.

    Material comes first, the argument is the instruction. In a chat a blank line parts them,
    blank ones are left out and one line end after the material is dropped. A raw prompt keeps
    every character; material that ends within a line is parted from the argument by a line end.
    Raises UsageError when there is nothing but space, or text that is not valid UTF-8.
    """
    text = decode_text(material or b"", "the input")
    instruction = check_text(argument or "", "the prompt")
    if raw:
        joint = "\n" if text and instruction and not text.endswith("\n") else ""
        prompt = text + joint + instruction
    else:
        text = text.removesuffix("\n").removesuffix("\r")
        prompt = "\n\n".join(part for part in (text, instruction) if part.strip())
    if not prompt.strip():
        raise UsageError(
            "no prompt",
            hint='give one: `spec-cli run "PROMPT"`, `COMMAND | spec-cli run` '
            "or `spec-cli run -f FILE`",
        )
    return prompt


def decode_text(data: bytes, what: str) -> str:
    """Decode UTF-8, without its byte order mark. `what` names the source in the UsageError."""
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as exc:
        is_utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        likely = "UTF-16" if is_utf16 else "WINDOWS-1252"
        raise UsageError(
            f"{what} is not valid UTF-8: byte 0x{data[exc.start]:02x} at offset {exc.start}",
            hint=f"convert it first, for example with `iconv -f {likely} -t UTF-8`",
        ) from None


def check_text(text: str, what: str) -> str:
    """Return `text`; raises UsageError when it holds bytes that could not be decoded."""
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        offset = len(text[: exc.start].encode())
        hint = "pipe the text in as UTF-8"
        raise UsageError(f"{what} is not valid UTF-8 at offset {offset}", hint=hint) from None
    return text


def choose_template(
    of_model: str | None,
    of_user: str | None,
    *,
    bos_token: str,
    eos_token: str,
    now: datetime,
    variables: Mapping[str, object] = NO_VARIABLES,
) -> ChatTemplate:
    """The template to use: the user's, if there is one, else the model's; both are Jinja source.

    Raises UsageError when there is neither.
    """
    source = of_model if of_user is None else of_user
    if source is None:
        raise UsageError(
            "the model has no chat template", hint="use `--raw`, or `--chat-template FILE`"
        )
    return ChatTemplate(source, of_user is not None, bos_token, eos_token, now, variables)


def read_template(option: str) -> str:
    """The Jinja source that `option` is, or that the file of that name holds.

    Raises UsageError when the file cannot be read.
    """
    if "{{" in option or "{%" in option:
        return option
    what = f"the chat template {option}"
    return decode_text(read_input(option, what, hint="give a file, or Jinja source"), what)


def raw_tokens(tokenizer: Tokenizer, prompt: str, *, bos_token: str) -> list[int]:
    """Token ids of a raw prompt, control tokens included, with one BOS token at most."""
    return tokenizer.tokenize(prompt, special=True, bos=_lacks_bos(prompt, bos_token))


def chat_tokens(
    tokenizer: Tokenizer,
    template: ChatTemplate,
    messages: Sequence[Message],
    given: str = "",
    *,
    cancelled: Callable[[], bool] = lambda: False,
) -> list[int]:
    """Token ids of a conversation, up to where the assistant's next turn goes on after `given`.

    No text of a message, nor of `given`, becomes a control token. Raises what `render_chat` raises.
    """
    control = _any_of(tokenizer.control_texts())
    texts = [*(message.content for message in messages), given]
    if not any(map(control.search, texts)):
        rendered = render_chat(template, messages, cancelled=cancelled) + given
        bos = _lacks_bos(rendered, template.bos_token)
        return tokenizer.tokenize(rendered, special=True, bos=bos)
    hidden = _stand_ins(control, template, texts)

    def shield(text: str) -> str:
        return control.sub(lambda found: hidden[found[0]], text)

    shielded = [Message(message.role, shield(message.content)) for message in messages]
    rendered = render_chat(template, shielded, cancelled=cancelled) + shield(given)
    bos = _lacks_bos(rendered, template.bos_token)
    tokens: list[int] = []
    for text, special in _stretches(rendered, control, hidden):
        tokens += tokenizer.tokenize(text, special=special, bos=bos)
        bos = False
    return tokens


def _lacks_bos(text: str, bos_token: str) -> bool:
    return not (bos_token and text.startswith(bos_token))


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    longest_first = sorted(filter(None, texts), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")


def _stand_ins(
    control: re.Pattern[str], template: ChatTemplate, texts: Sequence[str]
) -> dict[str, str]:
    """A private character, used nowhere, for each control text that `texts` spell."""
    spelled = {found for text in texts for found in control.findall(text)}
    used = set(template.source).union(*texts)
    free = (c for c in map(chr, _STAND_INS) if c not in used)
    return dict(zip(sorted(spelled), free, strict=False))


def _stretches(
    rendered: str, control: re.Pattern[str], hidden: Mapping[str, str]
) -> Iterator[tuple[str, bool]]:
    """Cut a rendered prompt into (text, special).

    A stretch between two control tokens is tokenised apart from them anyway, so one that hides a
    control text is taken out whole: its ids are those that any other text would get there.
    """
    restored = str.maketrans({stand_in: text for text, stand_in in hidden.items()})
    special = ""
    for part in re.split(f"({control.pattern})", rendered):
        text = part.translate(restored)
        if text == part:
            special += part
            continue
        if special:
            yield special, True
        yield text, False
        special = ""
    if special:
        yield special, True


def render_chat(
    template: ChatTemplate,
    messages: Sequence[Message],
    *,
    add_generation_prompt: bool = True,
    cancelled: Callable[[], bool] = lambda: False,
) -> str:
    """Render a conversation; `cancelled` is asked meanwhile.

    Raises UsageError when the template refuses the messages or is the user's and wrong, ModelError
    when it is the model's and wrong, and Cancelled.
    """
    names: dict[str, object] = {
        "messages": [{"role": m.role, "content": m.content} for m in messages],
        "tools": None,
        "documents": None,
        "bos_token": template.bos_token,
        "eos_token": template.eos_token,
        "add_generation_prompt": add_generation_prompt,
        **template.variables,
    }
    request = {
        "source": template.source,
        "names": names,
        "now": template.now.isoformat(),
        "n_max": _TEMPLATE_CHARS + 4 * sum(len(message.content) for message in messages),
    }
    with _explained(template):
        rendered = template_process().render(request, cancelled)
    if not rendered:
        raise _broken(template, "it gives an empty prompt")
    return rendered


def variables_of(template: ChatTemplate) -> set[str]:
    """The names of the variables that a template reads. Raises as `render_chat` does."""
    with _explained(template):
        return template_process().variables(template.source)


@contextmanager
def _explained(template: ChatTemplate) -> Iterator[None]:
    """What a template does wrong, as an error that says whose fault it is."""
    try:
        yield
    except RefusedError as exc:
        raise UsageError(
            f"the chat template refuses the messages: {exc}",
            hint="change the messages, for example leave out `--system`, or use `--raw`",
        ) from None
    except BrokenError as exc:
        raise _broken(template, str(exc)) from None


def _broken(template: ChatTemplate, cause: str) -> SpecError:
    kind = UsageError if template.is_users else ModelError
    hint = "use `--raw`, or give another one with `--chat-template FILE`"
    return kind(f"the chat template does not work: {cause}", hint=hint)
