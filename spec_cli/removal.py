"""What deleting a pair takes with it: cached files, copies of a draft, measurements.

The plan is made first and changes nothing, so that it can be shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from spec_cli import download, hub
from spec_cli.download import LocalModel
from spec_cli.draft_copy import copies_of
from spec_cli.errors import ModelError
from spec_cli.headers import usable_header
from spec_cli.inventory import links_to
from spec_cli.measured import Measurements
from spec_cli.modelref import LocalFile, ModelRef, Pair
from spec_cli.quant import split_parts


@dataclass(frozen=True, slots=True)
class Removal:
    """What is to be deleted: names in the cache of `models`, `copies`, and `measurements`.

    `kept` are the models that stay, and why.
    """

    models: tuple[LocalModel, ...]
    links: frozenset[Path]
    copies: tuple[Path, ...]
    measurements: tuple[Path, ...]
    kept: Mapping[str, str]

    @property
    def freed_bytes(self) -> int:
        """How much disk space it frees."""
        contents = {link.resolve() for link in self.links} | {*self.copies}
        return sum(path.stat().st_size for path in contents)

    def carry_out(self) -> None:
        """Delete all of it. Raises ModelError."""
        try:
            if self.links:
                hub.delete_files(self.links)
            for path in (*self.copies, *self.measurements):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise ModelError(f"cannot delete {error.filename}: {error.strerror}") from error


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
    doomed: list[LocalModel] = []
    kept: dict[str, str] = {}
    for ref in refs:
        found = download.find_here(ref)
        if isinstance(ref, LocalFile):
            kept[ref.name] = "it is not in the cache, but a file of your own"
        elif found is None:
            kept[ref.name] = "it is not in the cache"
        elif pairs := users.get(found.path.resolve()):
            kept[ref.name] = f"the cached pair `{pairs[0]}` needs it, too"
        else:
            doomed.append(found)
    paths = [path for model in doomed for path in _parts(model)]
    copied = [copy for model in doomed for copy in _copies(model.path, copies)]
    stored = {e.path: None for path in (*paths, *copied) for e in measurements.of_file(path)}
    return Removal(
        tuple(doomed),
        frozenset(links_to(set(paths), hub.cache_dir())),
        tuple(copied),
        tuple(stored),
        kept,
    )


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
