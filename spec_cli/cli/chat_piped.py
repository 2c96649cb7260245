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
        """See `Turns.read`."""
        while not (text := self._line()).strip():
            pass
        n_first = self._n_read
        try:
            while is_open(text):
                text += f"\n{self._line()}"
        except EOFError:
            raise UsageError(f"the message in line {n_first} has no closing {QUOTES}") from None
        return text

    def _line(self) -> str:
        try:
            line = self._stdin.readline(MAX_INPUT_BYTES + 1)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            line = b""  # nohup leaves a stdin that is open for writing only
        if not line:
            raise EOFError
        self._n_read += 1
        what = f"line {self._n_read} of the input"
        if len(line) > MAX_INPUT_BYTES:
            self._stdin = BytesIO()
            message = f"{what} holds more than {MAX_INPUT_BYTES >> 20} MiB"
            raise UsageError(message, hint="nothing after it is read")
        return decode_text(line.rstrip(b"\r\n"), what)
