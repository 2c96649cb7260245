"""What a user can set, as values. Defaults stand here and in `SamplingSettings`, nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from spec_cli.errors import UsageError, wrong_value
from spec_cli.grammar.gbnf import parse_gbnf
from spec_cli.prompt import check_text
from spec_cli.spec.settings import Accept, Exact, SamplingSettings

ALL_LAYERS = -1
MAX_DRAFT_TOKENS = 63
MIN_AUTO_CTX = 8192
MAX_LOGPROBS = 20  # as the OpenAI API
AUTO_CTX_ANSWER = 4096  # room for an answer of unlimited length, when the context size is automatic


class DrafterKind(StrEnum):
    """Who proposes tokens: a draft model, copies of earlier text, or both in a chain.

    `auto`: both where there is a draft model, else copies.
    """

    AUTO = "auto"
    CHAIN = "chain"
    MODEL = "model"
    NGRAM = "ngram"
    NONE = "none"

    @property
    def needs_model(self) -> bool:
        """Whether a draft model takes part."""
        return self in (DrafterKind.CHAIN, DrafterKind.MODEL)


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """How a pair is loaded and run. None stands for: decided on this machine.

    `draft_tokens` is the fixed draft length, None lets the policy choose; `n_gpu_layers` counts
    layers on the GPU, ALL_LAYERS is every one; sizes are in tokens. `draft_copy`: a smaller copy
    of the draft model may draft in its place, where that is faster. `index`: answers are kept on
    this machine, and drafts may be copied from them.
    """

    drafter: DrafterKind = DrafterKind.AUTO
    draft_tokens: int | None = None
    n_ctx: int | None = None
    n_batch: int = 512
    n_threads: int | None = None
    n_gpu_layers: int | None = None
    device: str | None = None
    draft_device: str | None = None
    exact: Exact = Exact.AUTO
    draft_copy: bool = True
    index: bool = False

    def __post_init__(self) -> None:
        hint = "`--no-draft` decodes plainly" if self.draft_tokens == 0 else None
        _require("--draft-tokens", self.draft_tokens, 1, MAX_DRAFT_TOKENS, hint)
        _require("--ctx-size", self.n_ctx, 1, 2**31 - 1)
        _require("--batch-size", self.n_batch, 1, 2**16)
        if self.draft_tokens is not None and self.draft_tokens >= self.n_batch:
            raise UsageError(
                f"--draft-tokens is {self.draft_tokens}, but --batch-size is {self.n_batch}",
                hint="the batch must hold the draft and one token more",
            )
        _require("--threads", self.n_threads, 1, 1024)
        _require("--gpu-layers", self.n_gpu_layers, ALL_LAYERS, 2**16)


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """How one answer is generated; `max_tokens` None: until the model stops or the context ends.

    `grammar` is GBNF that the whole answer follows, but not the reasoning before it. `ignore_eos`:
    the model may not end it. `n_logprobs`: each token comes with its log-probability and those of
    so many likeliest ones.
    """

    seed: int
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    accept: Accept = Accept.COUPLED
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    grammar: str | None = None
    ignore_eos: bool = False
    n_logprobs: int | None = None

    def __post_init__(self) -> None:
        _require("--seed", self.seed, 0, 2**64 - 1, "without it, one is chosen and reported")
        _require("--logprobs", self.n_logprobs, 0, MAX_LOGPROBS)
        if self.grammar is not None:
            if self.ignore_eos:
                raise UsageError(
                    "`--ignore-eos` leaves a grammar no way to end",
                    hint="leave it out: an answer ends where its grammar ends",
                )
            parse_gbnf(check_text(self.grammar, "--grammar"))
        no_end = "without it, the answer ends where the model ends it"
        _require("--max-tokens", self.max_tokens, 0, 2**31 - 1, no_end)
        for stop in self.stop:
            if not check_text(stop, "--stop"):
                raise UsageError("--stop is empty", hint="give the text to stop at")


def _require(flag: str, value: int | None, low: int, high: int, hint: str | None = None) -> None:
    if value is not None and not low <= value <= high:
        raise wrong_value(flag, value, f"from {low} to {high}", hint=hint)
