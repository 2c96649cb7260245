"""Reading one file of settings: its values, and the line that each of them stands on."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spec_cli.cli.config_settings import Scope
from spec_cli.errors import UsageError
from spec_cli.files import read_input
from spec_cli.prompt import decode_text

Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value comes from: a variable of the environment, or a line of a file."""

    scope: Scope
    name: str
    line: int | None = None

    def __str__(self) -> str:
        return self.name if self.line is None else f"{self.name}, line {self.line}"


@dataclass(frozen=True, slots=True)
class Given:
    """A value, and where it comes from."""

    value: object
    origin: Origin


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file's values by their keys as they are written: `(key,)`, or `(table, key)`."""

    path: Path
    scope: Scope
    values: Mapping[Keys, Given]


def read_config_file(path: Path, scope: Scope) -> ConfigFile:
    """The content of `path`. Raises UsageError when it cannot be read, or is not TOML."""
    name = f"./{path}" if scope is Scope.PROJECT else str(path)
    text = decode_text(read_input(path, name), name)
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"cannot read {name}: {error}") from None
    lines = key_lines(text)
    values = {
        keys: Given(value, Origin(scope, name, lines[keys])) for keys, value in _leaves(table)
    }
    return ConfigFile(path, scope, values)


def key_lines(text: str) -> dict[Keys, int]:
    """The line on which each key of a TOML document, and each key of its tables, is set.

    Statement by statement: one has ended with the first line up to which it can be parsed.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    found: dict[Keys, int] = {}
    table: Keys = ()
    start = 0
    for end in range(1, len(lines) + 1):
        try:
            statement = tomllib.loads("\n".join(lines[start:end]))
        except tomllib.TOMLDecodeError:
            continue
        is_header = lines[start].lstrip().startswith("[")
        if is_header:
            table = _header(statement)
        for keys in [table] if is_header else [k for k, _ in _leaves(statement, table)]:
            for n in range(1, len(keys) + 1):
                found.setdefault(keys[:n], start + 1)
        start = end
    return found


def _header(statement: Mapping[str, Any]) -> Keys:
    """The keys of a table's header, parsed by itself: tables of one key, the last one empty."""
    keys: Keys = ()
    while isinstance(statement, dict) and statement:
        [(key, statement)] = statement.items()
        keys = (*keys, key)
    return keys


def _leaves(table: Mapping[str, Any], above: Keys = ()) -> Iterator[tuple[Keys, object]]:
    """The values of a document and of its tables; what is empty or lies deeper stays a table."""
    for key, value in table.items():
        keys = (*above, key)
        if isinstance(value, dict) and value and len(keys) == 1:
            yield from _leaves(value, keys)
        else:
            yield keys, value
