"""The process's three streams and what each of them can do.

Whether a stream is a terminal is judged for each stream by itself; nothing else in the program
looks at `sys.std*` or at the environment to decide how to print.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO, cast


class ColorMode(StrEnum):
    """When to use colour. `auto`: on terminals, as `NO_COLOR` and `FORCE_COLOR` have it."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Terminal:
    """The standard streams, their terminal-ness, and the user's wishes about colour."""

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO  # raises nothing: what cannot be written is lost
    stdin_is_tty: bool
    stdout_is_tty: bool
    stderr_is_tty: bool
    color: bool  # the user allows colour
    animate: bool  # a live display may be drawn on stderr
    color_anywhere: bool = False  # the user wants it on streams that are no terminals, too

    def stderr_size(self) -> os.terminal_size:
        """Of stderr, a terminal; one that does not know its size (0 x 0) counts as 80 x 24."""
        columns, lines = os.get_terminal_size(self.stderr.fileno())
        return os.terminal_size((columns or 80, lines or 24))

    @property
    def stdout_color(self) -> bool:
        """Whether to write colours to stdout."""
        return self.color and (self.stdout_is_tty or self.color_anywhere)

    @property
    def stderr_color(self) -> bool:
        """Whether to write colours to stderr."""
        return self.color and (self.stderr_is_tty or self.color_anywhere)


def detect(
    color: ColorMode = ColorMode.AUTO,
    *,
    animate: bool = True,
    environ: Mapping[str, str] = os.environ,
) -> Terminal:
    """The terminal of this process. A stream that was closed at its start is as good as empty.

    Of the environment, `NO_COLOR` prevails over `FORCE_COLOR`, and both over `TERM=dumb`.
    """
    dumb = environ.get("TERM") == "dumb"
    if color is ColorMode.AUTO:
        forced = bool(environ.get("FORCE_COLOR")) and not environ.get("NO_COLOR")
        allowed = forced or not (environ.get("NO_COLOR") or dumb)
    else:
        forced = allowed = color is ColorMode.ALWAYS
    stdin, stdout = _open(sys.stdin, "r"), _open(sys.stdout, "w")
    stderr = cast(TextIO, _Lossy(_open(sys.stderr, "w")))
    _as_utf_8(stdout)
    stderr_is_tty = stderr.isatty()
    return Terminal(
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        stdin_is_tty=stdin.isatty(),
        stdout_is_tty=stdout.isatty(),
        stderr_is_tty=stderr_is_tty,
        color=allowed,
        animate=animate and stderr_is_tty and not dumb and not environ.get("CI"),
        color_anywhere=forced,
    )


class _Lossy:
    """A stream that loses what it cannot write: a full disk under stderr costs no answer."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def _open(stream: TextIO | None, mode: str) -> TextIO:
    """`stream`, or nothing to read from or write to where the process was started without it."""
    return stream if stream is not None else cast(TextIO, Path(os.devnull).open(mode))


def _as_utf_8(stream: TextIO) -> None:
    """From now on `stream` takes any text and any path, whatever the locale says."""
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")
