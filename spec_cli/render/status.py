"""What a program is doing before its first token: one line on a terminal, nothing elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from spec_cli.render.inert import one_line
from spec_cli.terminal import Terminal


class Status:
    """Shows one changing line on stderr and removes it at the end. Used as a context manager."""

    def __init__(self, terminal: Terminal, *, quiet: bool) -> None:
        self._spinner = Spinner("dots")
        self._live: Live | None = None
        if terminal.animate and not quiet:
            self._live = Live(
                self._spinner,
                console=Console(file=terminal.stderr, no_color=not terminal.color),
                transient=True,
                # Nothing on stdout may pass through the display.
                redirect_stdout=False,
                redirect_stderr=False,
            )

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
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
        if self._live is not None:
            self._live.stop()

    def show(self, what: str, fraction: float | None) -> None:
        """Show what is being done now and, if it is known, how much of it is done."""
        done = "" if fraction is None else f" {fraction:4.0%}"
        self._spinner.update(
            text=Text(f"{one_line(what)}{done}", overflow="ellipsis", no_wrap=True)
        )
