"""The options that `run` and `chat` share, and the settings that they stand for."""

from __future__ import annotations

from dataclasses import dataclass

from spec_cli.cli import options as opt
from spec_cli.cli import sampling_options as sampling_opt
from spec_cli.cli import structure_options as structure_opt
from spec_cli.cli.option_values import count, refuse_both
from spec_cli.settings import ALL_LAYERS, DrafterKind, SessionSettings
from spec_cli.spec.settings import Accept, SamplingSettings

_SAMPLING = SamplingSettings()
_SESSION = SessionSettings()


@dataclass(frozen=True, slots=True)
class Drafting:
    """Who drafts, how much, and what accepts it."""

    drafter: opt.Drafter = _SESSION.drafter
    draft_original: opt.DraftOriginal = False
    index: opt.Index = _SESSION.index
    no_draft: opt.NoDraft = False
    draft_tokens: opt.DraftTokens = None
    accept: opt.AcceptRule = Accept.COUPLED
    exact: opt.ExactMode = _SESSION.exact

    @property
    def kind(self) -> DrafterKind:
        """The drafter. Raises UsageError where two are asked for."""
        is_named = self.drafter is not _SESSION.drafter
        refuse_both("--no-draft", self.no_draft, "--drafter", is_named)
        return DrafterKind.NONE if self.no_draft else self.drafter

    def length(self, of_pair: int | None) -> int | None:
        """The draft length; that of the pair where no other is asked for. Raises UsageError."""
        if self.draft_tokens is None:
            return of_pair
        return count("--draft-tokens", self.draft_tokens)


@dataclass(frozen=True, slots=True)
class Machine:
    """Where a pair runs, and how much of it is used."""

    ctx_size: opt.CtxSize = None
    threads: opt.Threads = None
    gpu_layers: opt.GpuLayers = "auto"
    device: opt.Device = None
    draft_device: opt.DraftDevice = None
    batch_size: opt.BatchSize = _SESSION.n_batch


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is drawn."""

    temp: sampling_opt.Temp = _SAMPLING.temp
    top_k: sampling_opt.TopK = _SAMPLING.top_k
    top_p: sampling_opt.TopP = _SAMPLING.top_p
    min_p: sampling_opt.MinP = _SAMPLING.min_p
    repeat_penalty: sampling_opt.RepeatPenalty = _SAMPLING.repeat_penalty
    repeat_last_n: sampling_opt.RepeatLastN = _SAMPLING.repeat_last_n
    presence_penalty: sampling_opt.PresencePenalty = _SAMPLING.presence_penalty
    frequency_penalty: sampling_opt.FrequencyPenalty = _SAMPLING.frequency_penalty
    logit_bias: structure_opt.LogitBias = None

    def settings(self) -> SamplingSettings:
        """What they stand for. Raises UsageError."""
        return SamplingSettings(
            temp=self.temp,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            repeat_penalty=self.repeat_penalty,
            repeat_last_n=self.repeat_last_n,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            logit_bias=structure_opt.logit_bias(self.logit_bias or ()),
        )


@dataclass(frozen=True, slots=True)
class Structure:
    """What the answer follows."""

    grammar: structure_opt.Grammar = None
    grammar_file: structure_opt.GrammarFile = None
    json_schema: structure_opt.JsonSchema = None

    def gbnf(self) -> str | None:
        """The grammar, if there is one. Raises UsageError."""
        return structure_opt.grammar_of(self.grammar, self.grammar_file, self.json_schema)


def session_settings(
    drafting: Drafting, machine: Machine, draft_tokens: int | None
) -> SessionSettings:
    """How a pair whose draft length is `draft_tokens` is loaded and run. Raises UsageError."""
    return SessionSettings(
        drafter=drafting.kind,
        draft_tokens=draft_tokens,
        n_ctx=machine.ctx_size,
        n_batch=machine.batch_size,
        n_threads=machine.threads,
        n_gpu_layers=count("--gpu-layers", machine.gpu_layers, all_=ALL_LAYERS),
        device=machine.device,
        draft_device=machine.draft_device,
        exact=drafting.exact,
        draft_copy=not drafting.draft_original,
        index=drafting.index,
    )
