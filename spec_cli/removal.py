"""What deleting a pair takes with it: cached files, copies of a draft, measurements.

So does what is left of fetching and copying them: partial files and locks. The plan is made first
and changes nothing, so that it can be shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from spec_cli import download, hub, leftovers, store
from spec_cli.download import LocalModel
from spec_cli.draft_copy import copies_of, leftovers_of
from spec_cli.errors import ModelError
from spec_cli.headers import usable_header
from spec_cli.inventory import links_to
from spec_cli.leftovers import Leftovers
from spec_cli.measured import Measurements
from spec_cli.modelref import LocalFile, ModelRef, Pair, RepoFile
from spec_cli.quant import split_parts


@dataclass(frozen=True, slots=True)
class Removal:
    """What is to be deleted: names in the cache of `models`, `copies`, and `measurements`.

    `leftovers` are those of fetching and copying. `kept` are the models that stay, and why.
    """

    models: tuple[LocalModel, ...]
    links: frozenset[Path]
    copies: tuple[Path, ...]
    leftovers: tuple[Leftovers, ...]
    measurements: tuple[Path, ...]
    kept: Mapping[str, str]

    def __bool__(self) -> bool:
        return bool(self.models or self.leftovers)

    @property
    def partials(self) -> tuple[Path, ...]:
        """What was fetched or copied in part."""
        return tuple(partial for left in self.leftovers for partial in left.partials)

    @property
    def n_locks(self) -> int:
        """How many lock files go."""
        return sum(left.has_lock for left in self.leftovers)

    @property
    def freed_bytes(self) -> int:
        """How much disk space it frees."""
        contents = {link.resolve() for link in self.links} | {*self.copies}
        whole = sum(path.stat().st_size for path in contents)
        return whole + sum(map(leftovers.size_bytes, self.partials))

    def carry_out(self) -> None:
        """Delete all of it. Raises ModelError, with nothing deleted where a lock is held."""
        try:
            with leftovers.held(self.leftovers):
                self._delete()
        except OSError as error:
            raise ModelError(f"cannot delete {error.filename}: {error.strerror}") from error

    def _delete(self) -> None:
        if self.links:
            hub.delete_files(self.links)
        for path in (*self.copies, *self.measurements):
            path.unlink(missing_ok=True)
        for left in self.leftovers:
            left.delete()
        if self.links:
            hub.delete_empty(self.links)
        for folder in {partial.parent for partial in self.partials}:
            leftovers.remove_if_empty(folder)
            leftovers.remove_if_empty(folder.parent)


def plan_removal(
    refs: Iterable[ModelRef],
    others: Iterable[Pair],
    *,
    copies: Path,
    measurements: Measurements,
) -> Removal:
    """What deleting the models `refs` means.

    A file stays that one of `others` needs, a pair of which everything is here; so does a file
    outside the cache. `copies` is the directory of draft copies.
    """
    users = _users(others)
    doomed: list[_Traces] = []
    kept: dict[str, str] = {}
    for ref in refs:
        traces = _traces(ref, copies)
        if reason := _reason_to_stay(ref, traces, users):
            kept[ref.name] = reason
        else:
            doomed.append(traces)
    models = tuple(traces.model for traces in doomed if traces.model)
    paths = [path for model in models for path in _parts(model)]
    copied = [copy for traces in doomed for copy in traces.copies]
    left = dict.fromkeys(one for traces in doomed for one in traces.leftovers)
    stored = {e.path: None for path in (*paths, *copied) for e in measurements.of_file(path)}
    return Removal(
        models,
        frozenset(links_to(set(paths), hub.cache_dir())),
        tuple(copied),
        tuple(left),
        tuple(stored),
        kept,
    )


@dataclass(frozen=True, slots=True)
class _Traces:
    """What is here of one model; nothing of a file of the user's own."""

    model: LocalModel | None = None
    copies: tuple[Path, ...] = ()
    leftovers: tuple[Leftovers, ...] = ()


def _traces(ref: ModelRef, copies: Path) -> _Traces:
    if isinstance(ref, LocalFile):
        return _Traces()
    found = download.find_here(ref)
    copied = tuple(_copies(found.path, copies)) if found else ()
    left = (*_left_of_download(ref, found), *map(leftovers_of, copied))
    return _Traces(found, copied, tuple(filter(None, left)))


def _reason_to_stay(ref: ModelRef, traces: _Traces, users: Mapping[Path, list[str]]) -> str | None:
    if isinstance(ref, LocalFile):
        return "it is not in the cache, but a file of your own"
    if traces.model and (pairs := users.get(traces.model.path.resolve())):
        return f"the cached pair `{pairs[0]}` needs it, too"
    if traces.model is None and not traces.leftovers:
        return "it is not in the cache"
    return next((found for left in traces.leftovers if (found := left.obstacle)), None)


def _left_of_download(ref: RepoFile, found: LocalModel | None) -> Iterator[Leftovers]:
    """What is left of fetching a model, whether it is here or not."""
    cache_dir = hub.cache_dir()
    blobs = {ref.sha256} if ref.sha256 else set()
    if found is not None:
        blobs |= {blob for path in _parts(found) if (blob := store.blob_of(path))}
    elif not blobs and not store.has_files(cache_dir, ref.repo):
        # Nobody can tell which file of the repository it was going to be.
        blobs = leftovers.partial_blobs(cache_dir, ref.repo)
    return (leftovers.of_download(cache_dir, ref.repo, blob) for blob in sorted(blobs))


def _users(pairs: Iterable[Pair]) -> dict[Path, list[str]]:
    """The names of the pairs of which all files are here, by file."""
    users: dict[Path, list[str]] = {}
    for pair in pairs:
        models = [download.find_here(ref) for ref in pair.models]
        for model in models:
            if model is not None and None not in models:
                users.setdefault(model.path.resolve(), []).append(pair.name)
    return users


def _parts(model: LocalModel) -> Iterator[Path]:
    return (model.path.parent / name for name in split_parts(model.path.name))


def _copies(path: Path, directory: Path) -> list[Path]:
    header = usable_header(path)
    return copies_of(header, directory) if header else []  # what is not usable was never copied
