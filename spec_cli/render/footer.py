"""Rows below the cursor of a terminal, which stays where the text ends.

Everything right of and below the cursor belongs to the footer, so erasing it needs no memory of
how many rows it had: a resize, which may wrap or unwrap them, leaves nothing behind. Only rows that
it pushes out of the window are out of reach: tmux does, where the cursor was in one of the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

_BEGIN = "\x1b[?2026h\x1b[?25l"  # one frame, where the terminal knows how (synchronized output)
_END = "\x1b[?25h\x1b[?2026l"
_ERASE_RIGHT = "\x1b[K"
_ERASE_ON = "\x1b[J"  # to the end of the window
_NEXT_ROW = "\r\x1b[B"  # where there is one: nothing may scroll between saving and restoring
_DOWN = "\x1bD"  # index: keeps the column, and scrolls at the last row
_UP = "\x1b[{}A"
_SAVE, _RESTORE = "\x1b7", "\x1b8"
# From beside the cursor: in the corner of the window, tmux keeps what it erases as scroll-back.
_ERASE = f"{_ERASE_RIGHT}{_SAVE}\x1b[C{_ERASE_ON}{_RESTORE}"
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"


class Footer:
    """Draws on `stderr`. The cursor must not be in the last column, where it may wait to wrap."""

    def __init__(self, stderr: TextIO) -> None:
        self._stderr = stderr

    def lift(self) -> None:
        """Erase the rows, so that something else can be written at the cursor."""
        self._write(_BEGIN + _ERASE)

    def draw(self, rows: Sequence[str]) -> None:
        """Draw `rows`, none wider than the terminal, in place of those drawn before."""
        if not rows:
            self._write(_BEGIN + _ERASE + _END)
            return
        room = _DOWN * len(rows) + _UP.format(len(rows))
        body = "".join(f"{_NEXT_ROW}{row}{_ERASE_RIGHT}" for row in rows)
        frame = room + _SAVE + _NO_WRAP + body + _ERASE_ON + _WRAP + _RESTORE
        # Right of the cursor is what text has left of a row that it ran into: it does where the
        # terminal is narrower than we knew.
        self._write(_BEGIN + _ERASE_RIGHT + frame + _END)

    def close(self) -> None:
        """Erase the rows and give the terminal back, whatever was going on."""
        self._write(_WRAP + _ERASE + _END)

    def _write(self, codes: str) -> None:
        self._stderr.write(codes)
        self._stderr.flush()
