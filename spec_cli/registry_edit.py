"""Changing the user's `models.toml`: comments and order stay, and it is replaced as a whole."""

from __future__ import annotations

import fcntl
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spec_cli.errors import UsageError
from spec_cli.prompt import decode_text
from spec_cli.whole_file import WholeFile


def add_pair(path: Path, name: str, fields: Mapping[str, str | int]) -> None:
    """Write the pair `name` into the registry file at `path`, over the one of that name if any.

    Raises UsageError when the file cannot be read, written, or changed in this way.
    """
    import tomlkit  # slow to import

    with _locked(path) as text:
        document = tomlkit.parse(text)
        pairs: Any = document.setdefault("pairs", tomlkit.table(is_super_table=True))
        if name in pairs:
            _replace_fields(pairs[name], fields)
        else:
            table = tomlkit.table()
            table.update(fields)
            pairs[name] = table
        wanted = tomllib.loads(text)
        wanted.setdefault("pairs", {})[name] = dict(fields)
        _write(path, tomlkit.dumps(document), wanted)


def forget_pair(path: Path, name: str) -> bool:
    """Take the pair `name` out of the registry file at `path`; whether it was there.

    Raises UsageError as `add_pair` does.
    """
    import tomlkit  # slow to import

    if not path.exists():
        return False
    with _locked(path) as text:
        wanted = tomllib.loads(text)
        if name not in wanted.get("pairs", {}):
            return False
        document = tomlkit.parse(text)
        pairs: Any = document["pairs"]
        del pairs[name], wanted["pairs"][name]
        if not wanted["pairs"]:
            del document["pairs"], wanted["pairs"]
        _write(path, tomlkit.dumps(document), wanted)
    return True


def _replace_fields(table: Any, fields: Mapping[str, str | int]) -> None:
    for key in [key for key in table if key not in fields]:
        del table[key]
    for key, value in fields.items():
        table[key] = value


@contextmanager
def _locked(path: Path) -> Iterator[str]:
    """The text of the file, made if need be, while other processes wait to change it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            with path.open("a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    continue  # the process that held it has replaced it
                file.seek(0)
                yield decode_text(file.read(), str(path))
                return
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


def _write(path: Path, text: str, wanted: Mapping[str, Any]) -> None:
    """Replace the file, if `text` says what is wanted and nothing else has changed in it."""
    if tomllib.loads(text) != wanted:
        raise UsageError(
            f"{path} is written in a way that cannot be edited here",
            hint="write the pair as a table of its own, `[pairs.NAME]`",
        )
    with WholeFile(path) as whole:
        whole.file.write(text.encode())
        whole.keep()
