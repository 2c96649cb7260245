"""Results as lines and tables for people: in colour on a terminal, plain elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

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


def aligned(grid: Grid, gap: str = "  ") -> list[str]:
    """The rows of a table as lines, `gap` between its columns."""
    widths = [max(map(cell_len, column)) for column in zip(*grid, strict=True)]
    return [
        gap.join(
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in grid
    ]


def lines_of(blocks: Iterable[Block]) -> Iterator[str]:
    """All lines of `blocks`."""
    for block in blocks:
        yield from [block] if isinstance(block, str) else aligned(block)


def print_blocks(
    terminal: Terminal, blocks: Iterable[Block], paint: Callable[[list[Text]], None]
) -> None:
    """Write `blocks` to stdout; `paint` colours the lines of a table for a terminal.

    A table that is too wide for the terminal is wrapped, never cut. Raises BrokenPipeError.
    """
    stdout = Stdout(terminal.stdout)
    if not terminal.stdout_is_tty:
        stdout.write("".join(f"{line}\n" for line in lines_of(blocks)))
        return
    console = stdout_console(terminal)
    with console.capture() as captured:
        for block in blocks:
            if isinstance(block, str):
                console.print(Text(block), soft_wrap=isinstance(block, Command))
                continue
            lines = [Text(line) for line in aligned(block)]
            paint(lines)
            for line in lines:
                console.print(line, soft_wrap=True)
    stdout.write(captured.get())


def stdout_console(terminal: Terminal) -> Console:
    """Rich's view of stdout, where that is a terminal."""
    return Console(
        file=terminal.stdout, no_color=not terminal.color, force_terminal=True, highlight=False
    )
