"""Results as lines and tables for people: in colour on a terminal, plain elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from spec_cli.render.stdout import Stdout
from spec_cli.terminal import Terminal

Grid = list[list[str]]
"""A table, row by row."""


class Command(str):
    """A line to copy: a terminal wraps it by itself, so that it is copied as one line."""


Block = str | Grid


def aligned(grid: Sequence[Sequence[str]], gap: str = "  ") -> list[str]:
    """The rows of a table as lines, `gap` between its columns."""
    widths = [max(map(cell_len, column)) for column in zip(*grid, strict=True)]
    return [
        gap.join(
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in grid
    ]


def print_blocks(
    terminal: Terminal, blocks: Iterable[Block], paint: Callable[[list[Text]], None]
) -> None:
    """Write `blocks` to stdout; `paint` colours the lines of a table.

    On a terminal sentences are wrapped at words; a table that is too wide is wrapped by the
    terminal, never cut. Raises BrokenPipeError.
    """
    console = stdout_console(terminal)
    with console.capture() as captured:
        for block in blocks:
            if isinstance(block, str):
                at_words = terminal.stdout_is_tty and not isinstance(block, Command)
                console.print(Text(block), soft_wrap=not at_words)
            else:
                lines = [Text(line) for line in aligned(block)]
                paint(lines)
                for line in lines:
                    console.print(line, soft_wrap=True)
    Stdout(terminal.stdout).write(captured.get())


def stdout_console(terminal: Terminal) -> Console:
    """Rich's view of stdout: what it can show is judged by us."""
    return Console(
        file=terminal.stdout,
        force_terminal=True,
        color_system="standard" if terminal.stdout_color else None,
        no_color=False,
        highlight=False,
    )
