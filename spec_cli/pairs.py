"""Which models a user names, and the files of them on this machine."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spec_cli.download import LocalModel
from spec_cli.modelref import Pair
from spec_cli.registry import Registry
from spec_cli.settings import DrafterKind

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
