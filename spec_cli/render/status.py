"""What a program is doing before its first token: one line on a terminal, nothing elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.text import Text

from spec_cli.terminal import Terminal


class Status:
    """Shows one changing line on stderr and removes it at the end. Used as a context manager."""

    def __init__(self, terminal: Terminal, *, quiet: bool) -> None:
        console = Console(file=terminal.stderr, no_color=not terminal.color)
        visible = terminal.animate and not quiet
        self._status = console.status("", spinner="dots") if visible else None
        if self._status is not None:
            # Nothing on stdout may pass through the display.
            self._status._live._redirect_stdout = self._status._live._redirect_stderr = False

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
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
        if self._status is not None:
            self._status.stop()

    def show(self, what: str, fraction: float | None) -> None:
        """Show what is being done now and, if it is known, how much of it is done."""
        if self._status is not None:
            done = "" if fraction is None else f" {fraction:4.0%}"
            self._status.update(Text(f"{what}{done}", overflow="ellipsis", no_wrap=True))
