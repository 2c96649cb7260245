"""Printing a measurement: for people as text or Markdown, for programs in other formats."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from spec_cli.bench.report import Report
from spec_cli.bench.rows import Row, row_of
from spec_cli.bench.synthetic import Outlook, conclusion
from spec_cli.render.bench_blocks import BenchInfo, bench_blocks
from spec_cli.render.bench_formats import rows_as
from spec_cli.render.bench_json import bench_object
from spec_cli.render.blocks import Block, Command, print_blocks
from spec_cli.render.options import Format
from spec_cli.render.stdout import Stdout
from spec_cli.render.style import percent
from spec_cli.terminal import Terminal


def print_bench(terminal: Terminal, form: Format, report: Report, info: BenchInfo) -> None:
    """Write the report to stdout. Raises BrokenPipeError."""
    if form in (Format.TEXT, Format.MD):
        _print(terminal, form, bench_blocks(report, info))
    elif form is Format.JSON:
        Stdout(terminal.stdout).write_json(bench_object(report, info))
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
        _print(terminal, form, _outlook_blocks(rows, outlooks, acceptance))
    elif form is Format.JSON:
        whole = {"schema": "spec-cli/bench-outlook/1", "outlook": rows}
        Stdout(terminal.stdout).write_json(whole)
    else:
        Stdout(terminal.stdout).write(rows_as(form, rows, "outlook"))


def markdown(block: Block) -> list[str]:
    """A line, which Markdown shall not join with the next, a command as code, or a table."""
    if isinstance(block, Command):
        return ["", f"    {block.strip()}", ""]
    if isinstance(block, str):
        return [f"{block.strip()}  ".lstrip()]
    header, *rows = [[cell.replace("|", "\\|") for cell in row] for row in block]
    lines = [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)]
    return ["", *lines, ""]


def _outlook_blocks(
    rows: Sequence[Row], outlooks: dict[str, list[Outlook]], acceptance: float
) -> Iterator[Block]:
    yield [["drafter", "-k", "speed-up", "wins from"]] + [
        [
            row["drafter"],
            str(row["draft_tokens"]),
            f"{row['speedup']:.2f}x",
            "never" if row["break_even"] is None else f"{percent(row['break_even'])} accepted",
        ]
        for row in rows
    ]
    yield ""
    for drafter, of_drafter in outlooks.items():
        yield f"{drafter}: {conclusion(of_drafter, acceptance)}"


def _print(terminal: Terminal, form: Format, blocks: Iterable[Block]) -> None:
    if form is Format.TEXT:
        print_blocks(terminal, blocks, _paint)
        return
    text = "".join(f"{line}\n" for block in blocks for line in markdown(block))
    Stdout(terminal.stdout).write(re.sub(r"\n{3,}", "\n\n", text))


def _paint(lines: list[Text]) -> None:
    lines[0].stylize("bold")
