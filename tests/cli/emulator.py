"""A terminal to look at: pyte with scroll-back and the manners of common terminals."""

from __future__ import annotations

from copy import copy
from typing import Any

import pyte
from wcwidth import wcwidth

_WRAPPED = -1  # the key of a row that goes on in the next one

Cell = Any
Row = dict[int, Cell]


class _Screen(pyte.HistoryScreen):  # type: ignore[misc]
    """pyte, but a wide character does not hang over the margin, a tab does not come back from it,
    drawing goes on after a character of no width, what is erased is empty, and erasing where the
    cursor waits to wrap takes the last character along; erasing all of the window moves it into the
    scroll-back, as in tmux.

    A resize does what tmux does or, where it does not `reflow`, cuts rows as xterm does.
    """

    def __init__(self, columns: int, lines: int, *, reflows: bool) -> None:
        self.reflows = reflows
        super().__init__(columns, lines, history=10_000)

    def tab(self) -> None:
        if self.cursor.x < self.columns:
            super().tab()

    def draw(self, data: str) -> None:
        for char in data:
            if wcwidth(char) == 2 and self.cursor.x == self.columns - 1:
                self.cursor.x = self.columns
            if self.cursor.x == self.columns and pyte.modes.DECAWM in self.mode:
                self.buffer[self.cursor.y][_WRAPPED] = self.cursor.attrs
            super().draw(char)

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        super().erase_in_line(how, private)
        if how == 0:
            self._empty(self.cursor.y, self.cursor.x)

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        if how == self.cursor.x == self.cursor.y == 0:
            used = [y for y in range(self.lines) if self.buffer[y]]
            self.history.top.extend(copy(self.buffer[y]) for y in range(max(used, default=-1) + 1))
        super().erase_in_display(how, *args, **kwargs)
        if how == 0:
            self._empty(self.cursor.y, self.cursor.x)
            for y in range(self.cursor.y + 1, self.lines):
                self._empty(y, 0)

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        lines, columns = lines or self.lines, columns or self.columns
        rows = [*self.history.top, *(self.buffer[y] for y in range(self.lines))]
        y = len(self.history.top) + self.cursor.y
        rows = rows[: max(len(rows) - max(self.lines - lines, 0), y + 1)]
        if self.reflows and columns != self.columns:
            rows, y, self.cursor.x = _wrapped_anew(rows, y, self.cursor.x, columns)
        n_past = max(len(rows) - lines, 0)
        self.history.top.clear()
        self.history.top.extend(rows[:n_past])
        self.buffer.clear()
        self.buffer.update(enumerate(rows[n_past:]))
        self.lines, self.columns = lines, columns
        self.set_margins()
        self.cursor.y = y - n_past
        if self.cursor.y < 0:
            self.cursor.x = self.cursor.y = 0
        if not self.reflows:
            self.cursor.x = min(self.cursor.x, columns - 1)
            self._cut()

    def _empty(self, y: int, x: int) -> None:
        row, first = self.buffer[y], min(x, self.columns - 1)
        for column in [column for column in row if column >= first or first == 0]:
            del row[column]

    def _cut(self) -> None:
        for row in self.buffer.values():
            for column in [column for column in row if column >= self.columns]:
                del row[column]


def _wrapped_anew(rows: list[Row], y: int, x: int, columns: int) -> tuple[list[Row], int, int]:
    """The rows at another width, and the cursor's row and column, which was at `y`, `x`."""
    wrapped: list[Row] = []
    line: list[Cell] = []
    mark: int | None = None  # of the cursor, in the line
    at = 0, 0
    for i, row in enumerate(rows):
        width = max(row, default=-1) + 1
        if i == y:
            mark = len(line) + x if x < width else -1
        line += [row[column] for column in range(width)]
        if _WRAPPED in row:
            continue
        first = len(wrapped)
        starts = _starts(line, columns)
        for start, end in zip(starts, [*starts[1:], len(line)], strict=True):
            cells = dict(enumerate(line[start:end]))
            wrapped.append(_row(row, cells, goes_on=end < len(line)))
        if mark is not None:
            mark = len(line) if mark < 0 else mark
            n = max(k for k, start in enumerate(starts) if start <= mark)
            at = first + n, mark - starts[n]
        line, mark = [], None
    return wrapped, *at


def _starts(line: list[Cell], columns: int) -> list[int]:
    """Where in a line its rows begin: a wide character, a cell and an empty one, stays whole."""
    starts = [0]
    for i, cell in enumerate(line):
        is_wide = i + 1 < len(line) and line[i + 1].data == "" and cell.data != ""
        if i + is_wide >= starts[-1] + columns:
            starts.append(i)
    return starts


def _row(like: Row, cells: Row, *, goes_on: bool) -> Row:
    row = type(like)(like.default)  # type: ignore[call-arg,attr-defined]
    row.update(cells)
    if goes_on:
        row[_WRAPPED] = row[0]
    return row


class Emulator:
    """Takes what a process writes to a terminal, newlines as the terminal driver sends them."""

    def __init__(self, columns: int, lines: int, *, reflows: bool = True) -> None:
        self._screen = _Screen(columns, lines, reflows=reflows)
        self._stream = pyte.ByteStream(self._screen)

    def feed(self, data: bytes) -> None:
        self._stream.feed(data)

    def resize(self, columns: int, lines: int) -> None:
        self._screen.resize(lines, columns)

    @property
    def title(self) -> str:
        return str(self._screen.title)

    @property
    def cursor_is_visible(self) -> bool:
        return not self._screen.cursor.hidden

    @property
    def wraps(self) -> bool:
        return pyte.modes.DECAWM in self._screen.mode

    @property
    def window(self) -> list[str]:
        """The rows on the screen, without blanks at their ends."""
        return [self._row(self._screen.buffer[y]) for y in range(self._screen.lines)]

    @property
    def rows(self) -> list[str]:
        """Scroll-back and window down to the cursor's row, without blanks at the ends of rows."""
        past = [self._row(row) for row in self._screen.history.top]
        return past + self.window[: self._screen.cursor.y + 1]

    def _row(self, row: Any) -> str:
        return "".join(row[x].data for x in range(self._screen.columns)).rstrip()

    @property
    def below_cursor(self) -> list[str]:
        return [row for row in self.window[self._screen.cursor.y + 1 :] if row]


def printed(text: str, columns: int, lines: int) -> list[str]:
    """The rows of a terminal to which `text` was written, and nothing else ever."""
    emulator = Emulator(columns, lines)
    emulator.feed(text.replace("\n", "\r\n").encode())
    return emulator.rows
