"""A measurement as a picture: gain by kind, acceptance by position, and the verify curve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import cycle
from math import ceil, floor, log10
from pathlib import Path

from spec_cli.bench.matrix import Arm
from spec_cli.bench.report import Report
from spec_cli.errors import UsageError
from spec_cli.files import write_whole
from spec_cli.render.canvas import Canvas, Point
from spec_cli.render.canvas_svg import SvgCanvas
from spec_cli.render.inert import one_line
from spec_cli.spec.costs import PassTimes

# Okabe and Ito's colours, distinct to colour-blind readers; grey for black, which hides intervals.
_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999")
_GREY = "#888888"
_WIDTH, _PANEL, _LEFT, _TOP, _LEGEND = 840.0, 220.0, 60.0, 40.0, 18.0
_GAP = 70.0
_MAX_TICKS = 5


@dataclass(frozen=True, slots=True)
class _Series:
    """An arm at a temperature, and its colour."""

    arm: Arm
    temp: float
    color: str
    name: str


@dataclass(frozen=True, slots=True)
class _Panel:
    """A place for a chart, `n` columns wide and from 0 to `highest` high, or a little more."""

    canvas: Canvas
    top: float
    highest: float
    n: int

    @property
    def step(self) -> float:
        """The distance between ticks: 1, 2 or 5 times a power of ten."""
        least = self.highest / _MAX_TICKS
        power = 10.0 ** floor(log10(least))
        return next(step for base in (1, 2, 5, 10) if (step := base * power) >= least)

    @property
    def n_ticks(self) -> int:
        """The ticks above 0, up to the first that is as high as `highest`."""
        return ceil(round(self.highest / self.step, 9))

    def x(self, column: float) -> float:
        return _LEFT + (_WIDTH - 2 * _LEFT) * column / self.n

    def y(self, value: float) -> float:
        return self.top + _PANEL * (1 - value / (self.n_ticks * self.step))

    def frame(self, title: str, labels: Sequence[str], tick: str) -> None:
        """The title, the axes, a label under each column and `tick` formats beside the left."""
        self.canvas.text((_LEFT, self.top - 12), title, bold=True)
        self.canvas.line([(_LEFT, self.y(0)), (_WIDTH - _LEFT, self.y(0))], _GREY)
        for i in range(self.n_ticks + 1):
            value = i * self.step
            at = (_LEFT - 6, self.y(value) + 4)
            self.canvas.text(at, tick.format(value), anchor="end")
        for i, label in enumerate(labels):
            at = (self.x(i + 0.5), self.y(0) + 16)
            self.canvas.text(at, label, anchor="middle")

    def curve(self, values: Sequence[float], color: str) -> None:
        points: list[Point] = [(self.x(i + 0.5), self.y(v)) for i, v in enumerate(values)]
        self.canvas.line(points, color)
        for point in points:
            self.canvas.dot(point, color)


def check_plot(path: Path) -> None:
    """Raise UsageError when no picture can be written to `path`."""
    suffix = path.suffix.lower()
    if suffix not in (".svg", ".png"):
        named = path.with_suffix(".svg") if path.name else path / "bench.svg"
        raise UsageError(
            f"--plot writes SVG or PNG, and {path} ends in neither `.svg` nor `.png`",
            hint=f"use `--plot {named}`",
        )
    if suffix == ".png" and find_spec("PIL") is None:
        raise UsageError(
            "a PNG picture takes the package `pillow`, which is not installed",
            hint=f"use `--plot {path.with_suffix('.svg')}`, or `pip install pillow`",
        )
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {path}: {path.parent} is not a directory")
    if path.is_dir():
        raise UsageError(f"cannot write {path}: it is a directory")


def write_plot(path: Path, report: Report, times: PassTimes | None) -> None:
    """Write the picture, whole or not at all. Raises UsageError when that fails."""
    try:
        write_whole(path, plot(report, times, _canvas_for(path)).data())
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def _canvas_for(path: Path) -> Callable[[float, float], Canvas]:
    if path.suffix.lower() == ".svg":
        return SvgCanvas
    from spec_cli.render.canvas_png import PngCanvas  # pillow need not be installed

    return PngCanvas


def plot(
    report: Report, times: PassTimes | None, new_canvas: Callable[[float, float], Canvas]
) -> Canvas:
    """The picture; `times` are those of the target's passes, None where unknown."""
    series = _series(report)
    first = _TOP + _LEGEND * len(series) + 20
    n_panels = 2 if times is None else 3
    canvas = new_canvas(_WIDTH, first + n_panels * (_PANEL + _GAP))
    for i, one in enumerate(series):
        top = _TOP - 20 + _LEGEND * i
        canvas.bar(_LEFT, top, 12, 12, one.color)
        canvas.text((_LEFT + 18, top + 11), one.name)
    _kinds(canvas, first, report, series)
    _positions(canvas, first + _PANEL + _GAP, report, series)
    if times is not None:
        _verify_curve(canvas, first + 2 * (_PANEL + _GAP), times)
    return canvas


def _series(report: Report) -> list[_Series]:
    temps = report.matrix.temps
    shown = [(arm, t) for t in temps for arm in report.matrix.arms_at(t)]
    names = [f"{a.name}, temp {t:g}" if len(temps) > 1 else a.name for a, t in shown]
    return [
        _Series(arm, temp, color, name)
        for (arm, temp), name, color in zip(shown, names, cycle(_COLORS), strict=False)
    ]


def _kinds(canvas: Canvas, top: float, report: Report, series: Sequence[_Series]) -> None:
    """Bars with their intervals; the dashed line is plain decoding."""
    kinds = [None, *report.kinds] if len(report.kinds) > 1 else [None]
    scores = [[report.score(one.arm, one.temp, kind) for one in series] for kind in kinds]
    found = [score.speedup for of_kind in scores for score in of_kind if score]
    highest = max((e.high or e.mean for e in found), default=1.0)
    panel = _Panel(canvas, top, max(highest, 1.0), len(kinds))
    labels = ["all" if kind is None else one_line(kind) for kind in kinds]
    panel.frame("speed-up over plain decoding, with 95 % intervals", labels, "{:g}x")
    step = 0.8 / max(len(series), 1)
    for i, of_kind in enumerate(scores):
        for j, (one, score) in enumerate(zip(series, of_kind, strict=True)):
            if score is None:
                continue
            left, right = (panel.x(i + 0.1 + step * at) for at in (j, j + 0.9))
            y = panel.y(score.speedup.mean)
            canvas.bar(left, y, right - left, panel.y(0) - y, one.color)
            if score.speedup.low is not None and score.speedup.high is not None:
                x = (left + right) / 2
                ends = (panel.y(score.speedup.low), panel.y(score.speedup.high))
                canvas.line([(x, ends[0]), (x, ends[1])], "#333333")
    canvas.line([(_LEFT, panel.y(1)), (_WIDTH - _LEFT, panel.y(1))], "#333333", dashed=True)


def _positions(canvas: Canvas, top: float, report: Report, series: Sequence[_Series]) -> None:
    figures = [report.figures(one.arm, one.temp) for one in series]
    n = max((len(f.acceptance_at) for f in figures if f), default=0)
    panel = _Panel(canvas, top, 100.0, max(n, 1))
    labels = [str(i + 1) for i in range(n)]
    panel.frame("draft tokens accepted, by their position in the draft", labels, "{:g} %")
    for one, found in zip(series, figures, strict=True):
        if found:
            panel.curve([100 * rate for rate in found.acceptance_at], one.color)


def _verify_curve(canvas: Canvas, top: float, times: PassTimes) -> None:
    relative = [times(width) / times(1) for width in times.widths]
    panel = _Panel(canvas, top, max(relative), len(relative))
    labels = [str(width) for width in times.widths]
    panel.frame("time of a target pass by its rows, over that of one row", labels, "{:g}")
    panel.curve(relative, _COLORS[0])
