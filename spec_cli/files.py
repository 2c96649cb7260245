"""Small files: read with a limit, shared by processes, written whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from spec_cli.errors import SpecError, UsageError

MAX_INPUT_BYTES = 32 << 20  # more than any context has room for

_PRIVATE = 0o600
_PUBLIC = 0o666  # less what the user's umask takes away


def read_input(path: str | Path, what: str, *, hint: str | None = None) -> bytes:
    """The bytes of a file that the user names, be it a pipe; `what` is its name in errors.

    Raises UsageError, also for more than MAX_INPUT_BYTES: a device may have no end.
    """
    if not str(path):  # a shell variable that is not set
        raise UsageError(f"cannot read {what.rstrip() or 'a file'}: its name is empty", hint=hint)
    try:
        with Path(path).open("rb") as file:
            return read_bounded(file, what)
    except (OSError, ValueError) as error:  # the latter: no file has a NUL in its name
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise UsageError(f"cannot read {what}: {reason}", hint=hint) from None


def is_file(path: Path) -> bool:
    """Whether a file is there; one in a directory that may not be searched is not."""
    try:
        return path.is_file()
    except PermissionError:
        return False


def read_bounded(file: BinaryIO, what: str) -> bytes:
    """All of an open file. Raises OSError, and UsageError as `read_input` does."""
    data = file.read(MAX_INPUT_BYTES + 1)
    if len(data) > MAX_INPUT_BYTES:
        raise UsageError(f"{what} holds more than {MAX_INPUT_BYTES >> 20} MiB")
    return data


@contextmanager
def open_shared(path: Path) -> Iterator[BinaryIO]:
    """A file, made if need be, to read and to append to, while other processes wait for it.

    Raises OSError, also for what is no regular file.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file")
    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def not_written(path: Path, error: OSError) -> SpecError:
    """The error of a file that cannot be appended to, and that the same command continues."""
    return SpecError(
        f"cannot write {path}: {error.strerror}",
        hint="what was finished is in it; run the same command again to continue from there",
    )


def write_whole(path: Path, content: str | bytes, *, private: bool = False) -> None:
    """Put a file with `content` at `path`, in place of what is there; no link is followed.

    `private`: for its owner alone. Raises OSError, and then leaves what was there.
    """
    # A directory beside it: nobody else can name what is in there, and the umask holds.
    with temporary_directory(path.parent) as scratch:
        whole = scratch / path.name
        whole.touch(_PRIVATE if private else _PUBLIC)
        whole.write_bytes(content.encode() if isinstance(content, str) else content)
        whole.replace(path)


@contextmanager
def temporary_directory(parent: Path) -> Iterator[Path]:
    """A directory in `parent`, removed at the end. Raises OSError."""
    with tempfile.TemporaryDirectory(
        prefix=".", suffix=".incomplete", dir=parent, ignore_cleanup_errors=True
    ) as path:
        yield Path(path)
