"""Fetching the models that a command line names, with a display while something is downloaded."""

from __future__ import annotations

from collections.abc import Sequence

from spec_cli import download
from spec_cli.download import LocalModel, Plan
from spec_cli.modelref import Pair
from spec_cli.pairs import LocalPair
from spec_cli.terminal import Terminal


def fetch_pair(pair: Pair, terminal: Terminal, *, offline: bool, quiet: bool) -> LocalPair:
    """The pair's files, fetched where they are missing. Raises DownloadError or ModelError."""
    target, *draft = fetch_models(
        download.plan(pair.models, offline=offline), terminal, quiet=quiet
    )
    return LocalPair(target, draft[0] if draft else None)


def fetch_models(plans: Sequence[Plan], terminal: Terminal, *, quiet: bool) -> list[LocalModel]:
    """Carry out `plans`, with a progress display on stderr while something is downloaded."""
    if quiet or all(plan.found for plan in plans):
        return download.fetch(plans, lambda progress: None)
    from spec_cli.render.download import DownloadDisplay  # slow to import

    with DownloadDisplay(terminal) as display:
        return download.fetch(plans, display.show)
