"""Writing to standard output: UTF-8 whatever the locale, at once, and safe when the reader left."""

from __future__ import annotations

import json
import os
import select
from typing import BinaryIO, TextIO


class Stdout:
    """Standard output as bytes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write all of `text`. Raises BrokenPipeError; the process can still end quietly after it.

        Past Python's buffers: an unbuffered or non-blocking stream may take a part only.
        """
        data = text.encode("utf-8", "replace")
        try:
            self._stream.flush()
            raw = getattr(self._stream.buffer, "raw", self._stream.buffer)
            while data:
                data = data[_write_some(raw, data) :]
        except BrokenPipeError:
            discard(self._stream)
            raise

    def write_json(self, value: object) -> None:
        """Write `value` as a line of JSON. Raises what `write` raises."""
        self.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")


def discard(stream: TextIO) -> None:
    """Send what is still buffered nowhere: the interpreter flushes it on its way out."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _write_some(raw: BinaryIO, data: bytes) -> int:
    """Write as much as `raw` takes now; where that is nothing, wait for its slow reader."""
    n: int | None = raw.write(data)
    if n is None:
        select.select([], [raw], [])
    return n or 0
