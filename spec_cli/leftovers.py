"""What work on a file leaves beside it: partial files, and the lock that was held meanwhile.

Those of a download, by us or by the hub's own client, are in the Hugging Face cache. No link is
followed: what is one, or lies behind one, is not found.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from spec_cli.errors import ModelError
from spec_cli.store import lock_path, repo_dir

_PARTIAL = (".incomplete", ".spec-cli.wheels")  # how the names end


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What is left beside one file. `lock` need not be there; None: it is behind a link."""

    partials: tuple[Path, ...]
    lock: Path | None

    def __bool__(self) -> bool:
        return bool(self.partials) or self.has_lock

    @property
    def has_lock(self) -> bool:
        """Whether there is a lock file, held or not."""
        return self.lock is not None and self.lock.is_file()

    @property
    def obstacle(self) -> str | None:
        """Why they cannot be deleted now; None where they can."""
        try:
            with held([self]):
                return None
        except ModelError as error:
            return error.message

    def delete(self) -> None:
        """Delete all of it, and the lock's folder where it is empty then; the lock is held."""
        for partial in self.partials:
            if partial.is_dir():
                shutil.rmtree(partial)
            else:
                partial.unlink(missing_ok=True)
        if self.lock:
            self.lock.unlink(missing_ok=True)
            remove_if_empty(self.lock.parent)


def size_bytes(partial: Path) -> int:
    """The size of a partial file, or of all that is in a directory of partial files."""
    files = partial.rglob("*") if partial.is_dir() else [partial]
    return sum(path.lstat().st_size for path in files if not path.is_dir())


def of_download(cache_dir: Path, repo: str, blob: str) -> Leftovers:
    """Those of fetching the content `blob` of `repo`."""
    lock = lock_path(cache_dir, repo, blob)
    return Leftovers(
        tuple(path for path in _partials(cache_dir, repo) if path.name.startswith(f"{blob}.")),
        lock if _is_own(lock, cache_dir) else None,
    )


def partial_blobs(cache_dir: Path, repo: str) -> set[str]:
    """The contents of `repo` of which a part was fetched."""
    return {path.name.partition(".")[0] for path in _partials(cache_dir, repo)}


@contextmanager
def held(leftovers: Iterable[Leftovers]) -> Iterator[None]:
    """Hold those of their locks that are there. Raises ModelError where one cannot be had."""
    from filelock import FileLock, Timeout  # slow to import

    with ExitStack() as stack:
        for lock in (left.lock for left in leftovers if left.has_lock):
            try:
                stack.enter_context(FileLock(str(lock), timeout=0))
            except Timeout:
                hint = "run the command again when it has ended"
                raise ModelError(f"another process holds the lock {lock}", hint=hint) from None
            except OSError as error:
                raise ModelError(f"cannot take the lock {lock}: {error.strerror}") from None
        yield


def remove_if_empty(directory: Path) -> None:
    """Remove `directory` where it is there, and nothing is in it."""
    if directory.is_dir() and not any(directory.iterdir()):
        directory.rmdir()


def _partials(cache_dir: Path, repo: str) -> list[Path]:
    blobs = repo_dir(cache_dir, repo) / "blobs"
    found = sorted(blobs.iterdir()) if blobs.is_dir() else []
    return [path for path in found if path.name.endswith(_PARTIAL) and _is_own(path, cache_dir)]


def _is_own(path: Path, cache_dir: Path) -> bool:
    """Whether `path` is in the cache itself: no link, and not behind one."""
    place = cache_dir.resolve() / path.parent.relative_to(cache_dir)
    return not path.is_symlink() and path.parent.resolve() == place
