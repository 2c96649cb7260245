"""A terminal to look at: pyte with scroll-back and the manners of common terminals."""

from __future__ import annotations

from typing import Any

import pyte
from wcwidth import wcwidth


class _Screen(pyte.HistoryScreen):  # type: ignore[misc]
    """pyte, but a wide character does not hang over the margin, a tab does not come back from it,
    and drawing goes on after a character of no width."""

    def tab(self) -> None:
        if self.cursor.x < self.columns:
            super().tab()

    def draw(self, data: str) -> None:
        for char in data:
            if wcwidth(char) == 2 and self.cursor.x == self.columns - 1:
                self.cursor.x = self.columns
            super().draw(char)


class Emulator:
    """Takes what a process writes to a terminal, newlines as the terminal driver sends them."""

    def __init__(self, columns: int, lines: int) -> None:
        self._screen = _Screen(columns, lines, history=10_000)
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
