"""Small measurements kept between runs, each bound to what it was measured on."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spec_cli.errors import ModelError
from spec_cli.files import temporary_directory, write_whole

REHEARSED, PARALLEL_PLANS = "rehearsed", "parallel-plans"  # kinds that need llama.cpp to be made

_TRIAL_BYTES = 64 << 10  # more than most of what is kept
_FINGERPRINT_BYTES = 1 << 20  # of a model: its header, or most of it

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored value, what it is bound to, its file, and when that was written."""

    path: Path
    saved_ns: int
    key: Mapping[str, Any]
    value: Any


class StateStore:
    """JSON values in a directory, one file per (kind, key), readable by its owner only.

    The whole key is stored with the value, and a file is named for its key. One that cannot be
    read, or that has another key than its name says, is as good as none; one that cannot be
    written is only logged: nothing here is needed. `problem` is for telling the user so.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._was_tried = False

    def problem(self) -> str | None:
        """Why nothing saved here will be kept, found out by writing; None where it will.

        Only the first call tells; later ones give None.
        """
        if self._was_tried:
            return None
        self._was_tried = True
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with temporary_directory(self._directory) as scratch:
                (scratch / "trial").write_bytes(bytes(_TRIAL_BYTES))
        except OSError as error:
            return f"cannot write to {self._directory}: {error.strerror}"
        for path in self._directory.glob("[!.]*"):
            if path.is_dir() and not os.access(path, os.W_OK | os.X_OK):
                return f"cannot write to {path}: {os.strerror(errno.EACCES)}"
        return None

    def load(self, kind: str, key: Mapping[str, Any]) -> Any | None:
        """The value saved for exactly this key, or None."""
        entry = self._entry(kind, self._path(kind, key))
        return entry.value if entry else None

    def save(self, kind: str, key: Mapping[str, Any], value: Any) -> None:
        """Keep `value`; it appears whole or not at all."""
        path = self._path(kind, key)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            text = json.dumps({"key": dict(key), "value": value}, indent=1)
            write_whole(path, text, private=True)
        except OSError as error:
            _log.warning("cannot save %s: %s", path, error)

    def entries(self, kind: str, part: Mapping[str, Any]) -> list[Entry]:
        """What is stored under keys that have all of `part`, the newest first."""
        paths = (self._directory / kind).glob("*.json")
        entries = [entry for path in paths if (entry := self._entry(kind, path))]
        found = [entry for entry in entries if dict(part).items() <= entry.key.items()]
        return sorted(found, key=lambda entry: entry.saved_ns, reverse=True)

    def _entry(self, kind: str, path: Path) -> Entry | None:
        try:
            stored = json.loads(path.read_text())
            entry = Entry(path, path.stat().st_mtime_ns, dict(stored["key"]), stored["value"])
            return entry if path == self._path(kind, entry.key) else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def _path(self, kind: str, key: Mapping[str, Any]) -> Path:
        digest = hashlib.sha256(json.dumps(dict(key), sort_keys=True).encode()).hexdigest()
        return self._directory / kind / f"{digest[:24]}.json"


def file_fingerprint(path: Path) -> dict[str, Any]:
    """What tells a model from another wherever its file is: size, time of change, beginning.

    Raises ModelError as `file_identity` does.
    """
    identity = file_identity(path)
    del identity["file"]
    try:
        with path.open("rb") as file:
            beginning = hashlib.sha256(file.read(_FINGERPRINT_BYTES)).hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from None
    return {**identity, "beginning": beginning}


def file_identity(path: Path) -> dict[str, Any]:
    """What tells a model from another without reading it: name, size and time of change.

    Raises ModelError when it has gone in the meantime.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from None
    return {"file": path.name, "size_bytes": status.st_size, "mtime_ns": status.st_mtime_ns}


def _unreadable(path: Path, error: OSError) -> ModelError:
    return ModelError(f"cannot read the model file `{path}`: {error.strerror}")
