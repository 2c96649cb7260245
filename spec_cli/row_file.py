"""Files of JSON lines that a command appends to, and continues from when it is run again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from spec_cli.errors import UsageError
from spec_cli.files import not_written, open_shared, read_input

Row = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RowFormat(Generic[T]):
    """How the rows of one option of one command are read; each begins with `schema`.

    `parse` raises KeyError, ValueError or TypeError for a row that the command did not write.
    """

    schema: str
    command: str
    option: str
    parse: Callable[[Row], T]

    def read(self, path: Path) -> list[T]:
        """What the whole lines of `path` hold, which is left as it is. Raises UsageError."""
        *lines, _ = read_input(path, str(path)).split(b"\n")
        return list(self.parsed(lines, path))

    def parsed(self, lines: Sequence[bytes], path: Path) -> Iterator[T]:
        """What `lines` hold, those of `path` from its first. Raises UsageError."""
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                if row["schema"] != self.schema:
                    raise ValueError
                yield self.parse(row)
            except (ValueError, KeyError, TypeError, RecursionError):
                raise self.foreign(path, number) from None

    def may_begin(self, line: bytes) -> bool:
        """Whether a row that was cut off can look like `line`."""
        start = json.dumps({"schema": self.schema})[:-1].encode()
        return start.startswith(line[: len(start)])

    def foreign(self, path: Path, number: int) -> UsageError:
        """The error of a line that is no row."""
        return UsageError(
            f"{path}, line {number} was not written by `{self.command} {self.option}`",
            hint="give the name of another file",
        )


class RowFile(Generic[T]):
    """A file that rows are appended to, each whole and at once; `rows` are those it had."""

    def __init__(self, path: Path, form: RowFormat[T]) -> None:
        """Read what is there; a last line that was cut off in writing is removed.

        Raises UsageError when the file cannot be used.
        """
        self._path = path
        try:
            with open_shared(path) as file:
                file.seek(0)
                *lines, rest = file.read().split(b"\n")
                self.rows = list(form.parsed(lines, path))
                if not form.may_begin(rest):
                    raise form.foreign(path, len(lines) + 1)
                file.truncate(file.tell() - len(rest))
        except (OSError, ValueError) as error:  # the latter: no file has a NUL in its name
            reason = (isinstance(error, OSError) and error.strerror) or error
            hint = f"give another `{form.option}` file"
            raise UsageError(f"cannot use {path}: {reason}", hint=hint) from None

    def append(self, rows: Sequence[Row]) -> None:
        """Write `rows`. Raises SpecError when they cannot be written."""
        text = "".join(f"{json.dumps(row, allow_nan=False)}\n" for row in rows)
        try:
            with open_shared(self._path) as file:
                file.write(text.encode())
        except OSError as error:
            raise not_written(self._path, error) from None
