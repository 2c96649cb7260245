"""Text that flows on a terminal above a footer.

The terminal wraps lines, so that what is copied from it is the text. All we follow is the
cursor's column, to stop short of the end of a row: a cursor there waits to wrap, and would forget
it while the footer is drawn. Where the terminal judges a width otherwise, nothing else is affected.

In a resize most terminals wrap the cursor's line anew, and others leave it as it is, cut at the
margin. Some of the first push rows out of the window, though there is room below: the cursor's row,
too, where it is one of the first, and the cursor starts in the corner. Nobody tells us which it is,
so we follow the cursor in all three until the next line.
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

    Invariant: until `finish`, the cursor does not wait to wrap, unless a resize has put it there.
    """

    def __init__(self, text: TerminalText, columns: int) -> None:
        self._text = text
        self._columns = columns
        self._line = ""  # of what is written, the part after the last newline, without tabs
        self._at = 0, 0, 0  # the cursor's column, its line wrapped anew, cut, or pushed out
        self._queue: list[tuple[str, Origin | None]] = []

    @property
    def waits(self) -> bool:
        """Some text needs the footer lifted before it can be written."""
        return bool(self._queue)

    @property
    def is_at_margin(self) -> bool:
        """The cursor waits to wrap: drawing or erasing would cost the character under it."""
        return self._columns in self._at

    def resize(self, columns: int) -> None:
        """The terminal has `columns` columns from now on."""
        if columns == self._columns:
            return
        cut, pushed = (min(column, columns - 1) for column in self._at[1:])
        pushed = 0 if columns < self._columns else pushed
        self._columns = columns
        self._at = _end_column(self._line, 0, columns), cut, pushed

    def add(self, text: str, origin: Origin | None) -> None:
        """Write `text` if it stays on the cursor's row, else queue it; no origin: reasoning."""
        text = inert(text)
        if not self._queue and all(self._stays(text, column) for column in set(self._at)):
            self._write(text, origin)
        else:
            self._queue.append((text, origin))

    def leave_margin(self) -> None:
        """Write as little of the queue as takes the cursor off the margin, over the footer."""
        if self.is_at_margin:
            self._write_queue(min(self._stops(), default=0))

    def release(self) -> None:
        """Write the queue, up to the last point where the cursor does not wait to wrap."""
        self._write_queue(max(self._stops(), default=0))

    def finish(self) -> None:
        """Write the whole queue and end the line."""
        self._write_queue(sum(len(text) for text, _ in self._queue))
        self._text.end_line()

    def _stays(self, text: str, column: int) -> bool:
        *_, (row, end) = walk(text, column, self._columns)
        return row == 0 and end < self._columns

    def _stops(self) -> Iterator[int]:
        """How much of the queue can be written so that the cursor does not wait to wrap."""
        queued = "".join(text for text, _ in self._queue)
        walks = zip(*(walk(queued, column, self._columns) for column in set(self._at)), strict=True)
        for n, cursors in enumerate(walks, start=1):
            if all(column < self._columns for _, column in cursors):
                yield n

    def _write_queue(self, n_chars: int) -> None:
        while n_chars > 0:
            text, origin = self._queue.pop(0)
            if rest := text[n_chars:]:
                self._queue.insert(0, (rest, origin))
            self._write(text[:n_chars], origin)
            n_chars -= len(text)

    def _write(self, text: str, origin: Origin | None) -> None:
        self._text.write(text, origin)
        self._line += _without_tabs(text, self._at[0], self._columns)
        self._line = self._line.rpartition("\n")[2]
        anew, cut, pushed = (_end_column(text, column, self._columns) for column in self._at)
        self._at = anew, cut, pushed


def _without_tabs(text: str, column: int, columns: int) -> str:
    """`text` with the blanks that its tabs have become at the cursor's `column`."""
    shown = ""
    for char, (_, after) in zip(text, walk(text, column, columns), strict=True):
        shown += " " * (after - column) if char == "\t" else char
        column = after
    return shown


def _end_column(text: str, column: int, columns: int) -> int:
    return [(0, column), *walk(text, column, columns)][-1][1]
