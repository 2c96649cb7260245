"""Work in a process of its own, which can be stopped and may crash: `python -m MODULE ...`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from spec_cli.errors import Cancelled

_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: its exit code, below 0 for a signal, and what it said on stderr."""

    exit_code: int
    lines: tuple[str, ...]


def run_apart(module: str, *arguments: str, cancelled: Callable[[], bool]) -> Ended:
    """Run `module` and wait for its end. Raises Cancelled, and then it is killed."""
    with subprocess.Popen(
        # -P: nothing is imported from the current directory.
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        try:
            told = _wait(process, cancelled)
        finally:
            process.kill()  # whatever ended the wait; nothing when it has ended itself
    lines = (line.strip() for line in told.splitlines())
    return Ended(process.returncode, tuple(line for line in lines if line))


def _wait(process: subprocess.Popen[str], cancelled: Callable[[], bool]) -> str:
    while True:
        try:
            return process.communicate(timeout=_POLL_S)[1]
        except subprocess.TimeoutExpired:
            if cancelled():
                raise Cancelled from None
