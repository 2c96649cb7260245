"""Prompts for measurements and checks: those that come with the program, or the user's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from spec_cli.errors import UsageError
from spec_cli.files import read_input
from spec_cli.prompt import check_text, decode_text

_OWN_KIND = "own"
_BENCH_KINDS = ("code", "edit", "prose", "steps", "summarise", "extract", "chat")


@dataclass(frozen=True, slots=True)
class NamedPrompt:
    """A user message to generate from; `id` is unique in its file, `kind` says what it is like."""

    id: str
    kind: str
    text: str


def built_in_prompts() -> tuple[NamedPrompt, ...]:
    """Those of `verify`: four of each kind, in the order code, edit, prose, steps, extract."""
    return _packaged("prompts.jsonl")


def bench_prompts() -> tuple[NamedPrompt, ...]:
    """Those of the benchmark: the built-in ones and more, six of each of seven kinds.

    In the order code, edit, prose, steps, summarise, extract, chat.
    """
    prompts = (*built_in_prompts(), *_packaged("bench_prompts.jsonl"))
    return tuple(sorted(prompts, key=lambda prompt: _BENCH_KINDS.index(prompt.kind)))


def first_of_each_kind(prompts: tuple[NamedPrompt, ...], n: int = 1) -> tuple[NamedPrompt, ...]:
    """The first `n` prompts of each kind, kind by kind."""
    by_kind: dict[str, list[NamedPrompt]] = {}
    for prompt in prompts:
        by_kind.setdefault(prompt.kind, []).append(prompt)
    return tuple(prompt for kind in by_kind.values() for prompt in kind[:n])


def read_prompts(path: Path) -> tuple[NamedPrompt, ...]:
    """The prompts of a file: one a line where its name ends in `.txt`, else JSON lines.

    A JSON line has `prompt`, and may have `id` and `kind`; blank lines are skipped.
    Raises UsageError, with the line's number where one line is to blame.
    """
    data = read_input(path, str(path))
    is_json = path.suffix.lower() != ".txt"
    prompts = tuple(_parse(decode_text(data, str(path)), str(path), is_json=is_json))
    if not prompts:
        raise UsageError(f"{path} holds no prompts", hint='write lines like `{"prompt": "Hi."}`')
    return prompts


def _packaged(name: str) -> tuple[NamedPrompt, ...]:
    data = resources.files("spec_cli").joinpath(name).read_text(encoding="utf-8")
    return tuple(_parse(data, name, is_json=True))


def _parse(data: str, name: str, *, is_json: bool) -> Iterator[NamedPrompt]:
    lines: dict[str, int] = {}
    for number, line in enumerate(data.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        prompt = _from_json(line, number, where) if is_json else _from_text(line, number)
        if prompt.id in lines:
            raise UsageError(f"{where}: the id `{prompt.id}` is that of line {lines[prompt.id]}")
        lines[prompt.id] = number
        yield prompt


def _from_text(line: str, number: int) -> NamedPrompt:
    return NamedPrompt(f"line-{number}", _OWN_KIND, line.strip())


def _from_json(line: str, number: int, where: str) -> NamedPrompt:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        hint = "a file with one prompt a line needs a name that ends in `.txt`"
        raise UsageError(
            f"{where} is not JSON: {error.msg} at column {error.colno}", hint=hint
        ) from None
    except (ValueError, RecursionError):  # more digits or nesting than Python reads
        raise UsageError(
            f"{where} has a number that is too long, or is nested too deeply"
        ) from None
    if not isinstance(value, dict):
        raise UsageError(f"{where} is not a JSON object", hint='write `{"prompt": "..."}`')
    fields = {"id": f"line-{number}", "kind": _OWN_KIND} | value
    for key in ("prompt", "id", "kind"):
        text = fields.get(key)
        if not isinstance(text, str) or not check_text(text, f"{where}: `{key}`").strip():
            raise UsageError(f"{where}: `{key}` must be a text that is not blank")
    return NamedPrompt(fields["id"], fields["kind"], fields["prompt"])
