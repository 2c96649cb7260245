"""What a pass costs on this machine, and what drafting could gain at those costs.

    S(k) = (1 + sum of A_i, i = 1..k) * t(1) / (k * d + t(k + 1))

is the speed-up over plain decoding of rounds that draft k tokens: A_i is the probability that the
first i draft tokens are all accepted, t(w) the time of a target pass over w rows, d the time of
drafting one token (Leviathan et al. 2023, theorem 3.8, with measured t in place of a flat one).
t is neither flat nor convex on real kernels, so the best k is searched for, not derived.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from spec_cli.spec.counts import counted
from spec_cli.spec.interfaces import LanguageModel, Weights
from spec_cli.spec.settings import MAX_ROWS

TARGET_WIDTHS = (1, 2, 3, 4, 6, 8, 12, MAX_ROWS)
DRAFT_WIDTHS = (1, 2, 4, 8, 64, 256)  # one guess, catching up, and reading a prompt


@dataclass(frozen=True, slots=True)
class PassTimes:
    """Seconds of one pass by its width in rows: `seconds[i]` belongs to `widths[i]`, ascending."""

    widths: tuple[int, ...]
    seconds: tuple[float, ...]

    def __call__(self, width: int) -> float:
        """Seconds of a pass over `width` rows, interpolated; beyond the table in proportion."""
        if width <= self.widths[-1]:
            return float(np.interp(width, self.widths, self.seconds))
        return self.seconds[-1] * width / self.widths[-1]

    def of(self, widths: Sequence[int]) -> Weights:
        """Seconds of passes of several widths."""
        if max(widths) <= self.widths[-1]:
            return np.interp(widths, self.widths, self.seconds)
        return np.array([self(width) for width in widths])

    def shortest(self, other: PassTimes) -> PassTimes:
        """These times, or those of `other` for widths that it has shorter ones of."""
        known = dict(zip(other.widths, other.seconds, strict=True))
        seconds = zip(self.widths, self.seconds, strict=True)
        return PassTimes(self.widths, tuple(min(s, known.get(width, s)) for width, s in seconds))

    def at(self, n_past: int) -> PassTimes:
        """The times after `n_past` tokens: these, however many."""
        return self


@dataclass(frozen=True, slots=True)
class TimesByLength:
    """Pass times after few tokens and after `n_long`; between and beyond them they grow evenly."""

    short: PassTimes
    long: PassTimes
    n_long: int

    def at(self, n_past: int) -> PassTimes:
        """The times after `n_past` tokens. A longer context is never taken to be faster."""
        share = n_past / self.n_long
        seconds = (
            s + share * max(0.0, n - s)
            for s, n in zip(self.short.seconds, self.long.seconds, strict=True)
        )
        return PassTimes(self.short.widths, tuple(seconds))


@dataclass(frozen=True, slots=True)
class CostTable:
    """Pass times of the target, and the seconds that drafting one token takes (0: it is free)."""

    target: PassTimes
    draft_token_s: float

    def speedup(self, k: int, acceptance: float) -> float:
        """S(k) when each draft token is accepted with probability `acceptance`, given the last."""
        n_emitted = sum(acceptance**i for i in range(k + 1))
        return n_emitted * self.target(1) / (k * self.draft_token_s + self.target(k + 1))

    def best(self, acceptance: float, k_max: int) -> tuple[int, float]:
        """The k in 1..k_max with the largest S(k), and that S; (0, 1.0) when no k is allowed."""
        return max(
            ((k, self.speedup(k, acceptance)) for k in range(1, k_max + 1)),
            key=lambda entry: entry[1],
            default=(0, 1.0),
        )

    def verdict(self, k_max: int) -> str | None:
        """Why drafting cannot win here even if every guess were right; None when it can."""
        k, speedup = self.best(1.0, k_max)
        if speedup > 1:
            return None
        draft = self.draft_token_s / self.target(1)
        verify = self.target(k + 1) / self.target(1)
        return (
            f"even perfect guesses would lose: drafting {counted(k, 'token')} takes "
            f"{k * draft:.2f} and checking {counted(k + 1, 'token')} at once {verify:.2f} of a "
            f"plain step, {speedup:.2f}x plain at best"
        )


def measure_passes(
    model: LanguageModel,
    widths: Sequence[int],
    *,
    clock: Callable[[], float],
    n_rounds: int = 3,
) -> PassTimes:
    """Time passes of each width: the minimum of `n_rounds`, interleaved.

    The widest is timed once, on an empty context; the others after it, so that they attend to as
    many tokens. Each gives the logits of its last row, as a pass of a draft model does. The first
    pass is not counted (it warms caches up). The model is left empty.
    """
    *narrower, widest = sorted(widths)
    _time_pass(model, (), 1, clock)
    prefix_s = _time_pass(model, (), widest, clock)
    seconds = dict.fromkeys(narrower, float("inf"))
    prefix = _any_tokens(model, widest)
    model.eval(prefix, n_rows=0)
    for _ in range(n_rounds):
        for width in seconds:
            seconds[width] = min(seconds[width], _time_pass(model, prefix, width, clock))
    model.keep(())
    return PassTimes((*seconds, widest), (*seconds.values(), prefix_s))


def _time_pass(
    model: LanguageModel, prefix: Sequence[int], width: int, clock: Callable[[], float]
) -> float:
    """Seconds of a pass after `prefix`, which the model has evaluated, and keeps alone."""
    model.keep(prefix)  # where a recurrent memory can go back to
    started = clock()
    model.eval(_any_tokens(model, width), n_rows=1)
    elapsed = clock() - started
    model.keep(prefix)
    return elapsed


def _any_tokens(model: LanguageModel, n: int) -> list[int]:
    return [i % model.n_vocab for i in range(1, n + 1)]
