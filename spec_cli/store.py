"""A model file's place in the Hugging Face cache, laid out as the hub's own client does.

    models--user--repo/blobs/<sha256>                the content
    models--user--repo/snapshots/<commit>/x.gguf     a relative link to it
    models--user--repo/refs/main                     the commit that a branch stood at

A file is fetched into a partial file beside its blob, so that putting it in place is a rename.
The names of what is left of an interrupted fetch end in `.incomplete`, which `hf cache prune`
removes.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from spec_cli.errors import DownloadError
from spec_cli.files import write_whole
from spec_cli.spec.counts import counted

_LOCK_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of one file. `blob` is its SHA-256 (Git's SHA-1 for a file outside Git LFS)."""

    cache_dir: Path
    repo: str
    revision: str
    file: str
    blob: str
    size_bytes: int

    @property
    def sha256(self) -> str | None:
        """The SHA-256 of the content, where it is known."""
        return self.blob if _is_sha256(self.blob) else None

    @property
    def blob_path(self) -> Path:
        """The content."""
        return repo_dir(self.cache_dir, self.repo) / "blobs" / self.blob

    @property
    def path(self) -> Path:
        """The file under its own name."""
        return repo_dir(self.cache_dir, self.repo) / "snapshots" / self.revision / self.file

    @property
    def partial_path(self) -> Path:
        """What has been fetched so far: always a prefix of the content."""
        return self.blob_path.with_name(f"{self.blob}.spec-cli.incomplete")

    @property
    def journal_path(self) -> Path:
        """What the mirror remembers about `partial_path`."""
        return self.blob_path.with_name(f"{self.blob}.spec-cli-parts.incomplete")

    @property
    def lock_path(self) -> Path:
        """The lock that the hub's own client takes for this blob, too."""
        return lock_path(self.cache_dir, self.repo, self.blob)

    @property
    def is_filled(self) -> bool:
        """Whether the file is in its place."""
        return _size(self.path) == self.size_bytes

    @property
    def has_blob(self) -> bool:
        """Whether the content is here, perhaps under another name or revision."""
        return _size(self.blob_path) == self.size_bytes

    @property
    def missing_bytes(self) -> int:
        """How much is still to be fetched."""
        if self.is_filled or self.has_blob:
            return 0
        return self.size_bytes - min(_size(self.partial_path) or 0, self.size_bytes)


def repo_dir(cache_dir: Path, repo: str) -> Path:
    """The folder of `repo`."""
    return cache_dir / "--".join(["models", *repo.split("/")])


def lock_path(cache_dir: Path, repo: str, blob: str) -> Path:
    """The lock of the content `blob` of `repo`."""
    return cache_dir / ".locks" / repo_dir(Path(), repo) / f"{blob}.lock"


def commit_of(cache_dir: Path, repo: str, revision: str) -> str:
    """The commit that the branch `revision` stood at when it was last fetched.

    `revision` itself when there is no such branch: then it is a commit.
    """
    ref = repo_dir(cache_dir, repo) / "refs" / revision
    return ref.read_text(errors="replace").strip() if ref.is_file() else revision


def snapshot_files(cache_dir: Path, repo: str, commit: str) -> dict[str, Path]:
    """The files of `repo` at `commit` that are in the cache, by their path in the repository."""
    root = repo_dir(cache_dir, repo) / "snapshots" / commit
    paths = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path for path in paths}


def has_files(cache_dir: Path, repo: str) -> bool:
    """Whether any file of `repo` is in the cache, at whatever commit."""
    snapshots = repo_dir(cache_dir, repo) / "snapshots"
    return any(path.is_file() for path in snapshots.rglob("*"))


def commit_with(cache_dir: Path, repo: str, file: str, blob: str) -> str | None:
    """A commit of `repo` in the cache at which the content of `file` is `blob`."""
    for snapshot in sorted((repo_dir(cache_dir, repo) / "snapshots").glob("*")):
        path = snapshot / file
        if path.is_symlink() and path.readlink().name == blob and path.is_file():
            return snapshot.name
    return None


def blob_of(path: Path) -> str | None:
    """The name of the content that a file of the cache links to; None where it is no link."""
    return path.readlink().name if path.is_symlink() else None


def sha256_of(path: Path) -> str | None:
    """The SHA-256 of a file of the cache, told by the blob that it links to."""
    blob = blob_of(path)
    return blob if blob and _is_sha256(blob) else None


@contextmanager
def locked(slot: Slot, on_wait: Callable[[int], None]) -> Iterator[None]:
    """Hold the lock of `slot`, which only one process at a time fetches.

    While another one does, `on_wait` is told now and then how many bytes that one has.
    """
    from filelock import FileLock, Timeout  # slow to import

    slot.lock_path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(slot.lock_path, mode=0o664)
    while True:
        try:
            lock.acquire(timeout=_LOCK_POLL_S)
            break
        except Timeout:
            on_wait(slot.size_bytes - slot.missing_bytes)
    try:
        yield
    finally:
        lock.release()


def open_partial(slot: Slot) -> BinaryIO:
    """The partial file of `slot`, made if need be; never what a link of its name leads to."""
    slot.partial_path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    return os.fdopen(os.open(slot.partial_path, flags, mode=0o666), "r+b")


def place(slot: Slot, branch: str | None) -> None:
    """Check the fetched partial file of `slot` and put it in its place.

    `branch` now stands at the commit of `slot`. Without one, `main` does if it is not known yet.
    Raises DownloadError and removes the partial file when its size or SHA-256 is wrong.
    """
    if not slot.has_blob:
        _verify(slot)
        slot.partial_path.replace(slot.blob_path)
        slot.journal_path.unlink(missing_ok=True)
    _link(slot)
    _write_ref(slot, branch)


def discard(slot: Slot) -> None:
    """Remove what has been fetched of `slot`."""
    slot.partial_path.unlink(missing_ok=True)
    slot.journal_path.unlink(missing_ok=True)


def require_space(directory: Path, needed_bytes: int) -> None:
    """Raise DownloadError when the disk of `directory` has less than `needed_bytes` free."""
    free_bytes = free_space(directory)
    if free_bytes < needed_bytes:
        raise DownloadError(
            f"the download needs {needed_bytes / 1e9:.2f} GB and {directory} has "
            f"{free_bytes / 1e9:.2f} GB free",
            hint="free some space, or set `HF_HOME` to a directory on a larger disk",
        )


def free_space(directory: Path) -> int:
    """Free bytes on the disk of `directory`, which need not exist yet."""
    existing = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    return shutil.disk_usage(existing).free


def _verify(slot: Slot) -> None:
    size_bytes = _size(slot.partial_path) or 0
    if size_bytes != slot.size_bytes:
        discard(slot)
        raise DownloadError(
            f"`{slot.file}` has {counted(size_bytes, 'byte')} instead of {slot.size_bytes:,}",
            hint="run the command again to fetch it anew",
        )
    if slot.sha256 is None:
        return
    with slot.partial_path.open("rb") as partial:
        digest = hashlib.file_digest(partial, "sha256").hexdigest()
        os.fsync(partial.fileno())
    if digest != slot.sha256:
        discard(slot)
        raise DownloadError(
            f"`{slot.file}` has the SHA-256 {digest[:12]}… instead of {slot.sha256[:12]}…",
            hint="run the command again to fetch it anew",
        )


def _link(slot: Slot) -> None:
    if slot.is_filled:
        return
    slot.path.parent.mkdir(parents=True, exist_ok=True)
    slot.path.unlink(missing_ok=True)
    try:
        slot.path.symlink_to(os.path.relpath(slot.blob_path, slot.path.parent))
    except OSError:
        # No symbolic links on this file system: the hub's client then moves the file, too.
        slot.blob_path.replace(slot.path)


def _write_ref(slot: Slot, branch: str | None) -> None:
    path = repo_dir(slot.cache_dir, slot.repo) / "refs" / (branch or "main")
    if branch is None and path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, slot.revision)


def _is_sha256(blob: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{64}", blob) is not None


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None
