"""The process's three streams and what each of them can do.

Whether a stream is a terminal is judged for each stream by itself; nothing else in the program
looks at `sys.std*` or at the environment to decide how to print.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True, slots=True)
class Terminal:
    """The standard streams, their terminal-ness, and the user's wishes about colour."""

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    stdin_is_tty: bool
    stdout_is_tty: bool
    stderr_is_tty: bool
    color: bool  # the user allows colour (NO_COLOR, FORCE_COLOR)
    animate: bool  # a live display may be drawn on stderr


def detect(environ: Mapping[str, str] = os.environ) -> Terminal:
    """The terminal of this process. A closed stream counts as no terminal."""
    dumb = environ.get("TERM") == "dumb"
    stderr_is_tty = _is_tty(sys.stderr)
    return Terminal(
        stdin=sys.stdin,
        stdout=sys.stdout,
        stderr=sys.stderr,
        stdin_is_tty=_is_tty(sys.stdin),
        stdout_is_tty=_is_tty(sys.stdout),
        stderr_is_tty=stderr_is_tty,
        color=not environ.get("NO_COLOR") and not dumb,
        animate=stderr_is_tty and not dumb and not environ.get("CI"),
    )


def _is_tty(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # a closed stream
        return False
