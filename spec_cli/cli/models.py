"""`spec-cli models` and `spec-cli pull`: which models are known, and fetching them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.filesize import decimal

from spec_cli import download, hub, store
from spec_cli.cli.pairs import fetch_models
from spec_cli.download import LocalModel, Plan
from spec_cli.errors import ModelError
from spec_cli.modelref import ModelRef, Pair, RepoFile
from spec_cli.registry import Registry, load_registry
from spec_cli.terminal import Terminal, detect

SCHEMA = "spec-cli/models/1"

_COLUMNS = ("NAME", "SIZE", "CACHED", "NOTES", "LICENCE", "TARGET", "DRAFT")
_WRAPPED = ("NOTES", "LICENCE")
# On a terminal at least so wide, so many of the columns.
_COLUMNS_FOR_WIDTH = ((200, 7), (120, 5), (0, 4))


def pull(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A pair of `spec-cli models`, `user/repo:QUANT`, or `hf://user/repo/x.gguf`.",
            show_default="the default pair",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be downloaded, and stop.")
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Fail if a file is not in the cache.")
    ] = False,
) -> None:
    """Download a model, or both models of a pair, into the Hugging Face cache.

    Prints the path of each file. An interrupted download goes on where it ended.
    """
    terminal = detect()
    registry = load_registry()
    pair = registry.default if name is None else registry.pair(name)
    plans = download.plan(_models(pair), offline=offline)
    if dry_run:
        lines = _plan_lines(plans)
    else:
        lines = [str(model.path) for model in fetch_models(plans, terminal, quiet=False)]
    terminal.stdout.writelines(f"{line}\n" for line in lines)


def models(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the pairs that are known by name; the default one is marked with `*`."""
    terminal = detect()
    registry = load_registry()
    if as_json:
        terminal.stdout.write(json.dumps(_as_json(registry), indent=2) + "\n")
        return
    rows = [_row(pair, is_default=pair is registry.default) for pair in registry.pairs.values()]
    if terminal.stdout_is_tty:
        _print_table(rows, terminal)
    else:
        terminal.stdout.writelines(f"{line}\n" for line in _aligned([_COLUMNS, *rows]))


def _plan_lines(plans: Sequence[Plan]) -> list[str]:
    rows = [(decimal(plan.size_bytes), plan.source, plan.ref.name) for plan in plans]
    missing = decimal(sum(plan.missing_bytes for plan in plans))
    free = decimal(store.free_space(hub.cache_dir()))
    return [*_aligned(rows), f"{missing} to download, {free} free"]


def _row(pair: Pair, *, is_default: bool) -> tuple[str, ...]:
    refs = _models(pair)
    found = [_cached(ref) for ref in refs]
    n_cached = sum(model is not None for model in found)
    sizes = [_size_bytes(ref, model) for ref, model in zip(refs, found, strict=True)]
    licenses = dict.fromkeys(ref.license for ref in refs if isinstance(ref, RepoFile))
    return (
        f"{pair.name} *" if is_default else pair.name,
        decimal(sum(s for s in sizes if s)) if all(sizes) else "-",
        "yes" if n_cached == len(refs) else f"{n_cached} of {len(refs)}" if n_cached else "no",
        pair.notes or "-",
        ", ".join(name.removeprefix("LicenseRef-") for name in licenses if name) or "-",
        pair.target.name,
        pair.draft.name if pair.draft else "-",
    )


def _print_table(rows: Sequence[Sequence[str]], terminal: Terminal) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(file=terminal.stdout, no_color=not terminal.color, markup=False)
    n_columns = next(n for width, n in _COLUMNS_FOR_WIDTH if console.width >= width)
    table = Table(box=None, pad_edge=False)
    for heading in _COLUMNS[:n_columns]:
        table.add_column(heading, no_wrap=heading not in _WRAPPED)
    for row in rows:
        table.add_row(*row[:n_columns])
    console.print(table)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _as_json(registry: Registry) -> dict[str, object]:
    pairs = [
        {
            "name": pair.name,
            "default": pair is registry.default,
            "target": _model_json(pair.target),
            "draft": _model_json(pair.draft) if pair.draft else None,
            "draft_tokens": pair.draft_tokens,
            "notes": pair.notes,
        }
        for pair in registry.pairs.values()
    ]
    return {"schema": SCHEMA, "pairs": pairs}


def _model_json(ref: ModelRef) -> dict[str, object]:
    facts = ref if isinstance(ref, RepoFile) else None
    found = _cached(ref)
    return {
        "name": ref.name,
        "repo": facts and facts.repo,
        "revision": facts and facts.revision,
        "file": facts and facts.file,
        "size_bytes": _size_bytes(ref, found),
        "sha256": facts and facts.sha256,
        "license": facts and facts.license,
        "path": found and str(found.path),
    }


def _models(pair: Pair) -> list[ModelRef]:
    return [pair.target] if pair.draft is None else [pair.target, pair.draft]


def _cached(ref: ModelRef) -> LocalModel | None:
    """The model, if it is here; a pair whose local file is gone is listed, too."""
    try:
        return download.cached(ref)
    except ModelError:
        return None


def _size_bytes(ref: ModelRef, found: LocalModel | None) -> int | None:
    if found is not None:
        return found.size_bytes
    return ref.size_bytes if isinstance(ref, RepoFile) else None
