"""What happens during a run: the engine yields these values, renderers and benchmarks use them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from spec_cli.spec.stats import RunStats

if TYPE_CHECKING:
    from spec_cli.spec.interfaces import Draft  # needs numpy


class Origin(StrEnum):
    """Where a committed token came from."""

    DRAFT = "draft"  # proposed by the drafter, accepted by the target
    CORRECTION = "correction"  # the target's choice in place of the first rejected draft token
    BONUS = "bonus"  # the target's choice after every draft token was accepted
    PLAIN = "plain"  # the target's choice in a round without a draft
    GIVEN = "given"  # not generated: the beginning of the answer that the user gave


class FinishReason(StrEnum):
    """Why a generation ended."""

    STOP = "stop"  # an end-of-generation token
    STOP_STRING = "stop_string"  # one of the user's stop strings
    LENGTH = "length"  # max tokens, or the context is full
    INTERRUPTED = "interrupted"  # SIGINT, SIGTERM or a closed pipe


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the user should know that is not an error."""

    message: str
    hint: str | None = None
    level: str = "info"  # "info" or "warning"


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """`done` of `total` prompt tokens have been evaluated by the target."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class PromptText:
    """The text of the prompt, where the user wants to see it before the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Text of the answer that became final: whole characters, never part of a stop string.

    `tokens` are the ids committed since the previous delta. `origin` is that of the token
    which completed the text.
    """

    text: str
    tokens: tuple[int, ...]
    origin: Origin


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """Text that comes before the answer, as `TextDelta`: what the model says to itself."""

    text: str
    tokens: tuple[int, ...]
    origin: Origin


@dataclass(frozen=True, slots=True)
class RoundDetail:
    """The tokens of a round that began after `position` tokens.

    Of `draft` the first ones were verified; `committed` came of them, each from its `origins`, and
    `n_near_ties` of these were near-ties. `n_expected` tokens the policy expected to commit; None
    where it expects nothing.
    """

    position: int
    draft: Draft
    committed: tuple[int, ...]
    origins: tuple[Origin, ...]
    n_near_ties: int
    n_expected: float | None


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token and its natural log-probability. `piece` is None for a token without text."""

    token: int
    name: str  # its text, or what a token without text is called
    piece: bytes | None
    logprob: float


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """A committed token with its log-probability, and the likeliest tokens in its place.

    They are those of the target's own logits: no bias, constraint, penalty, filter or temperature.
    """

    chosen: TokenLogprob
    likeliest: tuple[TokenLogprob, ...]


@dataclass(frozen=True, slots=True)
class TokensScored:
    """The tokens that a round committed, in order; only where scores are asked for."""

    tokens: tuple[ScoredToken, ...]


@dataclass(frozen=True, slots=True)
class RoundDone:
    """One round: propose, verify, commit. Times are in seconds.

    `n_drafted` tokens were verified in one target pass of `width` rows, `n_accepted` of them
    were kept, and `n_emitted` tokens were committed (the correction or bonus token included).
    `detail` says which. `plain_step_s` is what a plain step takes now by the costs, where they are
    known.
    """

    index: int
    width: int
    n_drafted: int
    n_accepted: int
    n_emitted: int
    draft_s: float
    verify_s: float
    host_s: float
    detail: RoundDetail | None = None
    plain_step_s: float | None = None


@dataclass(frozen=True, slots=True)
class DraftingOff:
    """Nothing is drafted, or, at the end of a run, nothing was: `reason` says why, with numbers."""

    reason: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a run. `tokens` are all committed ids, the end-of-generation token included."""

    reason: FinishReason
    tokens: tuple[int, ...]
    stats: RunStats
    stop: str | None = None  # the stop string that matched


Event = (
    Notice
    | PromptProgress
    | PromptText
    | ReasoningDelta
    | TextDelta
    | RoundDone
    | TokensScored
    | DraftingOff
    | Finished
)
