"""Lines of progress: one row each, with what matters most on a narrow terminal."""

from __future__ import annotations

import os
import pty
from collections.abc import Callable
from contextlib import AbstractContextManager

import pyte
import pytest

from spec_cli.bench.runner import Step
from spec_cli.download import Progress, Source
from spec_cli.render.bench_progress import BenchProgress
from spec_cli.render.download import DownloadDisplay
from spec_cli.render.status import Status
from spec_cli.terminal import Terminal

Make = Callable[[Terminal], AbstractContextManager[object]]


def first_frame(make: Make, columns: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The rows that are on a terminal of so many columns as soon as the line is shown."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    screen = pyte.Screen(columns, 5)
    with os.fdopen(ours, "rb") as seen, os.fdopen(theirs, "w", encoding="utf-8") as stderr:
        terminal = Terminal(stderr, stderr, stderr, False, False, True, False, True)
        with make(terminal):
            pyte.ByteStream(screen).feed(os.read(seen.fileno(), 1 << 16))
    return [row.rstrip() for row in screen.display if row.strip()]


def doing(terminal: Terminal) -> Status:
    status = Status(terminal, quiet=False)
    status.show("measuring [what] a pass of the target takes", 0.4)
    return status


def measuring(terminal: Terminal) -> BenchProgress:
    progress = BenchProgress(terminal)
    progress.show(Step("summarise-library, temp 0.8, k=auto", 12, 336, 3000.0))
    return progress


def downloading(terminal: Terminal) -> DownloadDisplay:
    display = DownloadDisplay(terminal)
    display.show(Progress("qwen2.5-coder-1.5b-instruct.gguf", 0, 1_600_000_000, Source.HUB))
    return display


@pytest.mark.parametrize(
    ("make", "columns", "shown"),
    [
        (doing, 20, ["measuring [what] …"]),
        (doing, 80, ["measuring [what] a pass of the target takes  40%"]),
        (measuring, 40, ["summarise-library", "12/336", "50 min left"]),
        (measuring, 80, ["summarise-library, temp 0.8, k=auto", "12/336", "50 min left"]),
        (downloading, 40, ["0.0/1.6 GB", "hub"]),
        (downloading, 100, ["qwen2.5-coder-1.5b-instruct.gguf", "0.0/1.6 GB", "hub"]),
    ],
)
def test_progress_is_one_row(
    make: Make, columns: int, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (row,) = first_frame(make, columns, monkeypatch)
    assert all(text in row for text in shown), row
