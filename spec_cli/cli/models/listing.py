"""`spec-cli models list`: the pairs known by name, or the files in the cache."""

from __future__ import annotations

from rich.filesize import decimal

from spec_cli import download, hub
from spec_cli.cli.models.facts import model_json
from spec_cli.cli.models.options import AsJson, Files
from spec_cli.cli.models.tables import NOTHING, cell, print_json, print_rows
from spec_cli.gguf import Header
from spec_cli.headers import usable_header
from spec_cli.inventory import CachedFile, cached_files
from spec_cli.modelref import ModelRef, Pair, RepoFile
from spec_cli.pairing import parameters
from spec_cli.registry import Registry, load_registry, origin
from spec_cli.terminal import Terminal, detect

SCHEMA = "spec-cli/models/1"
FILES_SCHEMA = "spec-cli/model-files/1"

_COLUMNS = ("NAME", "SIZE", "CACHED", "NOTES", "LICENCE", "FROM", "TARGET", "DRAFT")
_WRAPPED = ("NOTES", "LICENCE")
# On a terminal at least so wide, so many of the columns.
_COLUMNS_FOR_WIDTH = ((200, 8), (120, 6), (0, 4))
_FILE_COLUMNS = ("FILE", "SIZE", "QUANT", "ARCHITECTURE", "PARAMETERS", "REPOSITORY")


def list_models(files: Files = False, as_json: AsJson = False) -> None:
    """List the pairs known by name; `*` marks the default.

    CACHED: whether their files are on this machine. FROM: where the name is defined, which is
    the packaged registry, your own, or the models.toml in the current directory.
    """
    terminal, registry = detect(), load_registry()
    if files:
        _list_files(cached_files(hub.cache_dir(), registry.files), terminal, as_json=as_json)
    elif as_json:
        print_json(_pairs_json(registry), terminal)
    else:
        rows = [_row(pair, registry) for pair in registry.pairs.values()]
        print_rows(_COLUMNS, rows, terminal, wrapped=_WRAPPED, columns_for_width=_COLUMNS_FOR_WIDTH)


def _row(pair: Pair, registry: Registry) -> tuple[str, ...]:
    found = [download.find_here(ref) for ref in pair.models]
    n_cached = sum(model is not None for model in found)
    sizes = [m.size_bytes if m else _known_size(r) for r, m in zip(pair.models, found, strict=True)]
    licenses = dict.fromkeys(ref.license for ref in pair.models if isinstance(ref, RepoFile))
    return (
        f"{pair.name} *" if pair is registry.default else pair.name,
        decimal(sum(size for size in sizes if size)) if all(sizes) else NOTHING,
        "yes" if n_cached == len(found) else f"{n_cached} of {len(found)}" if n_cached else "no",
        cell(pair.notes),
        ", ".join(name.removeprefix("LicenseRef-") for name in licenses if name) or NOTHING,
        origin(registry.origins[pair.name]),
        pair.target.name,
        pair.draft.name if pair.draft else NOTHING,
    )


def _known_size(ref: ModelRef) -> int | None:
    return ref.size_bytes if isinstance(ref, RepoFile) else None


def _pairs_json(registry: Registry) -> dict[str, object]:
    pairs = [
        {
            "name": pair.name,
            "default": pair is registry.default,
            "target": model_json(pair.target),
            "draft": model_json(pair.draft) if pair.draft else None,
            "draft_tokens": pair.draft_tokens,
            "notes": pair.notes,
            "cached": all(download.find_here(ref) for ref in pair.models),
            "from": str(registry.origins[pair.name]),
        }
        for pair in registry.pairs.values()
    ]
    return {"schema": SCHEMA, "pairs": pairs}


def _list_files(files: list[CachedFile], terminal: Terminal, *, as_json: bool) -> None:
    if as_json:
        found = [_file_json(file, usable_header(file.path)) for file in files]
        print_json({"schema": FILES_SCHEMA, "files": found}, terminal)
    elif files:
        rows = [_file_row(file, usable_header(file.path)) for file in files]
        print_rows(_FILE_COLUMNS, rows, terminal, wrapped=("FILE", "REPOSITORY"))
    else:
        terminal.stderr.write(f"no GGUF file is in the cache, {hub.cache_dir()}\n")


def _file_row(file: CachedFile, header: Header | None) -> tuple[str, ...]:
    facts = (
        (cell(header.quant), cell(header.architecture), parameters(header.n_params))
        if header
        else (NOTHING, "not usable", NOTHING)
    )
    return (cell(file.file), decimal(file.size_bytes), *facts, cell(file.repo))


def _file_json(file: CachedFile, header: Header | None) -> dict[str, object]:
    return {
        "name": file.name,
        "repo": file.repo,
        "revision": file.revision,
        "file": file.file,
        "size_bytes": file.size_bytes,
        "path": str(file.path),
        "quant": header and header.quant,
        "architecture": header and header.architecture,
        "parameters": header and header.n_params,
    }
