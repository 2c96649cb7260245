"""Lines of the input, each as soon as it is there."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator

from spec_cli.errors import Cancelled, UsageError

_POLL_S = 0.1
_CHUNK_BYTES = 1 << 16
MAX_LINE_BYTES = 32 << 20  # more than any context has room for
_MOST_BYTES = MAX_LINE_BYTES + 1  # of a line that are kept


class LineReader:
    """Iterates over the lines of a file, a pipe or a terminal that are not blank.

    Of a line with more than MAX_LINE_BYTES its beginning is given, longer by one byte than that.
    A signal that is only remembered does not end a read: so `cancelled` is asked for each line,
    and while one is awaited; Cancelled is raised where it says so, and UsageError where the input
    cannot be read.
    """

    def __init__(self, fd: int, cancelled: Callable[[], bool]) -> None:
        self._fd, self._cancelled = fd, cancelled
        self._held = bytearray()
        self._is_over = False

    @property
    def is_ready(self) -> bool:
        """Whether the next line, or the end, can be had without waiting for it."""
        return b"\n" in self._held or self._is_over or self._is_readable(0)

    def __iter__(self) -> Iterator[bytes]:
        n_searched = 0
        while not self._is_over:
            end = self._held.find(b"\n", n_searched)
            if end < 0:
                del self._held[_MOST_BYTES:]
                n_searched = len(self._held)
                self._read()
                continue
            line, n_searched = bytes(self._held[: min(end, _MOST_BYTES)]), 0
            del self._held[: end + 1]
            if line.strip():
                if self._cancelled():
                    raise Cancelled
                yield line
        if self._held.strip():
            yield bytes(self._held[:_MOST_BYTES])

    def _read(self) -> None:
        while not self._is_readable(_POLL_S) and not self._cancelled():
            pass
        if self._cancelled():  # also at the end: Ctrl-C ends the other programs of a pipe, too
            raise Cancelled
        try:
            chunk = os.read(self._fd, _CHUNK_BYTES)
        except OSError as error:
            raise UsageError(f"cannot read the input: {error.strerror}") from None
        self._is_over = not chunk
        self._held += chunk

    def _is_readable(self, timeout_s: float) -> bool:
        return bool(select.select([self._fd], [], [], timeout_s)[0])
