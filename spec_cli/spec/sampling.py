"""From a row of logits to the tokens that may be chosen and their weights.

The order is llama.cpp's: penalties, top-k, top-p, min-p, temperature. Everything is a pure
function of the row, the recent tokens and the settings, so the target and the draft model are
processed alike. Work is done on candidates: few passes over the whole row, no sort of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spec_cli.errors import ModelError, UsageError
from spec_cli.spec.interfaces import Distribution, Ids, Logits, Weights

_N_GROUPS = 4096
_FLOORS = (1e-2, 1e-4, 1e-6, 0.0)  # weights above which the nucleus is looked for


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """Sampling parameters with llama.cpp's names, meaning and defaults.

    `temp` 0 is greedy decoding. `top_k` 0, `top_p` 1, `min_p` 0, `repeat_penalty` 1 and
    penalties of 0 switch that step off; `repeat_last_n` is the penalties' window in tokens.
    """

    temp: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0

    def __post_init__(self) -> None:
        _require("--temp", self.temp, self.temp >= 0, "0 or more")
        _require("--top-k", self.top_k, self.top_k >= 0, "0 or more")
        _require("--top-p", self.top_p, 0 < self.top_p <= 1, "above 0 and at most 1")
        _require("--min-p", self.min_p, 0 <= self.min_p <= 1, "from 0 to 1")
        in_range = 0.01 <= self.repeat_penalty <= 100
        _require("--repeat-penalty", self.repeat_penalty, in_range, "from 0.01 to 100")
        _require("--repeat-last-n", self.repeat_last_n, self.repeat_last_n >= 0, "0 or more")
        for flag, penalty in (
            ("--presence-penalty", self.presence_penalty),
            ("--frequency-penalty", self.frequency_penalty),
        ):
            _require(flag, penalty, abs(penalty) <= 100, "from -100 to 100")

    @property
    def n_history(self) -> int:
        """How many of the last tokens the penalties look at; 0 when there are none."""
        return self.repeat_last_n if self._penalises else 0

    @property
    def _penalises(self) -> bool:
        return self.repeat_penalty != 1 or self.presence_penalty != 0 or self.frequency_penalty != 0


@dataclass(frozen=True, slots=True)
class Candidates:
    """The tokens that may be chosen: `ids` ascending and their logits, both of shape [n].

    Their distribution is softmax(log_weights). The logits may be a view of the model's own row.
    """

    ids: Ids
    logits: Logits
    temp: float

    def take(self, indices: Ids) -> Candidates:
        """Some of the candidates."""
        return Candidates(self.ids[indices], self.logits[indices], self.temp)

    @property
    def log_weights(self) -> Weights:
        """Log weights [n], temperature applied; that of the likeliest is 0."""
        values = self.logits.astype(np.float64)
        with np.errstate(over="ignore"):  # a tiny temperature leaves the maximum alone, at 0
            return (values - values.max()) / self.temp

    def distribution(self) -> Distribution:
        """softmax(log_weights); tokens whose probability is 0 in double precision are left out."""
        weights = np.exp(self.log_weights)
        kept = weights > 0
        weights = weights[kept]
        return Distribution(self.ids[kept], weights / weights.sum())


def candidates(logits: Logits, history: Sequence[int], settings: SamplingSettings) -> Candidates:
    """The tokens that survive the filters after `history`; needs a temperature above 0.

    Raises ModelError when the largest logit is not a number, or no token is allowed.
    """
    row = penalised(logits, history, settings)
    if 0 < settings.top_k < row.size:
        ids = top_k(row, settings.top_k)
        values = row[ids]
    else:
        ids, values = np.arange(row.size), row
    require_finite(values.max())
    if settings.top_p < 1:
        kept = top_p(values, settings.top_p)
        ids, values = ids[kept], values[kept]
    if settings.min_p > 0:
        kept = min_p(values, settings.min_p)
        ids, values = ids[kept], values[kept]
    return Candidates(ids, values, settings.temp)


def require_finite(maximum: np.float32) -> None:
    """Raises ModelError when the largest logit of a row is NaN or infinite: nothing to choose."""
    if not math.isfinite(maximum):
        raise ModelError(
            f"the model's logits cannot be used: the largest of them is {maximum}",
            hint="try `--gpu-layers 0`, or another quantisation of the model",
        )


def penalised(logits: Logits, history: Sequence[int], settings: SamplingSettings) -> Logits:
    """Logits [n_vocab] with the repeat, presence and frequency penalties of recent tokens.

    As llama.cpp (llama_sampler_init_penalties): a positive logit is divided by the repeat
    penalty, another multiplied; then count * frequency + presence is taken off.
    """
    n = settings.n_history
    if n == 0 or not history:
        return logits
    counts = Counter(history[-n:])
    ids = np.fromiter(counts.keys(), dtype=np.int64, count=len(counts))
    times = np.fromiter(counts.values(), dtype=np.float32, count=len(counts))
    row = logits.copy()
    seen = row[ids]
    seen = np.where(seen > 0, seen / settings.repeat_penalty, seen * settings.repeat_penalty)
    row[ids] = seen - (times * settings.frequency_penalty + settings.presence_penalty)
    return row


def top_k(row: Logits, k: int) -> Ids:
    """The indices of the `k` largest of `row`, ascending; NaN counts as the largest.

    Of equal ones the first stay. The k largest maxima of groups are k different elements, so only
    groups whose maximum is at least the least of those can hold one of the k largest.
    """
    maxima = _group_maxima(row)
    least = np.partition(maxima, -k)[-k] if k <= maxima.size else -np.inf
    groups = np.flatnonzero(~(maxima < least))
    ids = (np.arange(0, row.size, _N_GROUPS)[:, np.newaxis] + groups).ravel()
    ids = ids[ids < row.size]
    values = row[ids]
    return ids[_first_largest(values, k, np.partition(values, -k)[-k])]


def top_p(logits: Logits, p: float) -> Ids:
    """The indices of the fewest largest logits with probability `p` or more, ascending.

    The sums are in double precision; of equal logits the first stay.
    """
    weights = logits.astype(np.float64)
    weights -= weights.max()
    np.exp(weights, out=weights)
    mass = p * weights.sum()
    for floor in _FLOORS:
        falling = np.sort(weights[weights >= floor])[::-1]
        totals = np.cumsum(falling)
        if totals[-1] >= mass:
            break
    n = min(int(np.searchsorted(totals, mass)) + 1, falling.size)
    return _first_largest(weights, n, falling[n - 1])


def min_p(logits: Logits, p: float) -> Ids:
    """The indices of the logits at least `p` times as likely as the largest, ascending."""
    return np.flatnonzero(logits >= np.float64(logits.max()) + math.log(p))


def _group_maxima(row: Logits) -> Logits:
    """The largest logit among the ids equal modulo _N_GROUPS, for each; -inf where there are none.

    One fast pass: whole stretches of the row are compared elementwise.
    """
    n = row.size - row.size % _N_GROUPS
    maxima = row[:n].reshape(-1, _N_GROUPS).max(axis=0, initial=-np.inf)
    np.maximum(maxima[: row.size - n], row[n:], out=maxima[: row.size - n])
    return maxima


def _first_largest(values: Logits | Weights, n: int, nth: np.floating) -> Ids:
    """The indices of the `n` largest, ascending, given the n-th; of equal ones the first stay."""
    kept = np.flatnonzero(~(values < nth))
    if kept.size > n:
        equal = np.flatnonzero(values[kept] == nth)
        kept = np.delete(kept, equal[n - kept.size :])
    return kept


def _require(flag: str, value: float, holds: bool, wanted: str) -> None:
    if not holds or not math.isfinite(value):
        raise UsageError(f"{flag} is {value}, but must be {wanted}")
