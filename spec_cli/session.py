"""From two files and the settings to a running pair.

A session owns both models and decides who drafts: before the draft model is loaded it asks the
stored cost table whether drafting can win on this machine at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from spec_cli import __version__
from spec_cli.arms import Arm, Arms
from spec_cli.constraining import Constraining, cut_notice
from spec_cli.draft_side import DraftSide
from spec_cli.drafting import Drafting, drafter_kind
from spec_cli.earlier import EarlierAnswers
from spec_cli.engine import Decoder
from spec_cli.events import DraftingOff, Event, Finished, FinishReason, Notice
from spec_cli.fitting import first_context
from spec_cli.gguf import Header, read_header
from spec_cli.learned import LearnedAcceptance
from spec_cli.llama.context import LlamaContext
from spec_cli.llama.devices import Device
from spec_cli.llama.model import LlamaModel
from spec_cli.loader import Environment, Loader
from spec_cli.logprobs import TokenScorer
from spec_cli.pairing import check_pair
from spec_cli.parallel import ParallelDecoder
from spec_cli.settings import (
    DrafterKind,
    GenerationSettings,
    SessionSettings,
)
from spec_cli.spec.costs import CostTable
from spec_cli.spec.exactness import ExactnessPlan
from spec_cli.spec.interfaces import AcceptanceRule, LanguageModel
from spec_cli.spec.shapes import ParallelPlan
from spec_cli.target_side import TargetSide
from spec_cli.text import NO_OPENING, Opening, Output

TARGET, DRAFT = "target", "draft"
NO_ANSWER = Notice(
    "the model did not end its reasoning: there is no answer",
    "give it more `--max-tokens`, or use `--no-think` where the model knows it",
    "warning",
)


class Session:
    """A loaded pair, ready to generate. Use as a context manager.

    `prepare` makes the contexts and settles who drafts; `generate` may then be called repeatedly.
    Preparing again keeps what is large enough. Each model is loaded at most once. What a prompt
    has in common with the text before it is not evaluated again, until `forget_text`.
    """

    def __init__(
        self,
        target: Path,
        draft: Path | None,
        settings: SessionSettings,
        environment: Environment,
    ) -> None:
        """Check both headers and the memory they need, then load the target.

        Raises ModelError, PairError, ResourceError, UsageError or Cancelled.
        """
        self.settings, self._env = settings, environment
        self.target_header = read_header(target)
        self.kind = drafter_kind(settings.drafter, draft)
        self._loader = Loader(settings, environment)
        self._draft: DraftSide | None = None
        if draft is not None and self.kind.needs_model:
            self._draft = self._draft_side(read_header(draft))
        self._drafting = Drafting(self.kind, self._draft, settings, environment)
        self._fit(first_context(settings, self.target_header))
        try:
            self._target = TargetSide(self.target_header, settings, self._loader, environment)
        except BaseException:
            self._loader.close()
            raise
        self._arms = Arms(
            self.plan,
            self._target.meter,
            self._draft,
            Constraining(self.model, environment.clock),
            is_end=self.model.is_end,
        )
        self._earlier: EarlierAnswers | None = None
        if settings.index:
            self._earlier = EarlierAnswers(self.target_header.vocab, state=environment.state)
            self._arms.earlier = self._earlier.load()
        self._drafting.limit(self._target, self.k_max)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Free everything. What generations have shown is kept first, where that is wanted."""
        try:
            self._arms.remember()
        finally:
            self._loader.close()

    @property
    def draft_header(self) -> Header | None:
        """That of the draft model, where one was asked for."""
        return self._draft.header if self._draft else None

    @property
    def drafter_name(self) -> str:
        """Who drafts: `chain`, `model`, `ngram` or `none`."""
        return self._drafting.name

    @property
    def drafting_off(self) -> str | None:
        """Why nothing is drafted, where that is known before the first token."""
        return self._drafting.off

    @property
    def costs(self) -> CostTable | None:
        """What passes and guesses take; None before `prepare`, and where nothing ever drafts."""
        return self._drafting.costs

    @property
    def draft_copy(self) -> str | None:
        """The file name of the copy that drafts in place of the draft model, if one does."""
        return self._draft.path.name if self._draft and self._draft.is_copy else None

    @property
    def n_threads(self) -> int:
        """How many threads compute."""
        return self._loader.n_threads

    @property
    def devices(self) -> tuple[Device, ...]:
        """What the target is offloaded to; none is the CPU."""
        return self._loader.devices

    @property
    def model(self) -> LlamaModel:
        """The target's weights and vocabulary."""
        return self._target.model

    @property
    def plan(self) -> ExactnessPlan:
        """What the target's passes keep to."""
        return self._target.plan

    @property
    def target(self) -> LanguageModel:
        """The target, all of whose passes keep to the exactness plan."""
        assert self._target.language_model is not None, "prepare the session first"
        return self._target.language_model

    @property
    def draft(self) -> LanguageModel | None:
        """The draft model, where it drafts."""
        return self._draft.context if self._draft else None

    @property
    def n_shared(self) -> int:
        """How many leading token ids mean the same to both models."""
        return self._draft.pair.n_shared if self._draft else self.target.n_vocab

    @property
    def has_learned_positions(self) -> bool:
        """Whether there are no positions beyond those that the target was trained for."""
        return self._target.has_learned_positions

    @property
    def n_ctx(self) -> int:
        """Size of the target's context in tokens."""
        return self.target.n_ctx

    @property
    def n_ctx_max(self) -> int:
        """The largest context that there can be: as asked for, or as the model was trained for."""
        return self._target.n_ctx_max

    def holds(self, n_tokens: int) -> bool:
        """Whether the contexts are made, and as large as that."""
        return self._target.holds(n_tokens)

    def contexts(self) -> dict[str, LlamaContext]:
        """The contexts in use: `TARGET`, and where it drafts `DRAFT`."""
        assert self._target.context is not None, "prepare the session first"
        draft = self._draft.context if self._draft else None
        return {TARGET: self._target.context, **({DRAFT: draft} if draft else {})}

    def bindings(self) -> dict[str, dict[str, Any]]:
        """What the states of `contexts` depend on besides the tokens."""
        run = {"program": __version__, "n_batch": self.settings.n_batch}
        bindings = {TARGET: run | self._target.binding()}
        if self._draft is not None:
            bindings[DRAFT] = run | self._draft.binding()
        return bindings

    def prepare(self, n_prompt: int, max_tokens: int | None) -> None:
        """Make contexts that hold the prompt and its answer, and settle who drafts.

        Raises UsageError when the prompt does not fit, ResourceError when memory does not.
        """
        n_ctx = self._target.context_size(n_prompt, max_tokens)
        if self.holds(n_ctx):
            return
        self._target.drop_contexts()
        self._fit(n_ctx)
        self._loader.close_contexts()
        self._target.make_context(n_ctx)
        self._drafting.settle(self._target, n_ctx, k_max=self.k_max, n_threads=self.n_threads)
        if self._draft is not None and self._env.learns and not self._target.never_drafts:
            self._arms.learned = LearnedAcceptance(
                self.target_header.path, self._draft.path, state=self._env.state
            )

    def room(self, n_prompt: int, max_tokens: int | None) -> int:
        """How many tokens may follow a prompt in a context that is made for it alone."""
        return self._target.context_size(n_prompt, max_tokens) + 1 - n_prompt

    def parallel_plan(self, n_texts: int) -> ParallelPlan:
        """How passes over several texts go. Raises ResourceError or Cancelled."""
        return self._loader.parallel_plan(self.model, self.plan, n_texts)

    def parallel(self, plan: ParallelPlan, n_texts: int, n_ctx: int) -> ParallelDecoder:
        """A decoder with places for `n_texts`, in contexts of `n_ctx` tokens each.

        It takes the place of all contexts that there are. Raises ResourceError.
        """
        self._target.drop_contexts()
        n_cells = self._target.n_cells(n_texts, n_ctx)
        self._loader.fitter.fit(self.target_header, None, n_cells)
        self._loader.close_contexts()
        return ParallelDecoder(
            self._target.make_sequences(n_texts, n_ctx),
            plan,
            self._target.meter,
            draft_tokens=self.settings.draft_tokens,
            clock=self._env.clock,
        )

    def generate(
        self,
        prompt: Sequence[int],
        generation: GenerationSettings,
        arm: Arm | None = None,
        *,
        opening: Opening = NO_OPENING,
    ) -> Iterator[Event]:
        """The events of one generation, by `arm` or as the settings say.

        Raises what `Decoder.generate` raises.
        """
        if self.drafting_off is not None and arm is None:
            yield DraftingOff(self.drafting_off)
        elif self._draft is not None and arm is None:
            yield from self._draft.too_short_for(len(prompt))
        draft_tokens = self.settings.draft_tokens
        arm = arm or self.arm(generation, draft_tokens, n_prompt=len(prompt), opening=opening)
        decoder = Decoder(
            self.target,
            arm.drafter,
            arm.rule,
            arm.policy,
            clock=self._env.clock,
            cancelled=self._env.cancelled,
            score=None
            if generation.n_logprobs is None
            else TokenScorer(self.model, generation.n_logprobs),
        )
        output = self.output(generation, self.n_ctx, opening)
        plain_step_s = self._target.plain_step_s if self.costs else None
        for event in decoder.generate(prompt, output, plain_step_s=plain_step_s):
            if isinstance(event, Finished):
                yield from self._target.contention()
                self.keep_answer(event.tokens)
                if not output.is_reasoning:
                    yield from cut_notice(event, arm.text)
                elif event.reason is not FinishReason.INTERRUPTED:
                    yield NO_ANSWER
            yield event

    def keep_answer(self, answer: Sequence[int]) -> None:
        """Keep an answer to copy from in later runs, where that was asked for."""
        if self._earlier:
            self._earlier.add(answer)

    def output(self, generation: GenerationSettings, n_ctx: int, opening: Opening) -> Output:
        """What the tokens of a generation become, in a context of `n_ctx` tokens."""
        max_tokens = n_ctx if generation.max_tokens is None else generation.max_tokens
        return Output(
            self.model.piece,
            self.model.is_end,
            stop=generation.stop,
            max_tokens=max_tokens,
            opening=opening,
        )

    def arm(
        self,
        generation: GenerationSettings,
        draft_tokens: int | None,
        kind: DrafterKind | None = None,
        rule: AcceptanceRule | None = None,
        *,
        n_prompt: int = 0,
        opening: Opening = NO_OPENING,
    ) -> Arm:
        """An arm for one generation.

        `draft_tokens` None leaves the length to the policy, `kind` None the drafter to the
        settings; `rule` None is the rule that `generation` asks for. A grammar begins after
        `n_prompt` tokens, or with the answer that `opening` tells of.
        """
        kind = kind or DrafterKind(self.drafter_name)
        return self._arms.arm(
            generation, draft_tokens, kind, rule, n_prompt=n_prompt, opening=opening
        )

    def rule(self, generation: GenerationSettings) -> AcceptanceRule:
        """The rule that `generation` asks for; it counts near-ties where rounding can matter."""
        return self._arms.rule(generation)

    @property
    def k_max(self) -> int:
        """The longest draft that a pass of the target may verify."""
        return self._arms.k_max

    @property
    def plain_step_s(self) -> float | None:
        """The cost table's time of a plain step, in seconds."""
        return self.costs.target(1) if self.costs else None

    def _draft_side(self, header: Header) -> DraftSide:
        pair = check_pair(self.target_header, header)
        for notice in pair.notes:
            self._env.notify(notice)
        return DraftSide(header, pair, self._loader, self._env)

    def _fit(self, n_ctx: int) -> None:
        self._loader.fitter.fit(self.target_header, self.draft_header, n_ctx)

    def forget(self) -> None:
        """Start the next generation with what a new session knows: nothing."""
        self._arms.forget()
        self.forget_text()

    def forget_text(self) -> None:
        """Let the next generation evaluate its whole prompt."""
        for model in (self._target.language_model, self.draft):
            if model is not None:
                model.keep(())
