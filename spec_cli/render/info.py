"""The facts of a run that are known before its first token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from spec_cli.spec.exactness import ExactnessPlan
from spec_cli.spec.settings import Exact


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Which file a model was loaded from. `repo` and `revision` are None for a local file."""

    name: str
    file: str
    quant: str | None = None
    repo: str | None = None
    revision: str | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What runs, where, and with which settings.

    `draft_copy` is the file of the smaller copy that drafts in place of `draft`, if one does.
    `drafting_off` says why nothing is drafted from the start, with the numbers; None when
    something is, or when plain decoding was asked for. `n_prompt` counts tokens. `accept` is the
    acceptance rule, "greedy" at temperature 0; `plan` the widths of the target's passes, `exact`
    what was asked for. `prompt` is the text that the model got, where the user wants to see it, and
    `prefill` how the answer begins, where the user has said so.
    """

    target: ModelInfo
    draft: ModelInfo | None
    draft_copy: str | None
    drafter: str  # "chain", "model", "ngram" or "none"
    draft_tokens: int | Literal["auto"]
    drafting_off: str | None
    accept: str
    exact: Exact
    plan: ExactnessPlan
    seed: int
    sampling: Mapping[str, object]
    n_prompt: int
    n_ctx: int
    n_threads: int
    backend: str
    device: str
    load_s: float
    versions: Mapping[str, str]
    prompt: str | None = None
    prefill: str | None = None
    has_logprobs: bool = False

    def near_ties(self, counted: int) -> int | None:
        """The near-ties of a run; None where they are not counted: nothing hangs on them there."""
        is_match = self.accept in ("greedy", "coupled")
        return counted if is_match and not self.plan.is_exact else None
