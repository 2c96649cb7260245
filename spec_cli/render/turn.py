"""What one answer of a chat took, in one line on standard error."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TextIO

from rich.cells import cell_len
from rich.style import Style

from spec_cli.events import Event, Finished, FinishReason
from spec_cli.render.base import Renderer
from spec_cli.render.info import RunInfo
from spec_cli.render.style import DIM, number, percent, rendered, seconds, speedup
from spec_cli.render.summary import ENDS

_GAP = "; "


class TurnLine(Renderer):
    """Prints the line when the answer has ended."""

    def __init__(
        self,
        stderr: TextIO,
        info: RunInfo,
        *,
        styled: bool,
        size: Callable[[], os.terminal_size] | None,
    ) -> None:
        """`styled`: dim, beside the text; `size`: of the terminal, None where it is none."""
        self._stderr = stderr
        self._info = info
        self._style = DIM if styled else Style()
        self._size = size

    def handle(self, event: Event) -> None:
        """Print at the end."""
        if isinstance(event, Finished):
            columns = self._size().columns if self._size else None
            line = turn_line(self._info, event, columns)
            self._stderr.write(f"{rendered(line, self._style)}\n")
            self._stderr.flush()


def turn_line(info: RunInfo, finished: Finished, width: int | None) -> str:
    """As many of the figures as fit into `width` cells, the most telling first; None: all."""
    line, *others = _figures(info, finished)
    for figure in others:
        if width is not None and cell_len(line + _GAP + figure) > width:
            break
        line += _GAP + figure
    return line


def _figures(info: RunInfo, finished: Finished) -> Iterator[str]:
    stats = finished.stats
    speed = f"{number(stats.tokens_per_s)} tok/s"
    yield f"{speed}, {speedup(stats.speedup)}" if stats.n_drafted and stats.speedup else speed
    if finished.reason is not FinishReason.STOP:
        yield ENDS.get(finished.reason, "stop string")
    if stats.n_drafted:
        yield f"{percent(stats.acceptance_rate)} accepted"
    kept = f", {stats.n_cached:,} kept" if stats.n_cached else ""
    yield f"prompt {stats.n_prompt:,}{kept}, {seconds(stats.prefill_s)}"
    yield f"context {percent((stats.n_prompt + stats.n_emitted) / info.n_ctx)}"
    if info.accept != "greedy":
        yield f"seed {info.seed}"
