"""What a program is doing before its first token: one line on a terminal, nothing elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from spec_cli.render.bar import progress_line
from spec_cli.render.inert import one_line
from spec_cli.terminal import Terminal


class Status:
    """Shows one changing line on stderr and removes it at the end. Used as a context manager."""

    def __init__(self, terminal: Terminal, *, quiet: bool) -> None:
        self._line = progress_line(terminal, disable=quiet or not terminal.animate)
        self._task = self._line.add_task("")

    def __enter__(self) -> Self:
        self._line.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the line; harmless when done before."""
        self._line.stop()

    def show(self, what: str, fraction: float | None) -> None:
        """Show what is being done now and, if it is known, how much of it is done."""
        done = "" if fraction is None else f" {fraction:4.0%}"
        self._line.update(self._task, description=f"{one_line(what)}{done}")
