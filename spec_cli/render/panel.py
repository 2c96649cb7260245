"""The live panel: a few stable figures, as rows that fit the terminal's width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from textwrap import wrap

from rich.cells import cell_len
from rich.text import Text

from spec_cli.events import PromptProgress
from spec_cli.render.inert import one_line
from spec_cli.render.info import RunInfo
from spec_cli.render.style import number, percent, round_times, speedup
from spec_cli.spec.counts import counted
from spec_cli.spec.stats import RunStats

_FIGURE_CELLS = 15  # "  71 % accepted": what follows lines up in all rows
_GAP = "  "
_ROUNDS = "rounds "
_SLACK = 6  # columns that stay free: rows are not wrapped each time a terminal is made narrower
_RULE_CELLS = 6  # of the rule, at least, beside the names
_BAR_CELLS = 24
_MAX_REASON_ROWS = 3


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters that draw: `levels` from empty to full, `dot` a round without a draft."""

    levels: str
    rule: str
    bar: str
    dot: str
    ellipsis: str

    def level(self, share: float) -> str:
        """The character for a share of 0 to 1."""
        return self.levels[round(share * (len(self.levels) - 1))]


UNICODE = Glyphs(levels="▁▂▃▄▅▆▇█", rule="─", bar="━", dot="·", ellipsis="…")
ASCII = Glyphs(levels="_.:-=+*#", rule="-", bar="=", dot=" ", ellipsis="...")


def glyphs_for(encoding: str) -> Glyphs:
    """Unicode blocks when `encoding` has them, else ASCII."""
    try:
        "".join(astuple(UNICODE)).encode(encoding)
    except UnicodeEncodeError:
        return ASCII
    return UNICODE


@dataclass(frozen=True, slots=True)
class PanelState:
    """What the panel shows. `preview` is the tail of a text that goes elsewhere."""

    stats: RunStats
    progress: PromptProgress | None = None
    drafting_off: str | None = None
    preview: str = ""


def panel_rows(state: PanelState, info: RunInfo, width: int, glyphs: Glyphs) -> list[Text]:
    """The rows of the panel, none wider than `width` cells; none before there is a figure."""
    rows = []
    if state.preview:
        rows.append(_preview(state.preview, width, glyphs))
    if state.stats.n_rounds:
        rows.append(_speed(state.stats, width))
        if state.stats.n_drafted:
            rows += _drafting(state.stats, width, glyphs)
    elif state.progress:
        rows.append(_progress(state.progress, width, glyphs))
    if state.drafting_off:
        rows += _reason(state.drafting_off, width, glyphs)
    return [_rule(info, width, glyphs), *rows] if rows else []


def _rule(info: RunInfo, width: int, glyphs: Glyphs) -> Text:
    names = one_line(info.target.name)
    if info.draft:
        both = f"{names} + {one_line(info.draft.name)}"
        names = both if cell_len(both) <= width - _RULE_CELLS else names
    rule = Text(f"{glyphs.rule * 2} {names} ", "dim")
    rule.truncate(width)
    room = width - rule.cell_len
    return rule.append(glyphs.rule * min(room, max(room - _SLACK, _RULE_CELLS // 2)))


def _preview(text: str, width: int, glyphs: Glyphs) -> Text:
    """The end of `text`, on one row."""
    tail = one_line(text)
    if cell_len(tail) > width:
        tail = tail[-width:]
        while cell_len(tail) > width - len(glyphs.ellipsis):
            tail = tail[1:]
        tail = glyphs.ellipsis + tail
    return Text(tail)


def _progress(progress: PromptProgress, width: int, glyphs: Glyphs) -> Text:
    n_full = _BAR_CELLS * progress.done // max(progress.total, 1)
    bar = (glyphs.bar * n_full, "cyan"), (glyphs.rule * (_BAR_CELLS - n_full), "dim")
    unit = f"of {counted(progress.total, 'prompt token')}"
    return _figure(f"{progress.done:,}", unit, [Text.assemble(*bar)], width)


def _speed(stats: RunStats, width: int) -> Text:
    ratio = stats.speedup if stats.n_drafted else None
    style = "green" if ratio and ratio.ratio >= 1 else "yellow"
    more = [Text(speedup(ratio), style)] if ratio else []
    return _figure(number(stats.tokens_per_s), "tok/s", more, width)


def _drafting(stats: RunStats, width: int, glyphs: Glyphs) -> Iterator[Text]:
    share, sign = percent(stats.acceptance_rate).split()
    recent = percent(stats.recent_acceptance_rate)
    last = Text(f"last {counted(len(stats.recent), 'round')} {recent}")
    yield _figure(share, f"{sign} accepted", [last], width)
    details = [Text(f"k={stats.recent[-1].n_drafted:<2}"), Text(round_times(stats))]
    yield _figure(number(stats.acceptance_length), "tok/pass", details, width)
    yield _bars(stats, width, glyphs)


def _bars(stats: RunStats, width: int, glyphs: Glyphs) -> Text:
    """Acceptance by position in the draft; accepted tokens of each of the last rounds."""
    positions = "".join(glyphs.level(share) for share in stats.acceptance_rate_at)
    first = Text.assemble(("position ", "dim"), positions)
    room = width - _SLACK - max(first.cell_len, _FIGURE_CELLS) - len(_GAP + _ROUNDS)
    history = _history(stats, glyphs)[-max(room, 1) :]
    return _join([first, Text.assemble((_ROUNDS, "dim"), history)], width)


def _history(stats: RunStats, glyphs: Glyphs) -> str:
    most = max(count.n_drafted for count in stats.recent)
    return "".join(
        glyphs.level(count.n_accepted / most) if count.n_drafted else glyphs.dot
        for count in stats.recent
    )


def _reason(reason: str, width: int, glyphs: Glyphs) -> list[Text]:
    cut = f" {glyphs.ellipsis}"
    lines = wrap(f"drafting off: {reason}", width, max_lines=_MAX_REASON_ROWS, placeholder=cut)
    return [Text(line) for line in lines]


def _figure(figure: str, unit: str, more: Sequence[Text], width: int) -> Text:
    first = Text.assemble((f"{figure:>4}", "bold"), " ", (unit, "dim"))
    return _join([first, *more], width)


def _join(cells: Sequence[Text], width: int) -> Text:
    """The first cell as a column of its own, then as many of the others as fit."""
    row = cells[0]
    for cell in cells[1:]:
        gap = " " * max(_FIGURE_CELLS - row.cell_len, 0) + _GAP
        if row.cell_len + len(gap) + cell.cell_len <= width:
            row = row.append(gap).append(cell)
    row.truncate(width)
    return row
