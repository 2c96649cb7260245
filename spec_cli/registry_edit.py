"""Changing the user's `models.toml`: comments and order stay, and it is replaced as a whole."""

from __future__ import annotations

import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spec_cli.errors import UsageError


def add_pair(path: Path, name: str, fields: Mapping[str, str | int]) -> None:
    """Write the pair `name` into the registry file at `path`, over the one of that name if any.

    Raises UsageError when the file cannot be read, written, or changed in this way.
    """
    import tomlkit  # slow to import

    text = _read(path)
    document = tomlkit.parse(text)
    pairs: Any = document.setdefault("pairs", tomlkit.table(is_super_table=True))
    if name in pairs:
        _replace_fields(pairs[name], fields)
    else:
        table = tomlkit.table()
        table.update(fields)
        pairs[name] = table
    wanted = _plain(text)
    wanted.setdefault("pairs", {})[name] = dict(fields)
    _write(path, tomlkit.dumps(document), wanted)


def forget_pair(path: Path, name: str) -> bool:
    """Take the pair `name` out of the registry file at `path`; whether it was there.

    Raises UsageError as `add_pair` does.
    """
    import tomlkit  # slow to import

    text = _read(path)
    wanted = _plain(text)
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


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig") if path.exists() else ""
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def _plain(text: str) -> dict[str, Any]:
    return tomllib.loads(text)


def _write(path: Path, text: str, wanted: Mapping[str, Any]) -> None:
    """Replace the file, if `text` says what is wanted and nothing else has changed in it."""
    if _plain(text) != wanted:
        raise UsageError(
            f"{path} is written in a way that cannot be edited here",
            hint="write the pair as a table of its own, `[pairs.NAME]`",
        )
    path = path.resolve()  # it may be a link to where the user keeps such files
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


def _replace(path: Path, text: str) -> None:
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix=f".{path.name}.", encoding="utf-8", delete=False
    ) as file:
        new = Path(file.name)
        try:
            file.write(text)
            file.flush()
            if path.exists():
                shutil.copymode(path, new)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
