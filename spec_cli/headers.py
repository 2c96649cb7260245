"""The headers of models, also of those that are not on this machine: their first bytes are enough.

A model file of the hub is read by range requests, as far as its header goes; nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from spec_cli import download, hub
from spec_cli.download import Plan, Source
from spec_cli.errors import DownloadError, ModelError
from spec_cli.gguf import Header, header_of, read_header
from spec_cli.gguf_file import parse_gguf
from spec_cli.modelref import ModelRef
from spec_cli.store import Slot

_FIRST_FETCH_BYTES = 256 << 10  # holds the header of a part without a vocabulary


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


def find_headers(
    refs: Sequence[ModelRef], *, offline: bool, on_remote: Callable[[str], None]
) -> tuple[list[Header], bool]:
    """The headers of `refs`, and whether all of these models are here.

    What is not here is read from the hub; `on_remote` is told so before. Raises ModelError for
    what is no usable model, and DownloadError where a header cannot be read without fetching a
    whole file.
    """
    plans = download.plan(refs, offline=offline)
    if whole := [plan for plan in plans if plan.source is Source.MIRROR]:
        raise _must_be_fetched(whole)
    return [_header(plan, on_remote) for plan in plans], all(plan.found for plan in plans)


def _must_be_fetched(plans: Sequence[Plan]) -> DownloadError:
    names = [f"`{plan.ref.name}`" for plan in plans]
    are, headers = ("are", "their headers") if len(names) > 1 else ("is", "its header")
    missing_gb = sum(plan.missing_bytes for plan in plans) / 1e9
    commands = [f"`spec-cli pull {plan.ref.name}`" for plan in plans]
    return DownloadError(
        f"{' and '.join(names)} {are} not in the cache, and {headers} cannot be read before "
        f"{missing_gb:.2f} GB are fetched from the mirror",
        hint=f"run {' and '.join(commands)}, then this command again",
    )


def _header(plan: Plan, on_remote: Callable[[str], None]) -> Header:
    if plan.found is not None:
        return read_header(plan.found.path)
    on_remote(f"reading the header of {plan.ref.name} from the hub")
    parts = [
        parse_gguf(Path(slot.file), _RemoteFile(slot), slot.size_bytes, _FIRST_FETCH_BYTES)
        for slot in plan.slots
    ]
    return header_of(Path(plan.slots[0].file), parts)


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
            self._start += hub.read_range(self._slot, start, max(end - start, _FIRST_FETCH_BYTES))
        data = self._start[self._pos : end]
        self._pos += len(data)
        return data
