"""SIGINT, SIGTERM and SIGHUP: the first asks a run to stop, the last ends the process at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Self

_SHOW_CURSOR = "\x1b[?25h"
_TERMINATION = (signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """SIGTERM or SIGHUP outside of a run; the way KeyboardInterrupt stands for SIGINT."""

    def __init__(self, number: signal.Signals) -> None:
        self.signal = number


def raise_on_termination() -> None:
    """Let SIGTERM and SIGHUP unwind the stack, so that files and terminals are left in order."""

    def terminate(number: int, _frame: FrameType | None) -> None:
        raise Terminated(signal.Signals(number))

    for number in _TERMINATION:
        if not _is_ignored(number):
            signal.signal(number, terminate)


@contextmanager
def at_termination(act: Callable[[Terminated], None]) -> Iterator[None]:
    """While entered, SIGTERM and SIGHUP are told to `act`, for what an exception would not end."""

    def tell(number: int, _frame: FrameType | None) -> None:
        act(Terminated(signal.Signals(number)))

    heard = [number for number in _TERMINATION if not _is_ignored(number)]
    before = {number: signal.signal(number, tell) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Interrupts:
    """While entered, signals are remembered instead of raised; call it to ask whether one came.

    Those of an earlier time are forgotten on entering.
    """

    def __init__(self, last: int | None = 2, *, leaving: Callable[[], None] = lambda: None) -> None:
        """The signal number `last` ends the process at once, after a call of `leaving`.

        With None, no number of them does.
        """
        self.signal: signal.Signals | None = None
        self._last = last
        self._leaving = leaving
        self._n_received = 0
        self._previous: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> Self:
        self.signal, self._n_received = None, 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if not _is_ignored(number):
                self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def __call__(self) -> bool:
        """Whether the user wants to stop."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """128 plus the signal's number, as shells have it."""
        return 128 + (self.signal or signal.SIGINT)

    def raise_terminated(self) -> None:
        """Raise Terminated where the signal was to end more than what it interrupted."""
        if self.signal in _TERMINATION:
            raise Terminated(self.signal)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self._n_received += 1
        if self._n_received == self._last:
            self._leaving()
            with suppress(OSError):  # a terminal that has hung up
                if sys.stderr is not None and sys.stderr.isatty():
                    os.write(2, _SHOW_CURSOR.encode())
            os._exit(self.exit_code)
        self.signal = signal.Signals(number)


def _is_ignored(number: signal.Signals) -> bool:
    """As `nohup` and `&` leave some of them."""
    return signal.getsignal(number) is signal.SIG_IGN
