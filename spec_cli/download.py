"""From a model's name to its file on this machine.

The sources, in order: the Hugging Face cache, which needs no network; the hub; and, where the hub
cannot be reached, the mirror. What is to be fetched is planned first, so that a full disk is found
before the first byte.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from spec_cli import hub, mirror, store
from spec_cli.errors import DownloadError, ModelError
from spec_cli.modelref import LocalFile, ModelRef, RepoFile
from spec_cli.quant import DEFAULT_QUANT, choose_file, quants, split_parts
from spec_cli.store import Slot


class Source(StrEnum):
    """Where a model's file comes from."""

    LOCAL = "local"
    CACHE = "cache"
    HUB = "hub"
    MIRROR = "mirror"


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model on this machine. `path` is its file; of a split model, the first part.

    `repo` and `revision`, a commit, are None for a local file; `sha256` is known for a model that
    the cache has in one file.
    """

    name: str
    path: Path
    size_bytes: int
    repo: str | None = None
    revision: str | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """`done_bytes` of the `total_bytes` of the model `name` are here."""

    name: str
    done_bytes: int
    total_bytes: int
    source: Source


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What it takes to have one model: nothing when it is `found`, else its `slots` filled."""

    ref: ModelRef
    source: Source
    found: LocalModel | None = None
    slots: tuple[Slot, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The size of all its files."""
        return self.found.size_bytes if self.found else sum(s.size_bytes for s in self.slots)

    @property
    def missing_bytes(self) -> int:
        """How much is still to be fetched."""
        return sum(slot.missing_bytes for slot in self.slots)


def cached(ref: ModelRef) -> LocalModel | None:
    """The model of `ref` if it is on this machine; the network is not touched.

    Raises ModelError when `ref` is a local path and no model file is there.
    """
    return _open_local(ref) if isinstance(ref, LocalFile) else _find_cached(ref)


def find_here(ref: ModelRef) -> LocalModel | None:
    """`cached`, and None also for a local path where no model file is."""
    try:
        return cached(ref)
    except ModelError:
        return None


def plan(refs: Iterable[ModelRef], *, offline: bool = False) -> list[Plan]:
    """How each of `refs` is to be had. The hub is asked only about models that are not cached.

    Raises DownloadError when one of them cannot be had, and ModelError when a repository or a
    local path has no such file.
    """
    found = [(ref, cached(ref)) for ref in refs]
    missing = [ref for ref, model in found if model is None and isinstance(ref, RepoFile)]
    if missing and (offline or hub.is_offline()):
        switch = "--offline" if offline else "HF_HUB_OFFLINE"
        raise DownloadError(
            f"`{missing[0].name}` is not in the cache, and `{switch}` forbids downloads",
            hint=f"run `spec-cli pull {missing[0].name}` while you are online",
        )
    asks_hub = any(ref.on_hub for ref in missing)
    hub_problem = hub.connection_problem() if asks_hub else None
    plans = []
    for ref, model in found:
        if isinstance(ref, RepoFile) and model is None:
            plans.append(_plan_download(ref, hub_problem))
        else:
            source = Source.LOCAL if isinstance(ref, LocalFile) else Source.CACHE
            plans.append(Plan(ref, source, model))
    return plans


def fetch(plans: Sequence[Plan], progress: OnProgress) -> list[LocalModel]:
    """Carry out `plans`: the models, in order. `progress` is called while bytes arrive.

    Raises DownloadError: before the first byte when the disk is too small for all of them; later
    with what was fetched kept, so that the next call goes on from there.
    """
    if any(not plan.found for plan in plans):
        store.require_space(hub.cache_dir(), needed_bytes(plans))
    try:
        return [plan.found or _fill(plan, progress) for plan in plans]
    except BrokenPipeError:  # nobody reads the progress any more
        raise
    except OSError as error:
        raise DownloadError(f"cannot write to the cache: {error}") from error


def needed_bytes(plans: Sequence[Plan]) -> int:
    """The disk space that `plans` need: the files, and for a mirror one wheel beside them."""
    slots = {slot for plan in plans for slot in plan.slots}
    wheels = [
        mirror.part_bytes(plan.ref.mirror, plan.size_bytes)
        for plan in plans
        if plan.source is Source.MIRROR and isinstance(plan.ref, RepoFile) and plan.ref.mirror
    ]
    return sum(slot.missing_bytes for slot in slots) + max(wheels, default=0)


def _open_local(ref: LocalFile) -> LocalModel:
    parts = [ref.path.parent / name for name in split_parts(ref.path.name)]
    for part in parts or [ref.path]:
        if problem := _problem(part):
            raise ModelError(f"the model file `{part}` {problem}")
    return LocalModel(ref.name, ref.path, sum(part.stat().st_size for part in parts))


def _problem(path: Path) -> str | None:
    """Why there is no regular file at `path`; None when there is one."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "does not exist"
    except (OSError, ValueError) as error:  # the latter: no file has a NUL in its name
        return f"cannot be opened: {getattr(error, 'strerror', error)}"
    if stat.S_ISDIR(mode):
        return "is a directory"
    return None if stat.S_ISREG(mode) else "is not a regular file"


def _find_cached(ref: RepoFile) -> LocalModel | None:
    cache_dir = hub.cache_dir()
    commit = store.commit_of(cache_dir, ref.repo, ref.revision or "main")
    files = store.snapshot_files(cache_dir, ref.repo, commit)
    if ref.file and ref.sha256 and ref.file not in files:
        # Another commit may have the very same file.
        commit = store.commit_with(cache_dir, ref.repo, ref.file, ref.sha256) or commit
        files = store.snapshot_files(cache_dir, ref.repo, commit)
    first = _choose(ref, files)
    if first is None or not all(part in files for part in split_parts(first)):
        return None
    model = _cached_model(ref, commit, [files[part] for part in split_parts(first)])
    return model if ref.size_bytes in (None, model.size_bytes) else None


def _cached_model(ref: RepoFile, commit: str, parts: Sequence[Path]) -> LocalModel:
    sha256 = store.sha256_of(parts[0]) or ref.sha256 if len(parts) == 1 else None
    size_bytes = sum(part.stat().st_size for part in parts)
    return LocalModel(ref.name, parts[0], size_bytes, ref.repo, commit, sha256)


def _choose(ref: RepoFile, names: Iterable[str]) -> str | None:
    if ref.file is not None:
        return ref.file if ref.file in names else None
    return choose_file(names, ref.quant or DEFAULT_QUANT)


def _plan_download(ref: RepoFile, hub_problem: hub.HubUnreachable | None) -> Plan:
    if ref.on_hub and hub_problem is None:
        try:
            listing = hub.list_files(ref.repo, ref.revision)
            return Plan(ref, Source.HUB, slots=_hub_slots(ref, listing))
        except hub.HubUnreachable as error:
            hub_problem = error
    if ref.mirror and ref.revision and ref.file and ref.sha256 and ref.size_bytes:
        place = (hub.cache_dir(), ref.repo, ref.revision, ref.file)
        return Plan(ref, Source.MIRROR, slots=(Slot(*place, ref.sha256, ref.size_bytes),))
    assert hub_problem is not None, "a file that is on no hub has a mirror"
    raise hub_problem


def _hub_slots(ref: RepoFile, listing: hub.Listing) -> tuple[Slot, ...]:
    first = _choose(ref, listing.files)
    parts = split_parts(first) if first else []
    if not parts or not all(part in listing.files for part in parts):
        has = ", ".join(quants(listing.files)) or "no GGUF file"
        wanted = first or ref.file or ref.quant
        raise ModelError(f"`{ref.repo}` has no complete `{wanted}`", hint=f"it has {has}")
    slots = []
    for part in parts:
        remote = listing.files[part]
        place = (hub.cache_dir(), ref.repo, listing.commit, part)
        slots.append(Slot(*place, remote.blob, remote.size_bytes))
    if ref.sha256 not in (None, slots[0].blob):
        raise DownloadError(
            f"the hub's `{first}` has the SHA-256 {slots[0].blob[:12]}… instead of "
            f"{str(ref.sha256)[:12]}…",
            hint="correct `sha256` or `revision` in models.toml",
        )
    return tuple(slots)


def _fill(plan: Plan, progress: OnProgress) -> LocalModel:
    ref = plan.ref
    assert isinstance(ref, RepoFile)
    before = 0
    for slot in plan.slots:

        def report(n_bytes: int, before: int = before) -> None:
            progress(Progress(ref.name, before + n_bytes, plan.size_bytes, plan.source))

        with store.locked(slot, on_wait=report):
            _fill_slot(ref, slot, plan.source, report)
        before += slot.size_bytes
    return _cached_model(ref, plan.slots[0].revision, [slot.path for slot in plan.slots])


def _fill_slot(ref: RepoFile, slot: Slot, source: Source, report: Callable[[int], None]) -> None:
    # Another process may have fetched it since the plan was made.
    if slot.is_filled:
        return
    if not slot.has_blob:
        if source is Source.MIRROR:
            _fetch_from_mirror(ref, slot, report)
        else:
            hub.fetch_from_hub(slot, report)
    pinned = ref.revision == slot.revision
    store.place(slot, branch=None if pinned else ref.revision or "main")


def _fetch_from_mirror(ref: RepoFile, slot: Slot, report: Callable[[int], None]) -> None:
    assert ref.mirror is not None
    try:
        mirror.fetch_from_mirror(ref.mirror, slot, report, mirror.pip_download)
    except DownloadError as error:
        if not ref.on_hub:
            raise
        problem = f"the hub at {hub.endpoint()} cannot be reached, and {error.message}"
        raise DownloadError(problem, hint=error.hint) from error
