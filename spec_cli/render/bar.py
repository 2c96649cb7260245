"""A line of progress on stderr."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn
from rich.table import Column

from spec_cli.terminal import Terminal

_MIN_COLUMNS = 60  # of a terminal that has room for a bar
_FRAMES_PER_S = 4.0  # few: what is measured meanwhile needs the cores


def bar() -> BarColumn:
    """How much is done, where the terminal has room for it."""
    return BarColumn(bar_width=14)


def progress_line(
    terminal: Terminal, *columns: ProgressColumn, disable: bool, transient: bool = True
) -> Progress:
    """A spinner, the task's description and `columns`; `transient`: it is gone at the end."""
    console = Console(file=terminal.stderr, no_color=not terminal.color)
    has_room = console.width >= _MIN_COLUMNS
    description = Column(ratio=1, no_wrap=True)
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False, table_column=description),
        *(column for column in columns if has_room or not isinstance(column, BarColumn)),
        console=console,
        disable=disable,
        expand=True,
        transient=transient,
        refresh_per_second=_FRAMES_PER_S,
        # Nothing on stdout may pass through the display.
        redirect_stdout=False,
        redirect_stderr=False,
    )
