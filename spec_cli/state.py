"""Small measurements kept between runs, each bound to what it was measured on."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spec_cli.files import write_whole

_log = logging.getLogger(__name__)


class StateStore:
    """JSON values in a directory, one file per (kind, key).

    The whole key is stored with the value and compared on load. A file that cannot be read is
    as good as none, and one that cannot be written is only logged: nothing here is needed.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def load(self, kind: str, key: Mapping[str, Any]) -> Any | None:
        """The value saved for exactly this key, or None."""
        try:
            entry = json.loads(self._path(kind, key).read_text())
            return entry["value"] if entry["key"] == dict(key) else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def save(self, kind: str, key: Mapping[str, Any], value: Any) -> None:
        """Keep `value`; it appears whole or not at all."""
        path = self._path(kind, key)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(path, json.dumps({"key": dict(key), "value": value}, indent=1))
        except OSError as error:
            _log.warning("cannot save %s: %s", path, error)

    def _path(self, kind: str, key: Mapping[str, Any]) -> Path:
        digest = hashlib.sha256(json.dumps(dict(key), sort_keys=True).encode()).hexdigest()
        return self._directory / kind / f"{digest[:24]}.json"


def file_identity(path: Path) -> dict[str, Any]:
    """What tells a file from another without reading it: name, size and time of change."""
    status = path.stat()
    return {"file": path.name, "size_bytes": status.st_size, "mtime_ns": status.st_mtime_ns}
