"""Commands with their output in a log: calm lines while they run, a usual cause when they fail."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

INSTALL_COMPILER = {
    "xcode-select": "`xcode-select --install`",
    "apt-get": "`sudo apt install build-essential`",
    "dnf": "`sudo dnf install gcc-c++`",
    "zypper": "`sudo zypper install gcc-c++`",
    "pacman": "`sudo pacman -S base-devel`",
    "apk": "`sudo apk add build-base linux-headers`",
}
USUAL_CAUSES = (
    (r"ensurepip is not\s+available", "install it: `sudo apt install python3-venv`"),
    (r"No space left on device", "free some disk space: the build needs about 1 GB"),
    (
        r"(?i)killed signal|compiler error: killed|cannot allocate memory",
        "memory ran out: `CMAKE_BUILD_PARALLEL_LEVEL=1 make setup` compiles one file at a time",
    ),
    (
        r"nvcc (fatal|error)|CMAKE_CUDA_COMPILER|unsupported GNU version",
        "the CUDA toolkit does not work here: `SPEC_CLI_BACKEND=cpu make setup` goes without",
    ),
    (
        r"CMAKE_C(XX)?_COMPILER|is not able to compile a simple|cxx_std_17",
        "a C++17 compiler is needed: {install_compiler}",
    ),
    (
        r"(?i)name resolution|connection (error|refused|reset)|NewConnection|timed out"
        r"|SSLError|No matching distribution|ResolutionImpossible",
        "packages could not be fetched: check the network and `pip config list`",
    ),
)
HALF_A_MINUTE_S = 30.0


class SetupError(Exception):
    """Set-up cannot go on: what happened, what to do next, and the log that tells more."""

    def __init__(self, message: str, *, hint: str | None = None, log: Path | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.log = log


class Console:
    """Lines for the user: the last one redrawn on a terminal, else a new one every half minute."""

    def __init__(self, stream: TextIO, *, animate: bool, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._erase = "\r\x1b[K" if animate else ""
        self._clock = clock
        self._began_s = self._shown_s = clock()

    def say(self, text: str) -> None:
        """Begin something that takes a while."""
        self._began_s = self._shown_s = self._clock()
        print(f"setup: {text}", file=self._stream, flush=True)

    def progress(self, steps: str) -> None:
        """Show how far the thing last said is."""
        now_s = self._clock()
        text = f"setup:   {duration(now_s - self._began_s)} {steps}".rstrip()
        if self._erase:
            print(self._erase + text, end="", file=self._stream, flush=True)
        elif now_s - self._shown_s >= HALF_A_MINUTE_S:
            self._shown_s = now_s
            print(text, file=self._stream, flush=True)

    def erase(self) -> None:
        """Take the progress away."""
        print(self._erase, end="", file=self._stream, flush=True)

    def fail(self, error: SetupError) -> None:
        """Show an error with the end of its log."""
        if error.log:
            print(last_lines(tail(error.log, n_bytes=100_000), 15), file=self._stream)
        print(f"error: {error.message}", file=self._stream)
        if error.hint:
            print(f"hint: {error.hint}", file=self._stream)
        if error.log:
            print(f"log: {error.log}", file=self._stream, flush=True)


def duration(seconds: float) -> str:
    """`75.2` as `1m15s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs commands in one directory and environment, their output appended to one log."""

    directory: Path
    environ: Mapping[str, str]
    log: Path
    console: Console

    def run(self, doing: str, *argv: str | Path, extra: Mapping[str, str] | None = None) -> None:
        """Run a command, with `extra` in its environment.

        Raises SetupError when it fails. However this ends, nothing that it started goes on.
        """
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                argv,
                cwd=self.directory,
                env={**self.environ, **(extra or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._watch(child)
        finally:
            self.console.erase()
            end_group(child)
        if child.returncode:
            hint = usual_cause(tail(self.log, n_bytes=100_000))
            raise SetupError(f"{doing} failed", hint=hint, log=self.log)

    def _watch(self, child: subprocess.Popen[bytes]) -> None:
        while child.poll() is None:
            self.console.progress(build_steps(tail(self.log, n_bytes=20_000)))
            time.sleep(0.1)


def end_group(child: subprocess.Popen[bytes]) -> None:
    """End a command that still runs, with all that it started."""
    if child.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: only zombies left
        os.killpg(child.pid, signal.SIGTERM)
        child.wait()
        for _ in range(50):  # not for ever: a zombie that nobody reaps stays in its group
            os.killpg(child.pid, 0)
            time.sleep(0.1)


def tail(path: Path, *, n_bytes: int) -> str:
    """The end of a text file."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - n_bytes))
        return file.read().decode(errors="replace")


def last_lines(log: str, n_lines: int) -> str:
    """The last lines that say something, cut to a readable width.

    pip's report on a failed build is left out: what failed stands above it.
    """
    said, _, _ = log.partition("error: subprocess-exited-with-error")
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return "\n".join(f"  {line[:160]}" for line in lines[-n_lines:])


def build_steps(log: str) -> str:
    """Ninja's latest `[done/total]`; empty before the first."""
    steps: list[str] = re.findall(r"^\s*(\[\d+/\d+\])", log, re.MULTILINE)
    return steps[-1] if steps else ""


def usual_cause(log: str) -> str | None:
    """What to do about the most common reasons for such a log."""
    hints = (hint for pattern, hint in USUAL_CAUSES if re.search(pattern, log))
    return next((hint.format(install_compiler=install_compiler()) for hint in hints), None)


def install_compiler() -> str:
    """The command that installs a C++ compiler on this system."""
    commands = (command for tool, command in INSTALL_COMPILER.items() if shutil.which(tool))
    return next(commands, "install GCC or Clang")


@contextlib.contextmanager
def exclusive(lock: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a lock that ends with the process; calls `waiting` first when another has it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
