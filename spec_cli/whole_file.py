"""Files that appear whole or not at all, and files that nobody else may read."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Self

from spec_cli.errors import SpecError, UsageError

_PRIVATE = 0o600
_PUBLIC = 0o666  # less what the user's umask takes away


class WholeFile:
    """A file written beside its place and moved there by `keep`; without that nothing is left.

    A regular file that is replaced keeps its permissions, unless the new one is to be private, and
    a link to one stays a link. Anything else in its place is refused. Use as a context manager:
    `file` is open in between.
    """

    def __init__(self, path: Path, *, private: bool = False) -> None:
        """`private`: for its owner alone. Raises UsageError when there can be no file at `path`."""
        try:
            self._place = path.resolve(strict=True) if path.is_symlink() else path
            replaced = _mode_of(self._place)
            name = f".{self._place.name}.{secrets.token_hex(4)}.part"
            self._part = self._place.with_name(name)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            number = os.open(self._part, flags, _PRIVATE if private else replaced or _PUBLIC)
        except (OSError, RuntimeError, ValueError) as error:
            raise UsageError(f"cannot write {path}: {_reason(error)}") from None
        self.file: BinaryIO = os.fdopen(number, "wb")
        if replaced is not None and not private:
            os.fchmod(number, replaced)  # whatever the umask
        self._kept = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        with suppress(OSError):  # a full disk: what was kept has been flushed before
            self.file.close()
        if not self._kept:
            self.discard()

    def discard(self) -> None:
        """Remove what was written, if it was not kept: for a process that ends at once."""
        with suppress(OSError):
            self._part.unlink(missing_ok=True)

    def keep(self) -> None:
        """Put what was written in its place, all of it having reached the disk.

        Raises SpecError when that cannot be: the disk is full, or the directory is gone.
        """
        try:
            self.file.flush()
            os.fsync(self.file.fileno())
            self._part.replace(self._place)
        except OSError as error:
            raise SpecError(f"cannot write {self._place}: {_reason(error)}") from None
        self._kept = True


def open_private(path: Path) -> BinaryIO:
    """`path` opened for writing, empty, unbuffered, readable by its owner only, no link followed.

    What two processes write at once stands one after the other. Raises UsageError when it cannot
    be.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        file = os.fdopen(os.open(path, flags, _PRIVATE), "wb", buffering=0)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot write {path}: {_reason(error)}") from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise UsageError(f"cannot write {path}: it is not a regular file")
    os.fchmod(file.fileno(), _PRIVATE)
    file.truncate(0)
    return file


def _mode_of(place: Path) -> int | None:
    """The permissions of the regular file in this place, None where there is no file.

    Raises OSError for a file that is not regular, or may not be written.
    """
    try:
        mode = place.lstat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise OSError(0, "it is not a regular file")
    if not os.access(place, os.W_OK):
        raise OSError(0, "it is write-protected")
    return stat.S_IMODE(mode)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "it is a link"
    return (isinstance(error, OSError) and error.strerror) or str(error)
