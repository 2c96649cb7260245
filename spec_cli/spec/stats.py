"""Counters of one run and the figures derived from them.

Definitions (used everywhere: panel, summary, JSON, docs):

* acceptance rate   = accepted / verified draft tokens
* acceptance length = tokens emitted per target pass, the correction or bonus token included
* speed-up          = plain time / this run's time, for the same tokens

Memory is bounded: whole-run counters, plus a window of the last rounds for the live figures.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

RECENT_ROUNDS = 32
MIN_PLAIN_STEPS = 8  # plain steps after which their mean counts as measured


@dataclass(frozen=True, slots=True)
class RoundCount:
    """What one round did, in tokens; `n_near_ties` of those chosen were near-ties."""

    n_drafted: int
    n_accepted: int
    n_emitted: int
    n_near_ties: int = 0


@dataclass(frozen=True, slots=True)
class SpeedUp:
    """Plain time over this run's time. `measured` says where the plain step's time is from:
    plain steps of this very run (True) or the corrected cost table (False)."""

    ratio: float
    measured: bool


@dataclass(slots=True)
class RunStats:
    """All counters of a run. Times are in seconds.

    `n_cached` of the `n_prompt` tokens were in the KV cache already: they took no time.
    `plain_step_estimate_s` is the time of a plain step by the cost table, corrected by the passes
    of this run, when there is a table.
    """

    n_prompt: int = 0
    n_cached: int = 0
    prefill_s: float = 0.0
    ttft_s: float | None = None
    n_rounds: int = 0
    n_drafting_rounds: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    n_emitted: int = 0
    n_near_ties: int = 0
    draft_s: float = 0.0
    verify_s: float = 0.0
    host_s: float = 0.0
    drafted_at: list[int] = field(default_factory=list)
    accepted_at: list[int] = field(default_factory=list)
    accepted_histogram: list[int] = field(default_factory=list)
    recent: deque[RoundCount] = field(default_factory=lambda: deque(maxlen=RECENT_ROUNDS))
    plain_step_estimate_s: float | None = None
    n_plain_steps: int = 0
    plain_steps_s: float = 0.0

    def add_round(
        self, count: RoundCount, *, draft_s: float, verify_s: float, host_s: float
    ) -> None:
        """Count one round."""
        self.n_rounds += 1
        self.n_drafted += count.n_drafted
        self.n_accepted += count.n_accepted
        self.n_emitted += count.n_emitted
        self.n_near_ties += count.n_near_ties
        self.draft_s += draft_s
        self.verify_s += verify_s
        self.host_s += host_s
        self.recent.append(count)
        if count.n_drafted:
            self.n_drafting_rounds += 1
            _add_ones(self.drafted_at, count.n_drafted)
            _add_ones(self.accepted_at, count.n_accepted)
            _grow(self.accepted_histogram, count.n_accepted + 1)
            self.accepted_histogram[count.n_accepted] += 1
        else:
            self.n_plain_steps += 1
            self.plain_steps_s += verify_s + host_s

    @property
    def decode_s(self) -> float:
        """Time of all rounds: draft, verify and host."""
        return self.draft_s + self.verify_s + self.host_s

    @property
    def tokens_per_s(self) -> float | None:
        """Emitted tokens over decode time; prefill and load are not in it."""
        return self.n_emitted / self.decode_s if self.decode_s > 0 else None

    @property
    def prompt_tokens_per_s(self) -> float | None:
        """Prompt tokens, less those that were cached, over prefill time."""
        return (self.n_prompt - self.n_cached) / self.prefill_s if self.prefill_s > 0 else None

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted over verified draft tokens; None when nothing was drafted."""
        return self.n_accepted / self.n_drafted if self.n_drafted else None

    @property
    def recent_acceptance_rate(self) -> float | None:
        """The acceptance rate over the last rounds."""
        n_drafted = sum(r.n_drafted for r in self.recent)
        return sum(r.n_accepted for r in self.recent) / n_drafted if n_drafted else None

    @property
    def acceptance_length(self) -> float | None:
        """Tokens emitted per target pass."""
        return self.n_emitted / self.n_rounds if self.n_rounds else None

    @property
    def acceptance_rate_at(self) -> list[float]:
        """Share of the drafts with at least i+1 tokens whose token i was accepted."""
        padded = self.accepted_at + [0] * (len(self.drafted_at) - len(self.accepted_at))
        return [a / d for a, d in zip(padded, self.drafted_at, strict=True)]

    @property
    def plain_step_s(self) -> float | None:
        """Time of one plain step: the mean of this run's, else the estimate.

        A mean, because the run's own time is a sum: what disturbs one disturbs the other.
        """
        if self._has_measured_plain_step:
            return self.plain_steps_s / self.n_plain_steps
        return self.plain_step_estimate_s

    @property
    def speedup(self) -> SpeedUp | None:
        """This run against plain decoding; None when the plain step's time is unknown."""
        step_s = self.plain_step_s
        if step_s is None or self.decode_s <= 0:
            return None
        ratio = self.n_emitted * step_s / self.decode_s
        return SpeedUp(ratio, self._has_measured_plain_step)

    @property
    def _has_measured_plain_step(self) -> bool:
        return self.n_plain_steps >= MIN_PLAIN_STEPS


def _grow(counts: list[int], n: int) -> None:
    counts.extend([0] * (n - len(counts)))


def _add_ones(counts: list[int], n: int) -> None:
    _grow(counts, n)
    for i in range(n):
        counts[i] += 1
