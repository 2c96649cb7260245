"""The draft model of a pair: which file of it, whether it can win, and ready to guess."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from spec_cli.draft_copy import worth_it
from spec_cli.drafters.model import DraftModel
from spec_cli.events import Notice
from spec_cli.gguf import Header
from spec_cli.llama.context import LlamaContext
from spec_cli.llama.model import LlamaModel
from spec_cli.llama.native import ContextSettings
from spec_cli.loader import Environment, Loader
from spec_cli.pairing import PairReport
from spec_cli.spec.costs import CostTable, PassTimes
from spec_cli.spec.counts import counted
from spec_cli.spec.interfaces import AcceptanceRule
from spec_cli.spec.meter import MeteredModel, PassMeter
from spec_cli.spec.survival import Survival
from spec_cli.state import file_fingerprint


class DraftSide:
    """Owns what belongs to the draft model. `off` says why it does not draft, if it does not.

    The model is loaded for drafting at most once, and only where it is known that it can win.
    `path` is the file that drafts: the one that was asked for, or a faster copy of it.
    """

    def __init__(
        self, header: Header, pair: PairReport, loader: Loader, environment: Environment
    ) -> None:
        self.header = header
        self.pair = pair
        self.path = header.path
        self.off: str | None = None
        self.meter: PassMeter | None = None
        self.context: LlamaContext | None = None
        self._loader, self._env = loader, environment
        self._model: LlamaModel | None = None
        self._times: PassTimes | None = None  # None, once chosen: the model cannot draft
        self._has_chosen = False

    @property
    def is_copy(self) -> bool:
        """Whether a faster copy drafts in place of the file that was asked for."""
        return self.path != self.header.path

    @property
    def token_s(self) -> float:
        """Seconds of one guess; 0 where the model does not draft."""
        return self.meter.seconds(1, 0) if self.meter else 0.0

    def binding(self) -> dict[str, Any]:
        """What the state of a context depends on besides its tokens."""
        return self._loader.facts(self._loader.fitter.draft) | {
            "draft model": file_fingerprint(self.path)
        }

    def prepare(
        self,
        target: PassTimes,
        meter: PassMeter,
        settings: ContextSettings,
        *,
        k_max: int,
        only_to_win: bool,
    ) -> None:
        """Make a context as `settings` ask, no longer than the model was trained for.

        Or none, where the model does not draft: `off` says why. `only_to_win`: it does not where
        even `k_max` perfect guesses lose against `target`'s times. `meter` is the target's.
        Raises ModelError, ResourceError or Cancelled.
        """
        self.context, self.off = None, None
        if not self._has_chosen:
            self._times, self._has_chosen = self._choose(target, k_max), True
        times = self._times
        if times is None:
            self.off = "the draft's memory is recurrent, and does not go back to what it was"
        elif only_to_win:
            self.off = CostTable(target, times(1)).verdict(k_max)
        if times is None or self.off:
            return
        model = self._model = self._model or self._loader.draft(self.path)
        n_ctx = min(settings.n_ctx, model.n_ctx_train)
        n_sequences = 2 if model.is_recurrent else 1  # to go back to the start of a round
        self.context = self._loader.context(
            model, replace(settings, n_ctx=n_ctx, n_sequences=n_sequences)
        )
        self.meter = self.meter or PassMeter(times, beside=meter)

    def too_short_for(self, n_prompt: int) -> Iterator[Notice]:
        """A notice where a prompt has more tokens than the context: there is no guess after it."""
        if self.context is not None and n_prompt > self.context.n_ctx:
            size = counted(self.context.n_ctx, "token")
            yield Notice(
                f"the draft model does not draft: its context of {size} is shorter than the prompt"
            )

    def source(self, rule: AcceptanceRule, survival: Survival) -> DraftModel:
        """The model as a source of guesses for one generation."""
        assert self._model and self.context and self.meter
        metered = MeteredModel(self.context, self.meter, self._env.clock)
        return DraftModel(
            metered,
            rule,
            survival,
            n_shared=self.pair.n_shared,
            is_recurrent=self._model.is_recurrent,
        )

    def _choose(self, target: PassTimes, k_max: int) -> PassTimes | None:
        """The pass times of the file that is to draft, now `path`; None: it cannot."""
        original = self._loader.draft_times(self.path)
        if original is None or (copy := self._loader.copy_of(self.header)) is None:
            return original
        times = self._loader.draft_times(copy)
        if times and worth_it(
            target, original_token_s=original(1), copy_token_s=times(1), k_max=k_max
        ):
            self.path = copy
            return times
        return original
