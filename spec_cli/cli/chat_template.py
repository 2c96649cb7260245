"""The chat template of a conversation, as the user wants it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from spec_cli.encoding import template_for
from spec_cli.errors import UsageError
from spec_cli.llama.model import LlamaModel
from spec_cli.prompt import ChatTemplate


@dataclass(frozen=True, slots=True)
class TemplateChoice:
    """The Jinja source of the user's chat template, None for the model's, and its variables."""

    source: str | None
    variables: Mapping[str, object]


class Templates:
    """The template of one model, thinking or not; each is checked when it is first asked for."""

    def __init__(
        self, model: LlamaModel, of_model: str | None, choice: TemplateChoice, now: datetime
    ) -> None:
        """`of_model` is the model's own. Raises UsageError where there is none at all."""
        if of_model is None and choice.source is None:
            raise UsageError(
                "the model has no chat template",
                hint="give one with `--chat-template FILE`, or use `spec-cli run --raw`",
            )
        self._model, self._of_model, self._choice, self._now = model, of_model, choice, now
        self._made: dict[bool | None, ChatTemplate] = {}

    def of(self, think: bool | None) -> ChatTemplate:
        """With its switch for thinking set if `think` is not None.

        Raises UsageError where it has none, or does not read another variable.
        """
        if think not in self._made:
            self._made[think] = template_for(
                self._model,
                self._of_model,
                self._choice.source,
                self._now,
                variables=self._choice.variables,
                think=think,
            )
        return self._made[think]
