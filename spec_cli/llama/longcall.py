"""A native call that may take long: made in a thread, so that the user is heard meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from spec_cli.errors import Cancelled

T = TypeVar("T")

_POLL_S = 0.05


class LongCall(Generic[T]):
    """A call in a thread of its own, from now on; nothing can stop it but its end."""

    def __init__(self, call: Callable[[], T], *, stack_bytes: int) -> None:
        self._call = call
        self._future: Future[T] = Future()
        before = threading.stack_size(stack_bytes)
        try:
            threading.Thread(target=self._run, daemon=True).start()
        finally:
            threading.stack_size(before)

    @property
    def is_running(self) -> bool:
        """Whether the call has not come to its end yet."""
        return not self._future.done()

    def result(self, cancelled: Callable[[], bool]) -> T:
        """What the call returns, when it does. Raises Cancelled, and then the call goes on."""
        while not cancelled():
            try:
                return self._future.result(_POLL_S)
            except TimeoutError:
                pass
        raise Cancelled

    def _run(self) -> None:
        try:
            self._future.set_result(self._call())
        except BaseException as error:
            self._future.set_exception(error)
