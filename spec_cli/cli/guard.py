"""The one place where an exception becomes a message and an exit code."""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable
from typing import TextIO, TypeVar

import typer

from spec_cli.cli.log import escaped, redacted
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
        except typer.Exit:
            raise
        except BaseException as error:
            raise typer.Exit(_exit_code(error)) from None

    return run  # type: ignore[return-value]


def exit_code_of(program: Callable[[], object]) -> int:
    """Run the whole `program`; its exit code, all it wrote having reached its streams."""
    code: int = ExitCode.OK
    try:
        try:
            program()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BaseException as error:
        code = _exit_code(error)
    told = _write("")  # what stderr has not taken would give the interpreter's code instead
    return code or told


def _exit_code(error: BaseException) -> int:
    """Tell the user about `error`; the exit code it stands for."""
    if isinstance(error, SystemExit) and isinstance(error.__context__, BrokenPipeError):
        error = error.__context__  # Typer and Rich make an exit with 1 of it
    if isinstance(error, SystemExit):
        if isinstance(error.code, int) or error.code is None:
            return error.code or ExitCode.OK
        show_error(str(error.code), None)
        return ExitCode.UNEXPECTED
    if isinstance(error, BrokenPipeError):
        _silence(sys.stdout)
        return BROKEN_PIPE
    if isinstance(error, (KeyboardInterrupt, Cancelled)):
        return ExitCode.SIGINT
    if isinstance(error, Terminated):
        return 128 + error.signal
    if os.environ.get(DEBUG_VARIABLE):
        _write("".join(traceback.format_exception(error)))
    if isinstance(error, SpecError):
        show_error(error.message, error.hint)
        return error.exit_code
    if isinstance(error, OSError) and error.strerror:
        if error.filename is None:
            _silence(sys.stdout)  # it was a stream
        where = "" if error.filename is None else f" {error.filename}"
        show_error(f"cannot read or write{where}: {error.strerror}", None)
        return ExitCode.UNEXPECTED
    show_error(
        f"unexpected {type(error).__name__}: {error}".removesuffix(": "),
        f"set {DEBUG_VARIABLE}=1 to see where it comes from",
    )
    return ExitCode.UNEXPECTED


def show_error(message: str, hint: str | None) -> None:
    """`error: ...` and `hint: ...` on stderr, control characters made visible."""
    _write(f"error: {message}\n" + (f"hint: {hint}\n" if hint else ""))


def _write(text: str) -> int:
    """Write to stderr, and all that waits there; the exit code of that."""
    if sys.stderr is None:
        return ExitCode.OK
    try:
        sys.stderr.write(escaped(redacted(text)))
        sys.stderr.flush()
    except OSError as error:
        _silence(sys.stderr)  # nobody can be told; the exit code remains
        return BROKEN_PIPE if isinstance(error, BrokenPipeError) else ExitCode.UNEXPECTED
    return ExitCode.OK


def _silence(stream: TextIO | None) -> None:
    """Keep the interpreter's last flush from failing again."""
    if stream is not None:
        discard(stream)
