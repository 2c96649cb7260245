"""A conversation as a file's text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from spec_cli.chat.conversation import Conversation
from spec_cli.chat.settings import SETTING_NAMES, ChatSettings
from spec_cli.errors import UsageError
from spec_cli.prompt import Message, check_text

SCHEMA = "spec-cli/chat/1"
_OF_ANY_VERSION = "spec-cli/chat/"
_TURN = ("user", "assistant")


@dataclass(frozen=True, slots=True)
class Saved:
    """What a file holds; `model` gave the answers, None where the file does not say."""

    conversation: Conversation
    settings: ChatSettings
    model: str | None


def dump(conversation: Conversation, settings: ChatSettings, model: str) -> str:
    """The text of a file that holds all of it; `model` is for the reader's information."""
    messages = [{"role": m.role, "content": m.content} for m in conversation.messages()]
    whole = {
        "schema": SCHEMA,
        "model": model,
        "settings": settings.words(),
        "messages": messages,
    }
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def load(text: str, settings: ChatSettings, what: str) -> Saved:
    """What `dump` has written; settings that it does not name are those of `settings`.

    `what` names the file. Raises UsageError for anything else.
    """
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        _refuse(what, "it is not JSON")
    fields = whole if isinstance(whole, dict) else {}
    _require_schema(fields.get("schema"), what)
    model = fields.get("model")
    return Saved(
        _conversation(fields.get("messages"), what),
        _settings(fields.get("settings", {}), settings, what),
        model if isinstance(model, str) else None,
    )


def _require_schema(schema: Any, what: str) -> None:
    if schema == SCHEMA:
        return
    found = json.dumps(schema)[:40]
    if isinstance(schema, str) and schema.startswith(_OF_ANY_VERSION):
        raise UsageError(
            f"{what} is of another version of spec-cli: its `schema` is {found}, not `{SCHEMA}`",
            hint="load it with the version that saved it, or a later one",
        )
    _refuse(what, f"its `schema` is {found}, not `{SCHEMA}`")


def _conversation(messages: Any, what: str) -> Conversation:
    if not isinstance(messages, list):
        _refuse(what, "its `messages` are not a list")
    said = [_message(message, i, what) for i, message in enumerate(messages)]
    system = said.pop(0).content if said and said[0].role == "system" else None
    conversation = Conversation(system)
    for question, answer in _pairs(said, what):
        conversation = conversation.answered(question.content, answer.content)
    return conversation


def _message(message: Any, index: int, what: str) -> Message:
    fields = message if isinstance(message, dict) else {}
    role, content = fields.get("role"), fields.get("content")
    if not isinstance(role, str) or not isinstance(content, str):
        _refuse(what, f"message {index + 1} has no `role` and `content` that are text")
    return Message(role, check_text(content, f"message {index + 1} of {what}"))


def _pairs(said: Sequence[Message], what: str) -> list[tuple[Message, Message]]:
    roles = tuple(message.role for message in said)
    if roles != _TURN * (len(said) // 2):
        _refuse(what, "its messages do not alternate between `user` and `assistant`")
    return list(zip(said[::2], said[1::2], strict=True))


def _settings(words: Any, settings: ChatSettings, what: str) -> ChatSettings:
    if not isinstance(words, dict):
        _refuse(what, "its `settings` are not an object")
    try:
        for name in SETTING_NAMES:
            if name in words:
                settings = settings.with_word(name, str(words[name]))
    except UsageError as error:
        _refuse(what, f"in its `settings`, {error.message}")
    return settings


def _refuse(what: str, why: str) -> NoReturn:
    raise UsageError(f"{what} is not a saved chat: {why}", hint="`/save FILE` writes one")
