"""From two files and the settings to a running pair.

A session owns both models and their contexts. It decides which widths the target's passes may
have, and who drafts: before the draft model is loaded it asks the stored cost table whether
drafting can win on this machine at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from spec_cli.calibration import PassTimer
from spec_cli.drafters.model import ModelDrafter
from spec_cli.drafters.ngram import NgramDrafter
from spec_cli.drafters.none import NoDrafter
from spec_cli.engine import Decoder
from spec_cli.errors import UsageError
from spec_cli.events import DraftingOff, Event, Notice
from spec_cli.gguf import Header, read_header
from spec_cli.llama.context import ContextSettings, LlamaContext
from spec_cli.llama.devices import Device
from spec_cli.llama.model import LlamaModel
from spec_cli.loader import Environment, Loader
from spec_cli.pairing import PairReport, check_pair
from spec_cli.settings import (
    AUTO_CTX_ANSWER,
    MIN_AUTO_CTX,
    DrafterKind,
    GenerationSettings,
    SessionSettings,
)
from spec_cli.spec.acceptance import make_rule
from spec_cli.spec.costs import DRAFT_WIDTHS, CostTable, PassTimes
from spec_cli.spec.interfaces import AcceptanceRule, Drafter, LanguageModel, Logits
from spec_cli.spec.padding import PaddedModel
from spec_cli.spec.policy import K_MAX, CostAware, FixedLength, Policy
from spec_cli.text import Output

_LEARNED_POSITIONS = ("gpt2", "starcoder")
_N_TARGET_ROWS = 64  # the longest draft that can be asked for, and one
_N_DRAFT_ROWS = 2  # as many as are timed


@dataclass(frozen=True, slots=True)
class Arm:
    """Who drafts in a generation, how many tokens, and the rule that accepts them."""

    rule: AcceptanceRule
    drafter: Drafter
    policy: Policy


class Session:
    """A loaded pair, ready to generate. Use as a context manager.

    `prepare` makes the contexts and settles who drafts; `generate` may then be called repeatedly.
    Preparing again keeps what is large enough. Each model is loaded at most once.
    """

    def __init__(
        self,
        target: Path,
        draft: Path | None,
        settings: SessionSettings,
        environment: Environment,
    ) -> None:
        """Check both headers, then load the target.

        Raises ModelError, PairError, ResourceError, UsageError or Cancelled.
        """
        self.settings, self._env = settings, environment
        self.target_header = read_header(target)
        self.kind = _drafter_kind(settings.drafter, draft)
        self.draft_header: Header | None = None
        self._pair: PairReport | None = None
        if draft is not None and self.kind is DrafterKind.MODEL:
            self.draft_header = read_header(draft)
            self._pair = check_pair(self.target_header, self.draft_header)
            for notice in self._pair.notes:
                environment.notify(notice)
        self.drafting_off: str | None = None
        self.costs: CostTable | None = None
        self._draft_model: LlamaModel | None = None
        self._target: LanguageModel | None = None
        self._draft: LlamaContext | None = None
        self._loader = Loader(settings, environment)
        try:
            self.model, self.plan = self._loader.target(target)
        except BaseException:
            self.close()
            raise
        self._limit_drafts()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Free everything."""
        self._loader.close()

    @property
    def n_threads(self) -> int:
        """How many threads compute."""
        return self._loader.n_threads

    @property
    def devices(self) -> tuple[Device, ...]:
        """What the target is offloaded to; none is the CPU."""
        return self._loader.devices

    @property
    def n_ctx(self) -> int:
        """Size of the target's context in tokens."""
        assert self._target is not None, "prepare the session first"
        return self._target.n_ctx

    def prepare(self, n_prompt: int, max_tokens: int | None) -> None:
        """Make contexts that hold the prompt and its answer, and settle who drafts.

        Raises UsageError when the prompt does not fit, ResourceError when memory does not.
        """
        n_ctx = self._context_size(n_prompt, max_tokens)
        if self._target is not None and n_ctx <= self._target.n_ctx:
            return
        self._loader.close_contexts()
        self._target = self._target_context(n_ctx)
        times = self.plan.padded_times()
        if self.drafter_name == "none":
            return
        if self.kind is DrafterKind.NGRAM:
            self._settle(CostTable(times, draft_token_s=0.0))
        else:
            self._prepare_draft(times, n_ctx)

    def generate(
        self, prompt: Sequence[int], generation: GenerationSettings, arm: Arm | None = None
    ) -> Iterator[Event]:
        """The events of one generation, by `arm` or as the settings say.

        Raises what `Decoder.generate` raises.
        """
        assert self._target is not None, "prepare the session first"
        if self.drafting_off is not None and arm is None:
            yield DraftingOff(self.drafting_off)
        arm = arm or self.arm(generation, self.settings.draft_tokens)
        decoder = Decoder(
            self._target,
            arm.drafter,
            arm.rule,
            arm.policy,
            clock=self._env.clock,
            cancelled=self._env.cancelled,
        )
        max_tokens = self._target.n_ctx if generation.max_tokens is None else generation.max_tokens
        output = Output(
            self.model.piece, self.model.is_end, stop=generation.stop, max_tokens=max_tokens
        )
        yield from decoder.generate(prompt, output, plain_step_s=self.plain_step_s)

    def arm(
        self,
        generation: GenerationSettings,
        draft_tokens: int | None,
        kind: DrafterKind | None = None,
        rule: AcceptanceRule | None = None,
    ) -> Arm:
        """An arm for one generation.

        `draft_tokens` None leaves the length to the policy, `kind` None the drafter to the
        settings; `rule` None is the rule that `generation` asks for.
        """
        if rule is None:
            tie_margin = 0.0 if self.plan.is_exact else 2 * self.plan.max_difference
            rule = make_rule(
                generation.accept, generation.sampling, generation.seed, tie_margin=tie_margin
            )
        kind = kind or DrafterKind(self.drafter_name)
        return Arm(rule, self._drafter(kind, rule), self._policy(kind, draft_tokens))

    @property
    def k_max(self) -> int:
        """The longest draft that a pass of the target may verify."""
        return K_MAX if self.plan.max_width is None else min(K_MAX, self.plan.max_width - 1)

    @property
    def plain_step_s(self) -> float | None:
        """The cost table's time of a plain step, in seconds."""
        return self.costs.target(1) if self.costs else None

    @property
    def drafter_name(self) -> str:
        """Who drafts: `model`, `ngram` or `none`."""
        return "none" if self.drafting_off else str(self.kind)

    def _drafter(self, kind: DrafterKind, rule: AcceptanceRule) -> Drafter:
        if kind is DrafterKind.NONE:
            return NoDrafter()
        if kind is DrafterKind.NGRAM:
            return NgramDrafter()
        assert self._draft is not None and self._pair is not None
        return ModelDrafter(
            self._draft, rule, n_shared=self._pair.n_shared, is_end=self.model.is_end
        )

    def _policy(self, kind: DrafterKind, draft_tokens: int | None) -> Policy:
        if kind is DrafterKind.NONE:
            return FixedLength(0)
        if draft_tokens is not None:
            return FixedLength(
                draft_tokens if self.plan.max_width is None else min(draft_tokens, self.k_max)
            )
        assert self.costs is not None
        costs = self.costs if kind is DrafterKind.MODEL else replace(self.costs, draft_token_s=0.0)
        return CostAware(costs, self.k_max)

    def _limit_drafts(self) -> None:
        """Say where the model, or the widths allowed, limit what can be drafted."""
        asked = self.settings.draft_tokens
        if self.kind is DrafterKind.NONE:
            return
        if not self.model.can_roll_back:
            self.drafting_off = "the target's memory is recurrent: it cannot forget rejected tokens"
        elif self.plan.max_width == 1:
            self.drafting_off = "no wider pass gives the bits of a plain step here"
        elif self.plan.max_width is not None and asked is not None and asked > self.k_max:
            tokens = "1 token" if self.k_max == 1 else f"{self.k_max} tokens"
            self._env.notify(
                Notice(
                    f"drafts are cut to {tokens}: wider passes may give other bits",
                    "use `--exact off` for longer ones",
                )
            )

    def _prepare_draft(self, target_times: PassTimes, n_ctx: int) -> None:
        """Load the draft model, unless its stored costs already say that it cannot win."""
        assert self.draft_header is not None
        path = self.draft_header.path
        timer = self._loader.draft_timer(path, DRAFT_WIDTHS)
        if (known := timer.stored()) and self._settle(CostTable(target_times, known(1))):
            return
        model = self._draft_model = self._draft_model or self._loader.draft(path)
        if not model.can_roll_back:
            self.drafting_off = "the draft's memory is recurrent: it cannot forget rejected tokens"
            return
        self._draft = self._loader.context(
            model,
            ContextSettings(
                n_ctx=min(n_ctx, model.n_ctx_train),
                n_threads=self.n_threads,
                n_batch=self.settings.n_batch,
                n_rows=_N_DRAFT_ROWS,
            ),
        )
        if not known:
            self._settle(CostTable(target_times, self._measure(timer, self._draft)(1)))

    def _settle(self, costs: CostTable) -> bool:
        """Keep the cost table; True when even perfect guesses lose and no draft length is fixed."""
        self.costs = costs
        if self.settings.draft_tokens is None:
            self.drafting_off = costs.verdict(self.k_max)
        return self.drafting_off is not None

    def _target_context(self, n_ctx: int) -> LanguageModel:
        """The target's context, with cells and rows for padding beyond what is asked for."""
        n_batch, kernels, n_pad = self.settings.n_batch, self.plan.kernels, self.plan.max_width or 0
        context = self._loader.context(
            self.model,
            ContextSettings(
                n_ctx=n_ctx + n_pad,
                n_threads=self.n_threads,
                n_batch=max(n_batch, n_pad),
                n_rows=min(_N_TARGET_ROWS, max(n_batch, n_pad)),
                k_type=kernels.k_type,
                v_type=kernels.v_type,
            ),
        )
        if not self.plan.is_exact:
            return context
        return PaddedModel(context, self.plan, n_ctx=n_ctx, n_batch=n_batch)

    def _context_size(self, n_prompt: int, max_tokens: int | None) -> int:
        trained = self.model.n_ctx_train
        asked = self.settings.n_ctx
        if asked is None:
            answer = AUTO_CTX_ANSWER if max_tokens is None else max_tokens
            n_ctx = min(trained, max(MIN_AUTO_CTX, n_prompt + answer))
        else:
            n_ctx = asked
            if asked > trained:
                self._env.notify(
                    Notice(
                        f"the context of {asked} tokens is longer than the {trained} that "
                        "the model was trained for; its answers may degrade",
                        level="warning",
                    )
                )
        if self.target_header.architecture in _LEARNED_POSITIONS:
            # There are no more of them, and padding stands after the last token.
            n_ctx = min(n_ctx, trained - (self.plan.max_width or 0))
        if n_prompt > n_ctx:
            raise _prompt_too_long(n_prompt, n_ctx, trained)
        return n_ctx

    def _measure(self, timer: PassTimer, context: LlamaContext) -> PassTimes:
        self._env.progress("measuring what a guess costs here (once)", None)
        return timer.measure(context)

    def rows_after(self, tokens: Sequence[int]) -> tuple[Logits, Logits]:
        """The logits of target and draft after all `tokens` but the last, and after all of them.

        Each has shape [2, n_shared]: the ids that mean the same in both vocabularies.
        """
        assert self._target is not None and self._draft is not None and self._pair is not None
        rows = []
        for model in (self._target, self._draft):
            model.rollback(0)
            for start in range(0, len(tokens) - 2, model.n_batch):
                model.eval(tokens[start : min(start + model.n_batch, len(tokens) - 2)], n_rows=0)
            rows.append(model.eval(tokens[-2:])[:, : self._pair.n_shared].copy())
        return rows[0], rows[1]


def _drafter_kind(asked: DrafterKind, draft: Path | None) -> DrafterKind:
    if asked is DrafterKind.MODEL and draft is None:
        raise UsageError(
            "`--drafter model` needs a draft model",
            hint="name one with `--draft-model`, or use `--drafter ngram`",
        )
    if asked is DrafterKind.AUTO:
        return DrafterKind.MODEL if draft is not None else DrafterKind.NGRAM
    return asked


def _prompt_too_long(n_prompt: int, n_ctx: int, trained: int) -> UsageError:
    longest = f"this model was trained for {trained} tokens"
    hint = f"use `--ctx-size {n_prompt + 256}`" if n_prompt < trained else f"shorten it: {longest}"
    return UsageError(f"the prompt has {n_prompt} tokens, but the context holds {n_ctx}", hint=hint)
