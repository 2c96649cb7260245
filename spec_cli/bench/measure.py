"""What one run took and gave."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from spec_cli.bench.limits import Limits
from spec_cli.bench.matrix import Arm
from spec_cli.events import Finished


@dataclass(frozen=True, slots=True)
class Measure:
    """Figures of one run, with the definitions of `spec.stats`; times are in seconds.

    `first_difference` is the number of tokens that equal the first ones of plain decoding, None
    when all of them are equal.
    """

    n_prompt: int
    n_tokens: int
    finish_reason: str
    tokens_sha256: str
    first_difference: int | None
    ttft_s: float | None
    prefill_s: float
    draft_s: float
    verify_s: float
    host_s: float
    n_rounds: int
    n_drafting_rounds: int
    n_drafted: int
    n_accepted: int
    drafted_at: tuple[int, ...]
    accepted_at: tuple[int, ...]

    @property
    def decode_s(self) -> float:
        """Time of all rounds."""
        return self.draft_s + self.verify_s + self.host_s

    @property
    def token_s(self) -> float:
        """Decode time per token."""
        return self.decode_s / self.n_tokens


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a group, and under which conditions it was made.

    Plain decoding runs twice in a group, in `turn` 0 before the other arms and 1 after them:
    `plain_token_s` is the mean of its two times per token, `noise` how far the larger exceeds the
    smaller. `load` is the machine's load average before the group, None where it has none.
    `limits` are those of drafting the plain text, None where they are not known.
    """

    arm: Arm
    prompt: str
    kind: str
    prompt_sha256: str
    temp: float
    round: int
    attempt: int
    turn: int
    load: float | None
    plain_token_s: float
    noise: float
    measure: Measure
    limits: Limits | None = None

    @property
    def speedup(self) -> float:
        """Plain time over this run's, per token."""
        return self.plain_token_s / self.measure.token_s


def measure_of(finished: Finished, plain: Sequence[int]) -> Measure:
    """The figures of a run that has finished, its tokens compared with those of `plain`."""
    stats = finished.stats
    n_unaccepted = len(stats.drafted_at) - len(stats.accepted_at)
    return Measure(
        n_prompt=stats.n_prompt,
        n_tokens=stats.n_emitted,
        finish_reason=str(finished.reason),
        tokens_sha256=hashlib.sha256(repr(list(finished.tokens)).encode()).hexdigest(),
        first_difference=_first_difference(finished.tokens, plain),
        ttft_s=stats.ttft_s,
        prefill_s=stats.prefill_s,
        draft_s=stats.draft_s,
        verify_s=stats.verify_s,
        host_s=stats.host_s,
        n_rounds=stats.n_rounds,
        n_drafting_rounds=stats.n_drafting_rounds,
        n_drafted=stats.n_drafted,
        n_accepted=stats.n_accepted,
        drafted_at=tuple(stats.drafted_at),
        accepted_at=(*stats.accepted_at, *(0,) * n_unaccepted),
    )


def _first_difference(tokens: Sequence[int], plain: Sequence[int]) -> int | None:
    pairs = enumerate(zip_longest(tokens, plain))
    return next((i for i, (ours, theirs) in pairs if ours != theirs), None)
