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
    """How a process ended: its exit code, below 0 for a signal, and what it wrote."""

    exit_code: int
    output: str
    errors: tuple[str, ...]  # the lines on stderr

    @property
    def reason(self) -> str:
        """Why it failed: what a crash wrote first, or an error last."""
        if self.errors:
            return self.errors[0 if self.exit_code < 0 else -1]
        if self.exit_code < 0:
            return f"the process was ended by signal {-self.exit_code}"
        return f"the process ended with exit code {self.exit_code}"


def run_apart(module: str, *arguments: str, cancelled: Callable[[], bool]) -> Ended:
    """Run `module` and wait for its end. Raises Cancelled, and then it runs no more."""
    with subprocess.Popen(
        # -P: nothing is imported from the current directory.
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        try:
            output, errors = _wait(process, cancelled)
        finally:
            process.kill()  # whatever ended the wait; nothing when it has ended itself
    if process.returncode != 0 and cancelled():
        raise Cancelled  # Ctrl-C goes to both processes: it may have ended this one first
    lines = (line.strip() for line in errors.splitlines())
    return Ended(process.returncode, output, tuple(line for line in lines if line))


def _wait(process: subprocess.Popen[str], cancelled: Callable[[], bool]) -> tuple[str, str]:
    while True:
        try:
            return process.communicate(timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            if cancelled():
                raise Cancelled from None
