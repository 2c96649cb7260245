"""The one place where an exception becomes a message and an exit code."""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable
from typing import TypeVar

import typer

from spec_cli.cli.signals import Terminated
from spec_cli.errors import Cancelled, ExitCode, SpecError
from spec_cli.render.stdout import discard

F = TypeVar("F", bound=Callable[..., None])

BROKEN_PIPE = 141  # as a process that SIGPIPE ended
DEBUG_VARIABLE = "SPEC_CLI_DEBUG"


def guarded(command: F) -> F:
    """`command`, with its exceptions rendered; it leaves by `typer.Exit` or normally."""

    @functools.wraps(command)
    def run(*args: object, **kwargs: object) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except (typer.Exit, typer.BadParameter):
            raise
        except BaseException as error:
            raise typer.Exit(_exit_code(error)) from None

    return run  # type: ignore[return-value]


def _exit_code(error: BaseException) -> int:
    """Tell the user about `error`; the exit code it stands for."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else ExitCode.UNEXPECTED
    if isinstance(error, BrokenPipeError):
        discard(sys.stdout)
        return BROKEN_PIPE
    if isinstance(error, (KeyboardInterrupt, Cancelled)):
        return ExitCode.SIGINT
    if isinstance(error, Terminated):
        return ExitCode.SIGTERM
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error)
    if isinstance(error, SpecError):
        show_error(error.message, error.hint)
        return error.exit_code
    show_error(
        f"unexpected {type(error).__name__}: {error}",
        f"set {DEBUG_VARIABLE}=1 to see where it comes from",
    )
    return ExitCode.UNEXPECTED


def show_error(message: str, hint: str | None) -> None:
    """`error: ...` and `hint: ...` on stderr, control characters made visible."""
    lines = [f"error: {message}"] + ([f"hint: {hint}"] if hint else [])
    for line in lines:
        print(_inert(line), file=sys.stderr)


def _inert(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
