"""Files that a chat reads and writes on the user's word: whole, regular, and of a sane size."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path

from spec_cli.errors import UsageError
from spec_cli.prompt import decode_text

_MAX_BYTES = 16 << 20  # more than any context holds


def read_text(path: Path, *, follow: bool) -> str:
    """The text of a file; through symbolic links only with `follow`. Raises UsageError."""
    flags = os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{path} is not a regular file")
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {_reason(error)}") from None
    if len(data) > _MAX_BYTES:
        raise UsageError(f"{path} has more than {_MAX_BYTES >> 20} MiB")
    return decode_text(data, str(path))


def write_new(path: Path, text: str) -> None:
    """Write a file that was not there and that only the user may read. Raises UsageError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            try:
                file.write(text.encode())
                file.flush()
            except BaseException:
                path.unlink()
                raise
    except FileExistsError:
        if path.is_dir():
            raise UsageError(f"{path} is a directory", hint="name a file in it") from None
        hint = f"use another name, or `/save! {path}` to replace it"
        raise UsageError(f"{path} is there already", hint=hint) from None
    except OSError as error:
        raise UsageError(f"cannot write {path}: {_reason(error)}") from None


def replace_text(path: Path, text: str) -> None:
    """Write a regular file or replace it, all at once; only the user may read it.

    Raises UsageError, also where a symbolic link or a device has that name.
    """
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            what = "a directory" if path.is_dir() else "not a regular file"
            raise UsageError(f"{path} is {what}", hint="use another name")
        with tempfile.NamedTemporaryFile("wb", dir=path.parent, delete=False) as file:
            written = Path(file.name)
            try:
                file.write(text.encode())
                file.flush()
                written.replace(path)
            except BaseException:
                written.unlink()
                raise
    except OSError as error:
        raise UsageError(f"cannot write {path}: {_reason(error)}") from None


def _reason(error: OSError) -> str:
    return "it is a symbolic link" if error.errno == errno.ELOOP else str(error.strerror)
