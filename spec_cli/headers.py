"""The headers of models, also of those that are not on this machine: their first bytes are enough.

A model file of the hub is read by range requests, some megabytes of it, and nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from spec_cli import download, hub
from spec_cli.download import Source
from spec_cli.errors import DownloadError, ModelError
from spec_cli.gguf import Header, header_of, read_header
from spec_cli.gguf_file import parse_gguf
from spec_cli.modelref import ModelRef
from spec_cli.store import Slot


def cached_header(ref: ModelRef) -> Header | None:
    """The header of a model that is on this machine; None where it is not, or is not usable."""
    found = download.find_here(ref)
    return usable_header(found.path) if found else None


def usable_header(path: Path) -> Header | None:
    """The header of the model at `path`; None where it is not usable."""
    try:
        return read_header(path)
    except ModelError:
        return None


def find_header(
    ref: ModelRef, *, offline: bool, on_remote: Callable[[str], None]
) -> tuple[Header, bool]:
    """The header of `ref`, and whether it was read from the hub; `on_remote` is told so before.

    Raises ModelError for what is no usable model, and DownloadError where it cannot be read
    without fetching the whole file.
    """
    (plan,) = download.plan([ref], offline=offline)
    if plan.found is not None:
        return read_header(plan.found.path), False
    if plan.source is Source.MIRROR:
        raise DownloadError(
            f"`{ref.name}` is not in the cache, and without the hub no header can be read",
            hint=f"run `spec-cli pull {ref.name}`, then this command again",
        )
    on_remote(f"reading the header of {ref.name} from the hub")
    parts = [parse_gguf(Path(slot.file), _RemoteFile(slot), slot.size_bytes) for slot in plan.slots]
    return header_of(Path(plan.slots[0].file), parts), True


class _RemoteFile:
    """A file of the hub as a reader from its start on; no byte is fetched twice."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._start = b""  # what was fetched: always a prefix of the file
        self._pos = 0

    def seek(self, offset: int) -> None:
        """Go to `offset`."""
        self._pos = offset

    def read(self, n_bytes: int) -> bytes:
        """The next `n_bytes`, or what there is of them. Raises DownloadError."""
        end = min(self._pos + n_bytes, self._slot.size_bytes)
        if end > len(self._start):
            start = len(self._start)
            self._start += hub.read_range(self._slot, start, end - start)
        data = self._start[self._pos : end]
        self._pos += len(data)
        return data
