"""Every error the user can meet: what happened, what to type next, and the exit code.

Errors are raised where the fact is known and rendered in one place, `cli/guard.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import ClassVar

from spec_cli.names import nearest


class ExitCode(IntEnum):
    """Exit codes of the `spec-cli` process."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    MODEL = 3
    DOWNLOAD = 4
    PAIR = 5
    RESOURCE = 6
    CHECK = 7
    SIGHUP = 129
    SIGINT = 130
    SIGTERM = 143


class SpecError(Exception):
    """A failure with a message for the user and, where there is one, a hint: what to do next.

    `message` is one sentence without a final full stop; `hint` is an action, commands in backticks.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.UNEXPECTED

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(SpecError):
    """The command line, a setting or the prompt cannot be used as given."""

    exit_code = ExitCode.USAGE


def wrong_value(name: str, value: object, wanted: str, *, hint: str | None = None) -> UsageError:
    """The error of an option, a setting or a field whose value is not `wanted`."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    shown = f"`{text}`" if isinstance(value, str) else text
    return UsageError(f"{name} is {shown}, but must be {wanted}", hint=hint)


def wrong_word(name: str, word: object, choices: Iterable[str]) -> UsageError:
    """The error of an option, a setting or a field that is none of `choices`."""
    known = [*choices]
    near = nearest(str(word), known)
    hint = f"did you mean `{near}`?" if near else None
    return wrong_value(name, word, one_of(known), hint=hint)


def one_of(choices: Iterable[str]) -> str:
    """What a value must be that is a word among few."""
    return "one of " + ", ".join(f"`{choice}`" for choice in choices)


class ModelError(SpecError):
    """A model name is unknown, or a file is not a usable model."""

    exit_code = ExitCode.MODEL


class DownloadError(SpecError):
    """A model could not be fetched: offline, not found, gated, corrupt, or no disk space."""

    exit_code = ExitCode.DOWNLOAD


class PairError(SpecError):
    """Target and draft do not speak the same tokens."""

    exit_code = ExitCode.PAIR


class ResourceError(SpecError):
    """Not enough memory, or the device asked for is not there."""

    exit_code = ExitCode.RESOURCE


class CheckError(SpecError):
    """A check that the user asked for failed."""

    exit_code = ExitCode.CHECK


class Cancelled(Exception):
    """A native call was aborted because the user asked to stop; never shown as an error."""
