"""The GGUF models in the Hugging Face cache, whoever fetched them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from spec_cli import store
from spec_cli.modelref import RepoFile
from spec_cli.quant import choose_file, model_files, quants, split_parts


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A whole model in the cache. `path` is its file; of a split model, the first of `parts`.

    `name` is how it is named on the command line.
    """

    name: str
    repo: str
    revision: str
    file: str
    parts: tuple[Path, ...]

    @property
    def path(self) -> Path:
        """The file to open."""
        return self.parts[0]

    @property
    def size_bytes(self) -> int:
        """The size of all its parts."""
        return sum(part.stat().st_size for part in self.parts)

    @property
    def content(self) -> Path:
        """Where its (first) content really is: equal for two names of one file."""
        return self.path.resolve()


def cached_files(cache_dir: Path, known: Mapping[str, RepoFile]) -> list[CachedFile]:
    """All models in the cache, by repository and file; of equal contents the newest revision's.

    `known` are the registry's files: their names go before others.
    """
    names = {(ref.repo, ref.file): ref.name for ref in known.values()}
    found: dict[tuple[str, str, Path], CachedFile] = {}
    for model in _all_files(cache_dir, names):
        found.setdefault((model.repo, model.file, model.content), model)
    return sorted(found.values(), key=lambda model: (model.repo.lower(), model.file))


def links_to(paths: set[Path], cache_dir: Path) -> set[Path]:
    """All names in the snapshots of the cache for the contents that `paths` are names of."""
    contents = {path.resolve() for path in paths}
    names = cache_dir.glob("models--*/snapshots/**/*")
    return {name for name in names if name.is_file() and name.resolve() in contents}


def _all_files(
    cache_dir: Path, names: Mapping[tuple[str, str | None], str]
) -> Iterator[CachedFile]:
    for folder in cache_dir.glob("models--*"):
        repo = "/".join(folder.name.split("--")[1:])
        snapshots = [path for path in (folder / "snapshots").glob("*") if path.is_dir()]
        snapshots.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
        for snapshot in snapshots:
            files = store.snapshot_files(cache_dir, repo, snapshot.name)
            for file in model_files(files):
                parts = split_parts(file)
                if all(part in files for part in parts):
                    name = names.get((repo, file)) or _name(repo, file, list(files))
                    paths = tuple(files[part] for part in parts)
                    yield CachedFile(name, repo, snapshot.name, file, paths)


def _name(repo: str, file: str, others: list[str]) -> str:
    """`user/repo:QUANT` where that names the file, else its address."""
    (tag,) = quants([file])
    is_tagged = tag != file and choose_file(others, tag) == file
    return f"{repo}:{tag}" if is_tagged else f"hf://{repo}/{file}"
