"""From what the user gives to the tokens of a prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from spec_cli.cli.inputs import PromptInput
from spec_cli.encoding import EncodedPrompt, encode_chat, template_for
from spec_cli.llama.model import LlamaModel
from spec_cli.prompt import Message, raw_tokens
from spec_cli.prompts import NamedPrompt
from spec_cli.session import Session
from spec_cli.text import NO_OPENING

# Templates may tell the time: a measurement that is continued tomorrow has the prompts of today.
_MEASURED = datetime(2026, 1, 1)


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
