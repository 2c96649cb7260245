"""One line of the input: a prompt, and settings of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from spec_cli.batch.lines import MAX_LINE_BYTES
from spec_cli.errors import SpecError, UsageError
from spec_cli.names import nearest
from spec_cli.prompt import Message, check_text, decode_text
from spec_cli.settings import GenerationSettings
from spec_cli.spec.settings import SamplingSettings

_NUMBERS = {
    name: type(value)
    for name, value in asdict(SamplingSettings()).items()
    if isinstance(value, int | float)
}
_ALIASES = {"temperature": "temp"}
_COUNTS = ("seed", "max_tokens")
_FIELDS = ("prompt", "messages", "id", "system", "stop", *_COUNTS, *_NUMBERS, *_ALIASES)
_IGNORED = "kind"  # prompt files of `bench` and `verify` have it
_ROLES = ("system", "user", "assistant")

Fields = Mapping[str, Any]
Id = str | int | None


@dataclass(frozen=True, slots=True)
class Request:
    """What a line asks for: a `prompt`, or else `messages`; `index` counts lines from 0.

    `key` tells the line and the settings from others. `system` is the line's own system prompt.
    `generation` is that of the run, with what the line sets in its place.
    """

    index: int
    key: str
    id: Id
    prompt: str | None
    messages: tuple[Message, ...]
    system: str | None
    generation: GenerationSettings
    sets_seed: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """A line without an answer, and why."""

    index: int
    key: str
    id: Id
    error: SpecError


def read_request(line: bytes, index: int, key: str, run: GenerationSettings) -> Request | Failure:
    """What `line` asks for, where `run` has the settings that it does not make itself.

    A field that is null is as good as none.
    """
    known: Id = None
    try:
        own = _fields(line)
        known = _id(own)
        return _request(own, known, index, key, run)
    except UsageError as error:
        return Failure(index, key, known, error)


def _fields(line: bytes) -> Fields:
    if len(line) > MAX_LINE_BYTES:
        raise UsageError(f"the line has more than {MAX_LINE_BYTES >> 20} MiB")
    try:
        value = json.loads(decode_text(line, "the line"))
    except json.JSONDecodeError as error:
        raise UsageError(
            f"the line is not JSON: {error.msg} at column {error.colno}",
            hint='write `{"prompt": "..."}` or `"..."`, for example with `jq -c`',
        ) from None
    except (ValueError, RecursionError):  # more digits or nesting than Python reads
        raise UsageError(
            "the line has a number that is too long, or is nested too deeply"
        ) from None
    if isinstance(value, str):
        return {"prompt": value}
    if not isinstance(value, dict):
        raise UsageError(
            "the line is neither a JSON object nor a string", hint='write `{"prompt": "..."}`'
        )
    return {name: given for name, given in value.items() if given is not None}


def _request(own: Fields, known: Id, index: int, key: str, run: GenerationSettings) -> Request:
    for name in own:
        if name not in (*_FIELDS, _IGNORED):
            raise _unknown(name)
    if ("prompt" in own) == ("messages" in own):
        raise UsageError(
            "there must be one of `prompt` and `messages`", hint='write `{"prompt": "..."}`'
        )
    messages = _messages(own["messages"]) if "messages" in own else ()
    system = _text(own, "system") if "system" in own else None
    if system is not None and messages and messages[0].role == "system":
        raise UsageError("there are two system prompts: `system` and the first of `messages`")
    return Request(
        index=index,
        key=key,
        id=known,
        prompt=_prompt(own) if "prompt" in own else None,
        messages=messages,
        system=system,
        generation=_generation(own, run),
        sets_seed="seed" in own,
    )


def _prompt(own: Fields) -> str:
    text = _text(own, "prompt")
    if not text.strip():
        raise UsageError("`prompt` is blank")
    return text


def _messages(value: object) -> tuple[Message, ...]:
    if not isinstance(value, list) or not value:
        raise UsageError("`messages` must be a list of messages, and not empty")
    return tuple(_message(message, n) for n, message in enumerate(value, start=1))


def _message(value: object, number: int) -> Message:
    if not isinstance(value, dict) or value.keys() != {"role", "content"}:
        raise UsageError(f"message {number} must have `role` and `content`, and nothing else")
    if value["role"] not in _ROLES:
        raise UsageError(f"`role` of message {number} must be one of {', '.join(_ROLES)}")
    return Message(value["role"], _text(value, "content"))


def _generation(own: Fields, run: GenerationSettings) -> GenerationSettings:
    own = {_ALIASES.get(name, name): value for name, value in own.items()}
    changes: dict[str, Any] = {name: _number(own, name, int) for name in _COUNTS if name in own}
    if "stop" in own:
        changes["stop"] = _stop(own["stop"])
    numbers: dict[str, Any] = {
        name: _number(own, name, kind) for name, kind in _NUMBERS.items() if name in own
    }
    return replace(run, sampling=replace(run.sampling, **numbers), **changes)


def _stop(value: object) -> tuple[str, ...]:
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise UsageError("`stop` must be a text or a list of texts")
    return tuple(stops)


def _number(own: Fields, name: str, kind: type[int] | type[float]) -> float:
    value = own[name]
    wanted = (int, float) if kind is float else int
    if isinstance(value, bool) or not isinstance(value, wanted):
        raise UsageError(f"`{name}` must be a {'number' if kind is float else 'whole number'}")
    try:
        return kind(value)
    except OverflowError:  # a whole number of hundreds of digits
        raise UsageError(f"`{name}` is too large") from None


def _text(own: Fields, name: str) -> str:
    if not isinstance(own[name], str):
        raise UsageError(f"`{name}` must be a text")
    return check_text(own[name], f"`{name}`")


def _id(own: Fields) -> Id:
    value = own.get("id")
    if isinstance(value, str):
        return check_text(value, "`id`")
    if isinstance(value, bool) or not isinstance(value, int | None):
        raise UsageError("`id` must be a text or a whole number")
    return value


def _unknown(name: str) -> UsageError:
    near = nearest(name, _FIELDS)
    hint = f"did you mean `{near}`?" if near else f"a line may have {', '.join(_FIELDS)}"
    return UsageError(f"unknown field `{name}`", hint=hint)
