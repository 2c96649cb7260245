"""`spec-cli pull` and `spec-cli models pull`: fetching models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.filesize import decimal

from spec_cli import download, hub, store
from spec_cli.cli.completion import complete_pair
from spec_cli.cli.pairs import fetch_models
from spec_cli.download import Plan
from spec_cli.registry import load_registry
from spec_cli.render.blocks import aligned
from spec_cli.terminal import detect


def pull(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A pair from `spec-cli models`, `user/repo:QUANT`, or `hf://user/repo/x.gguf`.",
            show_default="the default pair",
            autocompletion=complete_pair,
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

    Prints the path of each file. An interrupted download resumes where it stopped.
    """
    terminal = detect()
    registry = load_registry()
    pair = registry.default if name is None else registry.pair(name)
    plans = download.plan(pair.models, offline=offline)
    if dry_run:
        lines = _plan_lines(plans)
    else:
        lines = [str(model.path) for model in fetch_models(plans, terminal, quiet=False)]
    terminal.stdout.writelines(f"{line}\n" for line in lines)


def _plan_lines(plans: Sequence[Plan]) -> list[str]:
    rows = [(decimal(plan.size_bytes), plan.source, plan.ref.name) for plan in plans]
    missing = decimal(sum(plan.missing_bytes for plan in plans))
    free = decimal(store.free_space(hub.cache_dir()))
    return [*aligned(rows), f"{missing} to download, {free} free"]
