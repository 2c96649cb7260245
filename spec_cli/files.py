"""Files that are whole or not there."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PRIVATE = 0o600
_PUBLIC = 0o666  # less what the user's umask takes away


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
