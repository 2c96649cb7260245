"""Text that flows on a terminal above a footer.

The terminal wraps lines, so that what is copied from it is the text. All we follow is the
cursor's column, to stop short of the end of a row: a cursor there waits to wrap, and would forget
it while the footer is drawn. Where the terminal judges a width otherwise, nothing else is affected.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len

from spec_cli.events import Origin
from spec_cli.render.inert import inert
from spec_cli.render.text import TerminalText

_TAB = 8


def walk(text: str, column: int, width: int) -> Iterator[tuple[int, int]]:
    """(rows down, column) of the cursor after each character; at `width` it waits to wrap."""
    row = 0
    for char in text:
        if char == "\n":
            row, column = row + 1, 0
        elif char == "\t":
            column = min((column // _TAB + 1) * _TAB, max(column, width - 1))
        else:
            cells = cell_len(char)
            if column + cells > width:
                row, column = row + 1, 0
            column += cells
        yield row, column


class TextFlow:
    """A queue of text in front of the terminal.

    Invariant: until `finish`, the cursor does not wait to wrap.
    """

    def __init__(self, text: TerminalText, columns: int) -> None:
        self._text = text
        self._columns = columns
        self._line = ""  # of what is written, the part after the last newline
        self._column = 0  # of the cursor
        self._queue: list[tuple[str, Origin | None]] = []

    @property
    def waits(self) -> bool:
        """Some text needs the footer lifted before it can be written."""
        return bool(self._queue)

    def resize(self, columns: int) -> None:
        """The terminal has `columns` columns from now on, and has wrapped the line anew."""
        if columns != self._columns:
            self._columns = columns
            self._column = _end_column(self._line, 0, columns)

    def add(self, text: str, origin: Origin | None) -> None:
        """Write `text` if it stays on the cursor's row, else queue it; no origin: reasoning."""
        text = inert(text)
        *_, (row, column) = walk(text, self._column, self._columns)
        if not self._queue and row == 0 and column < self._columns:
            self._write(text, origin)
        else:
            self._queue.append((text, origin))

    def release(self) -> None:
        """Write the queue, up to the last point where the cursor does not wait to wrap."""
        queued = "".join(text for text, _ in self._queue)
        steps = enumerate(walk(queued, self._column, self._columns), start=1)
        n_free = max((n for n, (_, column) in steps if column < self._columns), default=0)
        self._write_queue(n_free)

    def finish(self) -> None:
        """Write the whole queue and end the line."""
        self._write_queue(sum(len(text) for text, _ in self._queue))
        self._text.end_line()

    def _write_queue(self, n_chars: int) -> None:
        while n_chars > 0:
            text, origin = self._queue.pop(0)
            if rest := text[n_chars:]:
                self._queue.insert(0, (rest, origin))
            self._write(text[:n_chars], origin)
            n_chars -= len(text)

    def _write(self, text: str, origin: Origin | None) -> None:
        self._text.write(text, origin)
        self._line = (self._line + text).rpartition("\n")[2]
        self._column = _end_column(text, self._column, self._columns)


def _end_column(text: str, column: int, columns: int) -> int:
    return [(0, column), *walk(text, column, columns)][-1][1]
