"""Lines of the input, each as soon as it is there."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator

from spec_cli.errors import Cancelled

_POLL_S = 0.1
_CHUNK_BYTES = 1 << 16


def read_lines(fd: int, cancelled: Callable[[], bool]) -> Iterator[bytes]:
    """The lines of a file, a pipe or a terminal that are not blank, without their ends.

    Raises Cancelled when `cancelled` says so, also while a line is awaited: a signal that is
    only remembered does not end a read.
    """
    held = bytearray()
    while chunk := _read(fd, cancelled):
        n_searched = len(held)
        held += chunk
        while (end := held.find(b"\n", n_searched)) >= 0:
            line, n_searched = bytes(held[:end]), 0
            del held[: end + 1]
            if line.strip():
                if cancelled():
                    raise Cancelled
                yield line
    if held.strip():
        yield bytes(held)


def _read(fd: int, cancelled: Callable[[], bool]) -> bytes:
    while not select.select([fd], [], [], _POLL_S)[0]:
        if cancelled():
            raise Cancelled
    return os.read(fd, _CHUNK_BYTES)
