"""A verification as text: tables on a terminal, aligned plain lines in a pipe."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from rich.cells import cell_len
from rich.text import Text

from spec_cli.render.blocks import Block, Grid, aligned, print_blocks, stdout_console
from spec_cli.render.inert import inert, one_line
from spec_cli.render.info import RunInfo
from spec_cli.render.style import percent
from spec_cli.spec.counts import counted
from spec_cli.terminal import Terminal
from spec_cli.verify.comparison import Comparison
from spec_cli.verify.matrix import Cell, Matrix
from spec_cli.verify.report import Report
from spec_cli.verify.rules import FALSE_ALARM, RuleCheck

Spell = Callable[[int], str]
"""The text of a token id."""

_ID_CHARS = 20  # of a prompt's id


@dataclass(frozen=True, slots=True)
class Marks:
    """How the outcome of a comparison is shown: a difference with its position, or without."""

    equal: str
    near_tie: str
    different: str
    missing: str
    with_position: bool = True

    def of(self, comparison: Comparison | None) -> str:
        """The mark of `comparison`; None is one that was not made."""
        if comparison is None:
            return self.missing
        if comparison.difference is None:
            return self.equal
        mark = self.near_tie if comparison.is_near_tie else self.different
        return f"{mark}{comparison.difference.position}" if self.with_position else mark

    def legend(self, report: Report) -> str:
        """What the marks mean, those that the report has."""
        after = " after that many tokens" if self.with_position else ""
        meanings = [
            (report.equal, f"{self.equal} equal"),
            (report.near_ties, f"{self.near_tie} near-tie{after}"),
            (report.unexplained, f"{self.different} different{after}"),
            (report.interrupted, f"{self.missing} not compared"),
        ]
        return ", ".join(meaning for occurs, meaning in meanings if occurs)


PLAIN = Marks("=", "~", "!", ".")
UNICODE = Marks("✓", "≈", "✗", "·")
_STYLES = {UNICODE.equal: "green", UNICODE.near_tie: "yellow", UNICODE.different: "bold red"}


def print_report(
    terminal: Terminal, report: Report, matrix: Matrix, info: RunInfo, spell: Spell
) -> None:
    """Write the report to stdout. Raises BrokenPipeError."""
    marks = UNICODE if terminal.stdout_is_tty or terminal.stdout_color else PLAIN
    if terminal.stdout_is_tty:
        widest = max(map(cell_len, aligned(results(report, matrix, marks))))
        marks = replace(marks, with_position=widest <= stdout_console(terminal).width)
    print_blocks(terminal, report_blocks(report, matrix, info, spell, marks), _paint)


def report_blocks(
    report: Report, matrix: Matrix, info: RunInfo, spell: Spell, marks: Marks
) -> Iterator[Block]:
    """The report from top to bottom: lines, and tables."""
    yield from _facts(report, matrix, info)
    yield ""
    yield results(report, matrix, marks)
    yield marks.legend(report)
    if report.comparisons:
        yield _drafting(report)
    yield ""
    if differences := list(_differences(report, spell)):
        yield from (*differences, "")
    yield from _rules(report)
    yield ""
    yield report.conclusion


def results(report: Report, matrix: Matrix, marks: Marks) -> Grid:
    """A row for each prompt and temperature, a column for each drafter: all its draft lengths."""
    made = {comparison.cell: comparison for comparison in report.comparisons}
    n_tokens = {(c.cell.prompt, c.cell.temp): str(c.n_tokens) for c in report.comparisons}
    texts = list(product(matrix.prompts, matrix.temps))
    lengths = [_length(k) for k in matrix.draft_tokens]
    columns = [
        ["", "prompt", *(one_line(prompt.id)[:_ID_CHARS] for prompt, _ in texts)],
        ["", "temp", *(f"{temp:g}" for _, temp in texts)],
        ["", "tokens", *(n_tokens.get(text, "") for text in texts)],
    ]
    for drafter in matrix.drafters:
        outcomes = [
            [marks.of(made.get(Cell(*text, drafter, k))) for k in matrix.draft_tokens]
            for text in texts
        ]
        label = "k=" if drafter is matrix.drafters[0] else ""  # once: the table is wide
        header = [label + lengths[0], *lengths[1:]]
        columns.append([drafter, *aligned([header, *outcomes], gap=" ")])
    return [list(row) for row in zip(*columns, strict=True)]


def _paint(lines: list[Text]) -> None:
    for line in lines:
        for mark, style in _STYLES.items():
            line.highlight_regex(rf"{mark}\d*", style)


def _facts(report: Report, matrix: Matrix, info: RunInfo) -> Iterator[str]:
    yield f"target  {one_line(info.target.file)}"
    yield f"draft   {one_line(info.draft.file) if info.draft else 'none'}"
    yield f"exact   {report.plan.describe()}"
    prompts = counted(len(matrix.prompts), "prompt")
    temps = ", ".join(f"{temp:g}" for temp in matrix.temps)
    length = f"up to {counted(matrix.max_tokens, 'token')}"
    yield f"texts   {prompts}; temp {temps}; {length}; seed {matrix.seed}"


def _drafting(report: Report) -> str:
    """What was drafted, so that nobody takes a check for one that drafted nothing."""
    n_drafted = sum(c.n_drafted for c in report.comparisons)
    n_accepted = sum(c.n_accepted for c in report.comparisons)
    rate = percent(n_accepted / n_drafted if n_drafted else None)
    width = max(c.max_width for c in report.comparisons)
    return f"{counted(n_drafted, 'draft token')}, {rate} accepted, in passes of 1 to {width} rows"


def _differences(report: Report, spell: Spell) -> Iterator[str]:
    """Two lines for each place where texts differ: what, and why."""
    places: dict[tuple[object, ...], list[Comparison]] = {}
    for comparison in [*report.unexplained, *report.near_ties]:
        cell, found = comparison.cell, comparison.difference
        assert found is not None
        place = (cell.prompt, cell.temp, found.position, found.speculative, found.reason)
        places.setdefault(place, []).append(comparison)
    for group in places.values():
        yield _what(group, spell)
        yield f"  {_why(group)}"


def _what(group: Sequence[Comparison], spell: Spell) -> str:
    cell, found = group[0].cell, group[0].difference
    assert found is not None
    arms = ", ".join(f"{c.cell.drafter} k={_length(c.cell.draft_tokens)}" for c in group)
    return (
        f"{one_line(cell.prompt.id)}, temp {cell.temp:g}, {arms}: "
        f"after {counted(found.position, 'token')} plain has {_token(found.plain, spell)}, "
        f"speculative {_token(found.speculative, spell)}"
    )


def _why(group: Sequence[Comparison]) -> str:
    found = [c.difference for c in group if c.difference]
    figures = [f"{'near-tie' if found[0].is_near_tie else 'unexplained'}: {found[0].reason}"]
    if differences := [d.row_difference for d in found if d.row_difference is not None]:
        figures.append(f"they differ by up to {max(differences):.3g} logits")
    if found[0].margin is not None:
        figures.append(f"plain prefers its token by {found[0].margin:.3g}")
    return "; ".join(figures)


def _rules(report: Report) -> Iterator[Block]:
    if report.rules_skipped is not None:
        yield f"acceptance rules: not checked, {report.rules_skipped}"
        return
    checks = report.rules
    n_pairs = len({(check.prompt, check.position) for check in checks})
    limit = FALSE_ALARM / len(checks)
    rounds, pairs = counted(checks[0].n_rounds, "round"), counted(n_pairs, "pair")
    yield f"acceptance rules, {rounds} on each of {pairs} of rows of the two models"
    yield _rule_grid(checks)
    tests = counted(len(checks), "chi-square test")
    yield f"{tests}; p below {limit:.1e} fails (false alarms: {FALSE_ALARM:g} in all)"


def _rule_grid(checks: Sequence[RuleCheck]) -> Grid:
    grid = [["rule", "sampling", "accepted", "lowest p"]]
    for accept, sampling in dict.fromkeys((check.accept, check.sampling) for check in checks):
        group = [c for c in checks if (c.accept, c.sampling) == (accept, sampling)]
        rate = sum(c.n_accepted for c in group) / sum(c.n_drafted for c in group)
        lowest = min(check.test.p_value for check in group)
        failed = "" if all(check.passes(len(checks)) for check in group) else "  FAILED"
        grid.append([accept, sampling, percent(rate), f"{lowest:.2g}{failed}"])
    return grid


def _length(draft_tokens: int | None) -> str:
    return "auto" if draft_tokens is None else str(draft_tokens)


def _token(token: int | None, spell: Spell) -> str:
    if token is None:
        return "ended"
    return f"{inert(json.dumps(spell(token), ensure_ascii=False))} ({token})"
