"""Which models a command line names, and where their files are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spec_cli import download
from spec_cli.download import LocalModel, Plan
from spec_cli.modelref import Pair
from spec_cli.registry import Registry
from spec_cli.render.download import DownloadDisplay
from spec_cli.settings import DrafterKind
from spec_cli.terminal import Terminal

NO_DRAFT_MODEL = "none"


@dataclass(frozen=True, slots=True)
class LocalPair:
    """The files of a pair; `draft` is None when no draft model takes part."""

    target: LocalModel
    draft: LocalModel | None


def choose_pair(
    registry: Registry, model: str | None, draft_model: str | None, drafter: DrafterKind
) -> Pair:
    """The pair that `--model` and `--draft-model` name; without a draft where none may be used.

    A pair's draft length holds for its own draft only.
    Raises ModelError for an unknown name.
    """
    pair = registry.default if model is None else registry.pair(model)
    if draft_model == NO_DRAFT_MODEL or drafter in (DrafterKind.NGRAM, DrafterKind.NONE):
        return replace(pair, draft=None, draft_tokens=None)
    if draft_model is not None:
        return replace(pair, draft=registry.model(draft_model), draft_tokens=None)
    return pair


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
    with DownloadDisplay(terminal) as display:
        return download.fetch(plans, display.show)
