"""How far a measurement is: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.progress import MofNCompleteColumn, TextColumn

from spec_cli.bench.runner import Step
from spec_cli.render.bar import bar, progress_line
from spec_cli.render.inert import one_line
from spec_cli.terminal import Terminal


class BenchProgress:
    """Shows the steps of a measurement on stderr. Used as a context manager around it."""

    def __init__(self, terminal: Terminal) -> None:
        left = TextColumn("{task.fields[left]}")
        self._bar = progress_line(
            terminal, bar(), MofNCompleteColumn(), left, disable=not terminal.animate
        )
        self._task = self._bar.add_task("", total=None, left="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def show(self, step: Step) -> None:
        """Show `step`."""
        self._bar.update(
            self._task,
            description=one_line(step.what),
            completed=step.n_done,
            total=step.n_runs,
            left="" if step.left_s is None else time_left(step.left_s),
        )


def time_left(left_s: float) -> str:
    """`40 s left`, `12 min left`, `2.5 h left`."""
    if left_s < 90:
        return f"{left_s:.0f} s left"
    if left_s < 90 * 60:
        return f"{left_s / 60:.0f} min left"
    return f"{left_s / 3600:.1f} h left"
