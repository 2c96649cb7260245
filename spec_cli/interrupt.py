"""Ctrl-C while native code runs: Python alone would lose it inside a callback of llama.cpp."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Self


class CtrlC:
    """While entered, SIGINT is remembered; on leaving it is a KeyboardInterrupt.

    Call it to ask whether it came. Signals reach Python's main thread only, and a program that
    handles SIGINT itself goes on doing so: then this does nothing.
    """

    def __init__(self) -> None:
        self._came = False
        self._previous: signal._HANDLER = None

    def __enter__(self) -> Self:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._previous = signal.signal(signal.SIGINT, self._remember)
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._previous is None:
            return
        signal.signal(signal.SIGINT, self._previous)
        self._previous = None
        if self._came:
            self._came = False
            raise KeyboardInterrupt from None

    def __call__(self) -> bool:
        """Whether the user wants to stop."""
        return self._came

    def _remember(self, _number: int, _frame: FrameType | None) -> None:
        self._came = True
