"""Chat templates, rendered in Jinja's sandbox by a process of its own.

Templates come with model files, and a template is a program: one expression can take all memory,
or hours within a single step of the interpreter, where no timer and no signal is heard.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from spec_cli.errors import Cancelled

MAX_CPU_S = 3
MAX_MEMORY_BYTES = 2 << 30
_POLL_S = 0.05


class RefusedError(Exception):
    """A template called `raise_exception`."""


class BrokenError(Exception):
    """A template does not work."""


class TemplateProcess:
    """The process, started with the first request and again after one that ended it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def render(self, request: Mapping[str, Any], cancelled: Callable[[], bool]) -> str:
        """What the renderer gives with `request` as its arguments, all of which JSON can write.

        Raises RefusedError, BrokenError or Cancelled.
        """
        return str(self._do({"render": request}, cancelled))

    def variables(self, source: str) -> set[str]:
        """The names of the variables that the template reads. Raises BrokenError."""
        return set(self._do({"variables": {"source": source}}, lambda: False))

    def _do(self, request: Mapping[str, Any], cancelled: Callable[[], bool]) -> Any:
        with self._lock:
            process = self._process = self._process or _start()
            try:
                line = _ask(process, json.dumps(request), cancelled)
            except BaseException:
                self._stop(process)
                raise
            if not line.endswith("\n"):
                self._stop(process)
                raise BrokenError(f"it takes more than {MAX_CPU_S} s, or too much memory")
        return _told(json.loads(line))

    def _stop(self, process: subprocess.Popen[str]) -> None:
        self._process = None
        process.kill()
        process.communicate()


@cache
def template_process() -> TemplateProcess:
    """The one of this process."""
    return TemplateProcess()


def _start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        # -P: nothing is imported from the current directory.
        [sys.executable, "-P", "-m", "spec_cli.template_renderer"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # signals of the terminal are for us
    )


def _ask(process: subprocess.Popen[str], request: str, cancelled: Callable[[], bool]) -> str:
    """The line that answers `request`; cut short or empty where the process has ended."""
    assert process.stdin is not None and process.stdout is not None
    with suppress(BrokenPipeError):  # then it has ended, and that is what is read below
        process.stdin.write(f"{request}\n")
        process.stdin.flush()
    while not select.select([process.stdout], [], [], _POLL_S)[0]:
        if cancelled():
            raise Cancelled
    return process.stdout.readline()


def _told(answer: Mapping[str, Any]) -> Any:
    if "refused" in answer:
        raise RefusedError(answer["refused"])
    if "broken" in answer:
        raise BrokenError(answer["broken"])
    return answer["result"]
