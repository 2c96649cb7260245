"""Chat templates, rendered in Jinja's sandbox by a process of its own.

Templates come with model files, and a template is a program: one expression can take all memory,
or hours within a single step of the interpreter, where no timer and no signal is heard.
`python -m spec_cli.template` answers requests, one a line, with little time and memory for each.
"""

from __future__ import annotations

import json
import math
import resource
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from spec_cli.errors import Cancelled
from spec_cli.spec.counts import counted

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

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
        """What `render` gives with `request` as its arguments; their values are those of JSON.

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
            if not line:
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
        [sys.executable, "-P", "-m", "spec_cli.template"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # signals of the terminal are for us
    )


def _ask(process: subprocess.Popen[str], request: str, cancelled: Callable[[], bool]) -> str:
    """The line that answers `request`; empty where the process has ended."""
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


def render(source: str, names: Mapping[str, object], now: str, n_max: int) -> str:
    """The text that the template gives with `names`, of at most `n_max` characters.

    `now`, in ISO format, is the time that the template may tell the model.
    Raises RefusedError or BrokenError.
    """
    environment = _environment()
    environment.filters["tojson"] = _to_json
    environment.globals.update(
        raise_exception=_refuse, strftime_now=datetime.fromisoformat(now).strftime
    )
    with _explained():
        rendered = _join(environment.from_string(source).generate(dict(names)), n_max)
        rendered.encode()  # a template can spell half of a surrogate pair
    return rendered


def variables(source: str) -> list[str]:
    """The names of the variables that the template reads. Raises BrokenError."""
    from jinja2 import meta

    with _explained():
        return sorted(meta.find_undeclared_variables(_environment().parse(source)))


def _environment() -> ImmutableSandboxedEnvironment:
    """Jinja as chat templates expect it, in a sandbox."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )


@contextmanager
def _explained() -> Iterator[None]:
    from jinja2.exceptions import TemplateSyntaxError

    try:
        yield
    except RefusedError:
        raise
    except TemplateSyntaxError as exc:
        raise BrokenError(f"{exc.message} in line {exc.lineno}") from None
    except Exception as exc:  # a template is a program: it can raise anything
        raise BrokenError(f"{type(exc).__name__}: {exc}") from None


def _refuse(message: object) -> NoReturn:
    raise RefusedError(message)


def _to_json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _join(pieces: Iterable[str], n_max: int) -> str:
    n_chars = 0
    kept = []
    for piece in pieces:
        n_chars += len(piece)
        if n_chars > n_max:
            raise OverflowError(f"more than {counted(n_max, 'character')}")
        kept.append(piece)
    return "".join(kept)


def main() -> None:
    """Answer requests until there are no more; one that takes too long ends the process."""
    _limit(resource.RLIMIT_CORE, 0)
    if sys.platform == "linux":  # others do not keep to it
        _limit(resource.RLIMIT_AS, MAX_MEMORY_BYTES)
    for line in sys.stdin:
        _limit(resource.RLIMIT_CPU, math.ceil(time.process_time()) + MAX_CPU_S)
        sys.stdout.write(json.dumps(_answer(json.loads(line))) + "\n")
        sys.stdout.flush()


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        if "variables" in request:
            return {"result": variables(**request["variables"])}
        return {"result": render(**request["render"])}
    except RefusedError as exc:
        return {"refused": _one_line(exc)}
    except BrokenError as exc:
        return {"broken": _one_line(exc)}


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _limit(kind: int, most: int) -> None:
    """Allow `most` of it, or what was allowed to us if that is less."""
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


if __name__ == "__main__":
    main()
