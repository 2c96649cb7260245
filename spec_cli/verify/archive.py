"""Finished texts and comparisons, in memory and, where asked for, in a file of JSON lines.

A long matrix can be interrupted and continued: what the file has for exactly the same
configuration is taken from it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from spec_cli.errors import UsageError
from spec_cli.events import FinishReason
from spec_cli.files import not_written, open_shared
from spec_cli.prompts import NamedPrompt
from spec_cli.verify.comparison import Comparison, Text
from spec_cli.verify.difference import Difference
from spec_cli.verify.matrix import Cell

SCHEMA = "spec-cli/verify-save/1"
_START = b'{"schema": "%b"' % SCHEMA.encode()

Object = dict[str, Any]


class Archive:
    """Keeps what is finished; each line of the file is whole, and written at once."""

    def __init__(self, path: Path | None, configuration: Mapping[str, Any]) -> None:
        """Read what `path` has, if it exists; `configuration` is all that the texts depend on
        besides the cell. Raises UsageError when the file cannot be used.
        """
        self._path = path
        self._configuration = dict(configuration)
        self._known: dict[str, Object] = {}
        if path is not None:
            self._read(path)

    def plain(self, prompt: NamedPrompt, temp: float) -> Text | None:
        """The plain text, if it is known."""
        found = self._known.get(_key(self._of_text(prompt, temp)))
        if found is None:
            return None
        return Text(tuple(found["tokens"]), found["text"], FinishReason(found["reason"]))

    def add_plain(self, prompt: NamedPrompt, temp: float, text: Text) -> None:
        """Keep a plain text."""
        self._add(self._of_text(prompt, temp), asdict(text))

    def comparison(self, cell: Cell) -> Comparison | None:
        """The comparison of `cell`, if it is known."""
        found = self._known.get(_key(self._of_cell(cell)))
        if found is None:
            return None
        difference = found["difference"]
        return Comparison(
            cell, **found | {"difference": None if difference is None else Difference(**difference)}
        )

    def add_comparison(self, comparison: Comparison) -> None:
        """Keep a comparison."""
        result = asdict(comparison)
        del result["cell"]
        self._add(self._of_cell(comparison.cell), result)

    def _of_text(self, prompt: NamedPrompt, temp: float) -> Object:
        digest = hashlib.sha256(prompt.text.encode()).hexdigest()
        return self._configuration | {"prompt": prompt.id, "prompt_sha256": digest, "temp": temp}

    def _of_cell(self, cell: Cell) -> Object:
        k = "auto" if cell.draft_tokens is None else cell.draft_tokens
        return self._of_text(cell.prompt, cell.temp) | {"drafter": cell.drafter, "draft_tokens": k}

    def _add(self, configuration: Object, result: Object) -> None:
        self._known[_key(configuration)] = result
        if self._path is None:
            return
        line = {"schema": SCHEMA, "configuration": configuration, "result": result}
        text = json.dumps(line, allow_nan=False) + "\n"
        try:
            with open_shared(self._path) as file:
                file.write(text.encode())
        except OSError as error:
            raise not_written(self._path, error) from None

    def _read(self, path: Path) -> None:
        """Read the file; a last line that was cut off in writing is removed from it."""
        try:
            with open_shared(path) as file:
                file.seek(0)
                *lines, rest = file.read().split(b"\n")
                for number, line in enumerate(lines, start=1):
                    self._known.update(_entry(line, f"{path}, line {number}"))
                if not _START.startswith(rest[: len(_START)]):
                    raise _foreign(f"{path}, line {len(lines) + 1}")
                file.truncate(file.tell() - len(rest))
        except OSError as error:
            raise _unusable(path, error) from None


def _entry(line: bytes, where: str) -> dict[str, Object]:
    try:
        entry = json.loads(line)
        if entry["schema"] == SCHEMA:
            return {_key(entry["configuration"]): entry["result"]}
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise _foreign(where)


def _foreign(where: str) -> UsageError:
    hint = "give the name of a new file"
    return UsageError(f"{where} was not written by `spec-cli verify --save`", hint=hint)


def _key(configuration: Mapping[str, Any]) -> str:
    return json.dumps(configuration, sort_keys=True)


def _unusable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot use {path}: {error.strerror}", hint="give another `--save` file")
