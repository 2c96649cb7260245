"""Finished texts and comparisons, in memory and, where asked for, in a file of JSON lines.

A long matrix can be interrupted and continued: what the file has for exactly the same
configuration is taken from it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from spec_cli.events import FinishReason
from spec_cli.prompts import NamedPrompt
from spec_cli.row_file import RowFile, RowFormat
from spec_cli.verify.comparison import Comparison, Text
from spec_cli.verify.difference import Difference
from spec_cli.verify.matrix import Cell

SCHEMA = "spec-cli/verify-save/1"

Object = dict[str, Any]

_TEXT = {field.name for field in fields(Text)}
_COMPARISON = {field.name for field in fields(Comparison)} - {"cell"}
_DIFFERENCE = {field.name for field in fields(Difference)}


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a file: what was found, and all that it depends on."""

    configuration: Object
    result: Object


class Archive:
    """The texts and comparisons of one configuration; those that `file` has are among them."""

    def __init__(self, file: RowFile[Entry] | None, configuration: Mapping[str, Any]) -> None:
        """`configuration` is all that the texts depend on besides the cell."""
        self._file = file
        self._configuration = dict(configuration)
        entries = file.rows if file else []
        self._known = {_key(entry.configuration): entry.result for entry in entries}

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
        if self._file is not None:
            row = {"schema": SCHEMA, "configuration": configuration, "result": result}
            self._file.append([row])


def open_save(path: Path) -> RowFile[Entry]:
    """The file of `--save`, to go on with. Raises UsageError when it cannot be used."""
    return RowFile(path, RowFormat(SCHEMA, "spec-cli verify", "--save", _entry))


def _entry(row: Object) -> Entry:
    result = row["result"]
    if set(result) not in (_TEXT, _COMPARISON):
        raise ValueError
    difference = result.get("difference")
    if difference is not None and set(difference) != _DIFFERENCE:
        raise ValueError
    return Entry(dict(row["configuration"]), result)


def _key(configuration: Mapping[str, Any]) -> str:
    return json.dumps(configuration, sort_keys=True)
