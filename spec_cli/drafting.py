"""Who drafts beside a target, and where nobody does, why."""

from __future__ import annotations

from pathlib import Path

from spec_cli.draft_side import DraftSide
from spec_cli.drafters.model import N_ROWS
from spec_cli.errors import UsageError
from spec_cli.events import Notice
from spec_cli.llama.memory import N_SNAPSHOTS
from spec_cli.llama.native import ContextSettings
from spec_cli.loader import Environment
from spec_cli.settings import DrafterKind, SessionSettings
from spec_cli.spec.costs import CostTable
from spec_cli.spec.counts import counted
from spec_cli.spec.exactness import Rollback
from spec_cli.target_side import TargetSide


class Drafting:
    """Settles who drafts beside a loaded target.

    `off` says why nothing is drafted, where that is known before the first token. `costs` is what
    passes and guesses take, once it is settled. `draft` is the draft model's side, where a draft
    model was named and may be used.
    """

    def __init__(
        self,
        kind: DrafterKind,
        draft: DraftSide | None,
        settings: SessionSettings,
        environment: Environment,
    ) -> None:
        self.kind, self.draft = kind, draft
        self.off: str | None = None
        self.costs: CostTable | None = None
        self._settings, self._env = settings, environment

    @property
    def name(self) -> str:
        """Who drafts: `chain`, `model`, `ngram` or `none`."""
        if self.off:
            return str(DrafterKind.NONE)
        if self.kind is DrafterKind.CHAIN and self.draft is not None and self.draft.off:
            return str(DrafterKind.NGRAM)
        return str(self.kind)

    def limit(self, target: TargetSide, k_max: int) -> None:
        """Say where the model, or the widths allowed, limit what can be drafted."""
        asked = self._settings.draft_tokens
        if self.kind is DrafterKind.NONE:
            return
        if reason := target.never_drafts:
            self.off = reason
        elif target.plan.max_width is not None and asked is not None and asked > k_max:
            if target.plan.rollback is Rollback.SNAPSHOTS and k_max == N_SNAPSHOTS:
                why, hint = "the target's recurrent memory takes back no more", None
            else:
                why, hint = "wider passes may give other bits", "use `--exact off` for longer ones"
            self._env.notify(Notice(f"drafts are cut to {counted(k_max, 'token')}: {why}", hint))

    def settle(self, target: TargetSide, n_ctx: int, *, k_max: int, n_threads: int) -> None:
        """Prepare the draft model where there is one, and say why nothing is drafted, if so.

        Raises ModelError, ResourceError or Cancelled.
        """
        if self.kind is DrafterKind.NONE or target.never_drafts:
            return
        times = target.plan.padded_times()
        is_free = self._settings.draft_tokens is None
        if self.draft is not None:
            context = ContextSettings(
                n_ctx=n_ctx,
                n_threads=n_threads,
                n_batch=self._settings.n_batch,
                n_rows=min(N_ROWS, self._settings.n_batch),
            )
            self.draft.prepare(times, target.meter, context, k_max=k_max, only_to_win=is_free)
            if self.draft.off and self.kind is DrafterKind.CHAIN:
                self._env.notify(Notice(f"the draft model does not draft: {self.draft.off}"))
        self.costs = CostTable(times, self.draft.token_s if self.draft else 0.0)
        if self.kind is DrafterKind.MODEL and self.draft is not None:
            self.off = self.draft.off
        elif is_free:
            self.off = CostTable(times, 0.0).verdict(k_max)


def drafter_kind(asked: DrafterKind, draft: Path | None) -> DrafterKind:
    """The kind that `asked` stands for with that draft model, if any.

    Raises UsageError where it needs one, and there is none.
    """
    if asked.needs_model and draft is None:
        raise UsageError(
            f"`--drafter {asked}` needs a draft model",
            hint="name one with `--draft-model`, or use `--drafter ngram`",
        )
    if asked is DrafterKind.AUTO:
        return DrafterKind.CHAIN if draft is not None else DrafterKind.NGRAM
    return asked
