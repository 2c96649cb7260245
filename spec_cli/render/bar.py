"""A line of progress on stderr that is gone at the end."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn
from rich.table import Column

from spec_cli.terminal import Terminal


def bar(terminal: Terminal, *columns: ProgressColumn, disable: bool) -> Progress:
    """A spinner, the task's description, a bar and then `columns`."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True)),
        BarColumn(bar_width=14),
        *columns,
        console=Console(file=terminal.stderr, no_color=not terminal.color),
        disable=disable,
        expand=True,
        transient=True,
        # Nothing on stdout may pass through the display.
        redirect_stdout=False,
        redirect_stderr=False,
    )
