"""Tables: as wide as a terminal, or aligned text for a pipe; and figures in their cells."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from spec_cli.cli.log import escaped
from spec_cli.render.blocks import aligned
from spec_cli.terminal import Terminal

NOTHING = "-"


def print_json(value: object, terminal: Terminal) -> None:
    """One JSON object on stdout."""
    terminal.stdout.write(json.dumps(value, indent=2) + "\n")


def print_lines(lines: Sequence[str], terminal: Terminal) -> None:
    """Lines on stdout. They hold what files and registries say: control characters are shown."""
    terminal.stdout.writelines(f"{escaped(line)}\n" for line in lines)


def print_rows(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    terminal: Terminal,
    *,
    wrapped: Collection[str] = (),
    columns_for_width: Sequence[tuple[int, int]] = (),
) -> None:
    """A table on stdout, aligned text where that is no terminal.

    On a terminal, columns whose headings are in `wrapped` may be broken over lines, and
    `columns_for_width`, the widest first, says from which width on how many columns are shown.
    """
    rows = [[cell(value) for value in row] for row in rows]
    if not terminal.stdout_is_tty:
        print_lines(aligned([headings, *rows]), terminal)
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(file=terminal.stdout, no_color=not terminal.color, markup=False, emoji=False)
    fitting = (n for width, n in columns_for_width if console.width >= width)
    n_columns = next(fitting, len(headings))
    table = Table(box=None, pad_edge=False)
    for heading in headings[:n_columns]:
        table.add_column(heading, no_wrap=heading not in wrapped)
    for row in rows:
        table.add_row(*row[:n_columns])
    console.print(table)


def cell(value: str | int | None) -> str:
    """A value as one line of printable text; integers with their thousands marked."""
    if value is None:
        return NOTHING
    text = f"{value:,}" if isinstance(value, int) else value
    return escaped(text).replace("\n", "\\n") or NOTHING
