"""The file of results: whole lines in the order of the input, so that a run can be continued."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

from spec_cli.errors import UsageError
from spec_cli.files import not_written

SCHEMA = "spec-cli/batch/1"

_START = b'{"schema": "%b"' % SCHEMA.encode()

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stored:
    """What is remembered of a result in the file: `key` binds it to its line and settings.

    `seed` is None where it is a failure.
    """

    key: str
    seed: int | None

    @property
    def is_answer(self) -> bool:
        """Whether the line was answered."""
        return self.seed is not None


class ResultFile:
    """Results of earlier runs, in `stored`, and those of this one behind them.

    Invariant: the file holds whole lines, also when the process is killed: each is appended by
    one write, and a line that was cut off nevertheless is removed when the file is opened.
    """

    def __init__(self, path: Path) -> None:
        """Raises UsageError when the file cannot be used, or holds anything else."""
        self._path = path
        try:
            self._file: BinaryIO = path.open("ab", buffering=0)
            self.stored = self._read() if path.is_file() else []
        except OSError as error:
            raise _unusable(path, error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._file.close()

    def write(self, row: Row) -> None:
        """Append `row`. Raises SpecError when it cannot be written."""
        data = f"{dump(row)}\n".encode()
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            raise not_written(self._path, error) from None

    def _read(self) -> list[Stored]:
        """What the file holds; a line without an end is cut off."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another run is writing to {self._path}", hint="wait for it, or name another file"
            ) from None
        with self._path.open("rb") as file:
            stored: list[Stored] = []
            n_bytes = 0
            for line in file:
                if line.endswith(b"\n"):
                    stored.append(_stored(line, self._path, len(stored)))
                    n_bytes += len(line)
                elif _START.startswith(line[: len(_START)]):
                    os.ftruncate(self._file.fileno(), n_bytes)
                else:
                    raise _foreign(self._path, len(stored))
        return stored


def dump(row: Row) -> str:
    """`row` as one line of JSON."""
    return json.dumps(row, ensure_ascii=False, allow_nan=False)


def _stored(line: bytes, path: Path, index: int) -> Stored:
    try:
        row = json.loads(line)
        key, seed = row["key"], row.get("seed")
        if (row["schema"], row["index"]) != (SCHEMA, index) or type(seed) not in (int, type(None)):
            raise ValueError
        return Stored(key, seed)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _foreign(path, index) from None


def _foreign(path: Path, index: int) -> UsageError:
    return UsageError(
        f"{path}, line {index + 1} is not the result of a run with `--input`",
        hint="give the name of another file",
    )


def _unusable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot use {path}: {error.strerror}", hint="give another `--output` file")
