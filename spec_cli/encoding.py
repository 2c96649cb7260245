"""Conversations as a model gets them: by its chat template, up to where the answer begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from spec_cli.llama.model import LlamaModel
from spec_cli.prompt import (
    NO_VARIABLES,
    ChatTemplate,
    Message,
    chat_tokens,
    choose_template,
    render_chat,
)
from spec_cli.reasoning import find_format
from spec_cli.template_variables import with_variables
from spec_cli.text import Opening


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """A prompt for one model: its ids, and its text as far as the user's beginning of the answer.

    `opening` is how the answer begins.
    """

    tokens: list[int]
    text: str
    opening: Opening


def template_for(
    model: LlamaModel,
    of_model: str | None,
    of_user: str | None,
    now: datetime,
    *,
    variables: Mapping[str, object] = NO_VARIABLES,
    think: bool | None = None,
) -> ChatTemplate:
    """The chat template for `model`, with the variables that the user sets; sources are Jinja.

    Raises UsageError where there is none, or where it does not read a variable.
    """
    chosen = choose_template(
        of_model, of_user, bos_token=model.bos_text, eos_token=model.eos_text, now=now
    )
    return with_variables(chosen, variables, think=think)


def encode_chat(
    model: LlamaModel,
    template: ChatTemplate,
    messages: Sequence[Message],
    given: str = "",
    *,
    cancelled: Callable[[], bool] = lambda: False,
) -> EncodedPrompt:
    """A conversation whose next answer begins with `given`. Raises what `chat_tokens` raises."""
    tokens = chat_tokens(model, template, messages, given, cancelled=cancelled)
    text = render_chat(template, messages, cancelled=cancelled)
    return EncodedPrompt(tokens, text, Opening(given, find_format(model, template.source, text)))
