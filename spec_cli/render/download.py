"""Download progress on standard error: a bar on a terminal, else one line for each model."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as Bars
from rich.table import Column

from spec_cli.download import Progress
from spec_cli.render.inert import one_line
from spec_cli.terminal import Terminal


class DownloadDisplay:
    """Shows what `download.fetch` reports. Used as a context manager around it."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._bars = _bars(terminal)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def show(self, progress: Progress) -> None:
        """Show `progress`, whose first report of a model starts its bar."""
        if progress.name not in self._tasks:
            name = one_line(progress.name)
            self._announce(name, progress)
            self._tasks[progress.name] = self._bars.add_task(
                escape(name),
                source=progress.source,
                completed=progress.done_bytes,
                total=progress.total_bytes,
            )
        self._bars.update(self._tasks[progress.name], completed=progress.done_bytes)

    def _announce(self, name: str, progress: Progress) -> None:
        if self._terminal.animate:
            return
        size = decimal(progress.total_bytes)
        done = f", {decimal(progress.done_bytes)} are here" if progress.done_bytes else ""
        self._terminal.stderr.write(
            f"downloading {name}: {size} from the {progress.source}{done}\n"
        )
        self._terminal.stderr.flush()


def _bars(terminal: Terminal) -> Bars:
    console = Console(file=terminal.stderr, no_color=not terminal.color)
    return Bars(
        SpinnerColumn(),
        TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True)),
        TextColumn("{task.fields[source]}"),
        BarColumn(bar_width=14),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(compact=True),
        console=console,
        disable=not terminal.animate,
        expand=True,
        # Text on stdout must not pass through the display.
        redirect_stdout=False,
        redirect_stderr=False,
    )
