"""Download progress on standard error: a bar on a terminal, else one line for each model."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.filesize import decimal
from rich.progress import (
    DownloadColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from spec_cli.download import Progress
from spec_cli.render.bar import bar, progress_line
from spec_cli.render.inert import one_line
from spec_cli.terminal import Terminal


class DownloadDisplay:
    """Shows what `download.fetch` reports. Used as a context manager around it."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._bars = progress_line(
            terminal,
            TextColumn("{task.fields[source]}"),
            bar(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(compact=True),
            disable=not terminal.animate,
            transient=False,
        )
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
                name,
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
