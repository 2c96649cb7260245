"""Writing to standard output: UTF-8 whatever the locale, at once, and safe when the reader left."""

from __future__ import annotations

import os
from typing import TextIO


class Stdout:
    """Standard output as bytes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write and flush. Raises BrokenPipeError; the process can still end quietly after it."""
        try:
            self._stream.buffer.write(text.encode())
            self._stream.buffer.flush()
        except BrokenPipeError:
            discard(self._stream)
            raise


def discard(stream: TextIO) -> None:
    """Send what is still buffered nowhere: the interpreter flushes it on its way out."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
