"""The keyboard of a terminal while nobody is asked anything."""

from __future__ import annotations

import termios
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from spec_cli.terminal import Terminal

_LOCAL_FLAGS = 3  # of what `tcgetattr` gives


class Silent:
    """While entered, what is typed is not shown among the output; it waits to be read."""

    def __init__(self, terminal: Terminal) -> None:
        self._stdin = terminal.stdin if terminal.stdin_is_tty else None
        self._before: list[Any] | None = None

    def __enter__(self) -> Self:
        if self._stdin is not None:
            with suppress(termios.error):  # a terminal that has hung up
                self._before = termios.tcgetattr(self._stdin)
                changed = list(self._before)
                changed[_LOCAL_FLAGS] &= ~termios.ECHO
                termios.tcsetattr(self._stdin, termios.TCSANOW, changed)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.restore()

    def restore(self) -> None:
        """Let the keyboard be as it was; harmless when it is."""
        if self._before is not None and self._stdin is not None:
            with suppress(termios.error):
                termios.tcsetattr(self._stdin, termios.TCSANOW, self._before)
            self._before = None
