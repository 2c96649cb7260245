"""The target of a pair: its weights, the plan that its passes keep to, and its contexts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from spec_cli.errors import UsageError
from spec_cli.events import Notice
from spec_cli.fitting import N_TARGET_ROWS
from spec_cli.gguf import Header
from spec_cli.llama.context import LlamaContext
from spec_cli.llama.native import ContextSettings, padded_cells
from spec_cli.llama.sequences import LlamaSequences
from spec_cli.loader import Environment, Loader
from spec_cli.settings import AUTO_CTX_ANSWER, MIN_AUTO_CTX, SessionSettings
from spec_cli.spec.counts import counted
from spec_cli.spec.exactness import Rollback
from spec_cli.spec.interfaces import LanguageModel
from spec_cli.spec.meter import MeteredModel, PassMeter
from spec_cli.spec.padding import PaddedModel
from spec_cli.spec.settings import MAX_ROWS
from spec_cli.state import file_fingerprint

_CONTENDED = 1.6  # times what was measured
_WORTH_SAYING_S = 0.01  # a plain step; shorter ones are disturbed by anything
_LEARNED_POSITIONS = ("gpt2", "starcoder")


class TargetSide:
    """Owns what belongs to the target. The model is loaded once, contexts come and go.

    `context` is llama.cpp's own, and `language_model` the same in passes of widths that the plan
    allows; both are None until there is one. `meter` knows what a pass takes.
    """

    def __init__(
        self, header: Header, settings: SessionSettings, loader: Loader, environment: Environment
    ) -> None:
        """Load the model. Raises ModelError, ResourceError or Cancelled."""
        self.header = header
        self._settings, self._loader, self._env = settings, loader, environment
        self.model, self.plan = loader.target(header.path)
        self.meter = PassMeter(self.plan.times_by_length())
        self.context: LlamaContext | None = None
        self.language_model: LanguageModel | None = None

    @property
    def never_drafts(self) -> str | None:
        """Why no draft could ever be verified; None where some can."""
        match self.plan.rollback:
            case Rollback.NONE:
                return "the target's memory is recurrent: it cannot forget rejected tokens"
            case Rollback.UNPROVED:
                return (
                    "the target's memory is recurrent, and its rollback was not proved exact here"
                )
        if self.plan.max_width == 1:
            return "no wider pass gives the bits of a plain step here"
        return None

    def binding(self) -> dict[str, Any]:
        """What the state of a context depends on besides its tokens."""
        return self._loader.facts(self._loader.fitter.target) | {
            "target": file_fingerprint(self.header.path),
            "kernels": asdict(self.plan.kernels),
        }

    @property
    def has_learned_positions(self) -> bool:
        """Whether there are no positions beyond those that the model was trained for."""
        return self.header.architecture in _LEARNED_POSITIONS

    @property
    def n_ctx_max(self) -> int:
        """The largest context that there can be: as asked for, or as the model was trained for."""
        trained = self.model.n_ctx_train
        n_ctx = self._settings.n_ctx or trained
        if self.has_learned_positions:  # and padding stands after the last token
            n_ctx = min(n_ctx, trained - self._n_pad)
        return n_ctx

    def context_size(self, n_prompt: int, max_tokens: int | None) -> int:
        """The size of a context for a prompt and its answer. Raises UsageError: it does not fit."""
        trained, asked = self.model.n_ctx_train, self._settings.n_ctx
        n_ctx = self.n_ctx_max
        if asked is None:
            answer = AUTO_CTX_ANSWER if max_tokens is None else max_tokens
            n_ctx = min(n_ctx, max(MIN_AUTO_CTX, n_prompt + answer))
        elif asked > trained:
            message = (
                f"the context of {counted(asked, 'token')} is longer than the {trained:,} that the "
                "model was trained for; its answers may degrade"
            )
            self._env.notify(Notice(message, level="warning"))
        if n_prompt > n_ctx:
            raise _prompt_too_long(n_prompt, n_ctx, trained)
        return n_ctx

    def holds(self, n_tokens: int) -> bool:
        """Whether there is a context, and as large as that."""
        return self.language_model is not None and n_tokens <= self.language_model.n_ctx

    def make_context(self, n_ctx: int) -> None:
        """A context with cells and rows for padding beyond `n_ctx`. Raises ResourceError."""
        n_batch, n_pad = self._settings.n_batch, self._n_pad
        n_rows = min(N_TARGET_ROWS, max(n_batch, n_pad))
        settings = self._context_settings(n_ctx, max(n_batch, n_pad), n_rows)
        settings = replace(settings, n_pad=n_pad, n_snapshots=self._n_snapshots)
        self.context = self._loader.context(self.model, settings)
        metered = MeteredModel(self.context, self.meter, self._env.clock)
        self.language_model = (
            PaddedModel(metered, self.plan, n_ctx=n_ctx, n_batch=n_batch)
            if self.plan.is_exact
            else metered
        )

    def n_cells(self, n_texts: int, n_ctx: int) -> int:
        """How many cells the caches for several texts of `n_ctx` tokens each have together."""
        return n_texts * padded_cells(n_ctx + MAX_ROWS)

    def make_sequences(self, n_texts: int, n_ctx: int) -> LlamaSequences:
        """Caches for several texts of `n_ctx` tokens each. Raises ResourceError."""
        settings = self._context_settings(n_ctx + MAX_ROWS, self._settings.n_batch, MAX_ROWS)
        return self._loader.sequences(self.model, replace(settings, n_sequences=n_texts))

    def drop_contexts(self) -> None:
        """Forget the contexts, which their loader closes."""
        self.context = self.language_model = None

    def plain_step_s(self, n_past: int) -> float:
        """What a plain step takes now after so many tokens, in seconds."""
        return self.meter.seconds(self.plan.padded(1), n_past)

    def contention(self) -> Iterator[Notice]:
        """A notice where passes take much longer now than they did when they were measured."""
        drift = self.meter.drift
        if drift >= _CONTENDED and self.plan.times(1) >= _WORTH_SAYING_S:
            message = f"passes took {drift:.1f} times as long as when they were measured here"
            yield Notice(message, "see whether another program keeps the processor busy")

    @property
    def _n_pad(self) -> int:
        return self.plan.max_width or 0

    @property
    def _n_snapshots(self) -> int:
        """Of a recurrent memory: the tokens of the widest pass besides the first, which holds.

        As many where nothing is drafted: kernels may differ.
        """
        is_recurrent = self.plan.rollback is Rollback.SNAPSHOTS
        return (self.plan.max_width or 1) - 1 if is_recurrent else 0

    def _context_settings(self, n_ctx: int, n_batch: int, n_rows: int) -> ContextSettings:
        return ContextSettings(
            n_ctx=n_ctx,
            n_threads=self._loader.n_threads,
            n_batch=n_batch,
            n_rows=n_rows,
            k_type=self.plan.kernels.k_type,
            v_type=self.plan.kernels.v_type,
        )


def _prompt_too_long(n_prompt: int, n_ctx: int, trained: int) -> UsageError:
    longest = f"this model was trained for {counted(trained, 'token')}"
    hint = f"use `--ctx-size {n_prompt + 256}`" if n_prompt < trained else f"shorten it: {longest}"
    message = f"the prompt has {counted(n_prompt, 'token')}, but the context holds {n_ctx:,}"
    return UsageError(message, hint=hint)
