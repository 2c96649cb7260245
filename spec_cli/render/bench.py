"""Printing a measurement: for people as text or Markdown, for programs in other formats."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from spec_cli.bench.report import Report
from spec_cli.bench.rows import Row, row_of
from spec_cli.bench.synthetic import Outlook, conclusion
from spec_cli.render.bench_blocks import BenchInfo, bench_blocks
from spec_cli.render.bench_formats import rows_as
from spec_cli.render.bench_json import bench_object
from spec_cli.render.columns import aligned
from spec_cli.render.options import Format
from spec_cli.render.stdout import Stdout
from spec_cli.render.verify import Grid
from spec_cli.terminal import Terminal

Blocks = Iterable[str | Grid]


def print_bench(terminal: Terminal, form: Format, report: Report, info: BenchInfo) -> None:
    """Write the report to stdout. Raises BrokenPipeError."""
    if form in (Format.TEXT, Format.MD):
        _print_blocks(terminal, form, bench_blocks(report, info))
    elif form is Format.JSON:
        _print_json(terminal, bench_object(report, info))
    else:
        rows = [row_of(info.setup, run) for run in report.runs]
        Stdout(terminal.stdout).write(rows_as(form, rows, "bench"))


def print_outlook(
    terminal: Terminal, form: Format, outlooks: dict[str, list[Outlook]], acceptance: float
) -> None:
    """Write what drafting could gain, by drafter. Raises BrokenPipeError."""
    rows: list[Row] = [
        {
            "drafter": drafter,
            "acceptance": acceptance,
            "draft_tokens": outlook.k,
            "speedup": outlook.speedup,
            "break_even": outlook.break_even,
        }
        for drafter, of_drafter in outlooks.items()
        for outlook in of_drafter
    ]
    if form in (Format.TEXT, Format.MD):
        _print_blocks(terminal, form, _outlook_blocks(rows, outlooks, acceptance))
    elif form is Format.JSON:
        _print_json(terminal, {"schema": "spec-cli/bench-outlook/1", "outlook": rows})
    else:
        Stdout(terminal.stdout).write(rows_as(form, rows, "outlook"))


def markdown(block: str | Grid) -> list[str]:
    """A line, which Markdown shall not join with the next, or a table with its header."""
    if isinstance(block, str):
        return [f"{block.strip()}  ".lstrip()]
    header, *rows = [[cell.replace("|", "\\|") for cell in row] for row in block]
    lines = [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)]
    return ["", *lines, ""]


def _plain_lines(block: str | Grid) -> list[str]:
    return [block] if isinstance(block, str) else aligned(block)


def _outlook_blocks(
    rows: Sequence[Row], outlooks: dict[str, list[Outlook]], acceptance: float
) -> Blocks:
    yield [["drafter", "-k", "speed-up", "wins from"]] + [
        [
            row["drafter"],
            str(row["draft_tokens"]),
            f"{row['speedup']:.2f}x",
            "never" if row["break_even"] is None else f"{row['break_even']:.0%} accepted",
        ]
        for row in rows
    ]
    yield ""
    for drafter, of_drafter in outlooks.items():
        yield f"{drafter}: {conclusion(of_drafter, acceptance)}"


def _print_blocks(terminal: Terminal, form: Format, blocks: Blocks) -> None:
    stdout = Stdout(terminal.stdout)
    if form is Format.MD or not terminal.stdout_is_tty:
        show = markdown if form is Format.MD else _plain_lines
        text = "".join(f"{line}\n" for block in blocks for line in show(block))
        stdout.write(re.sub(r"\n{3,}", "\n\n", text))
        return
    console = Console(
        file=terminal.stdout, no_color=not terminal.color, force_terminal=True, highlight=False
    )
    with console.capture() as captured:
        for block in blocks:
            if isinstance(block, str):
                # A command is left to the terminal to wrap: it can be copied as one line.
                console.print(Text(block), soft_wrap=block.startswith(" "))
            else:
                console.print(_table(block))
    stdout.write(captured.get())


def _table(grid: Grid) -> Table:
    header, *rows = grid
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in header:
        table.add_column(Text(name), no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _print_json(terminal: Terminal, value: dict[str, object]) -> None:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    Stdout(terminal.stdout).write(f"{text}\n")
