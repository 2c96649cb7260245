"""Messages of a chat that come from a pipe or a file."""

from __future__ import annotations

import errno
from io import BytesIO
from typing import BinaryIO

from spec_cli.chat.quotes import QUOTES, is_open
from spec_cli.errors import UsageError
from spec_cli.files import MAX_INPUT_BYTES
from spec_cli.prompt import decode_text


class PipedTurns:
    '''A turn a line, or the lines between two of """; blank lines are skipped.'''

    is_interactive = False

    def __init__(self, stdin: BinaryIO) -> None:
        self._stdin = stdin
        self._n_read = 0

    def read(self, draft: str) -> str:
        """See `Turns.read`. What is not UTF-8 is refused with the whole message that it is in."""
        while not (first := self._line()).strip():
            pass
        n_first, lines = self._n_read, [first]
        try:
            while is_open(b"\n".join(lines).decode("utf-8-sig", "replace")):
                lines.append(self._line())
        except EOFError:
            raise UsageError(f"the message in line {n_first} has no closing {QUOTES}") from None
        return "\n".join(
            decode_text(line, f"line {n} of the input") for n, line in enumerate(lines, n_first)
        )

    def _line(self) -> bytes:
        """The next line, without its end. Raises EOFError, and UsageError for an endless one."""
        try:
            line = self._stdin.readline(MAX_INPUT_BYTES + 1)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            line = b""  # nohup leaves a stdin that is open for writing only
        if not line:
            raise EOFError
        self._n_read += 1
        if len(line) > MAX_INPUT_BYTES:
            self._stdin = BytesIO()
            raise UsageError(
                f"line {self._n_read} of the input holds more than {MAX_INPUT_BYTES >> 20} MiB",
                hint="nothing after it is read",
            )
        return line.rstrip(b"\r\n")
