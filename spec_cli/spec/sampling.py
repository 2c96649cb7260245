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

from spec_cli.errors import UsageError
from spec_cli.spec.interfaces import Distribution, Ids, Logits, Weights

_SPANS = (8.0, 16.0, 32.0)  # nats below the maximum in which candidates are looked for first


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
    """The tokens that survive the filters: `ids` ascending, and their log weights.

    Both have shape [n]; the distribution is softmax(log_weights), temperature applied.
    """

    ids: Ids
    log_weights: Weights

    def distribution(self) -> Distribution:
        """softmax(log_weights); tokens whose probability is 0 in double precision are left out."""
        weights = np.exp(self.log_weights - self.log_weights.max())
        kept = weights > 0
        weights = weights[kept]
        return Distribution(self.ids[kept], weights / weights.sum())


def candidates(logits: Logits, history: Sequence[int], settings: SamplingSettings) -> Candidates:
    """The processed distribution after `history`; needs a temperature above 0."""
    row = penalised(logits, history, settings)
    ids = top_k(row, settings.top_k)
    ids = top_p(row, ids, settings.top_p)
    ids = min_p(row, ids, settings.min_p)
    values = row[ids].astype(np.float64)
    with np.errstate(over="ignore"):  # a tiny temperature leaves the maximum alone, at 0
        return Candidates(ids, (values - values.max()) / settings.temp)


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
    """The ids of the `k` largest logits, ascending; of equal logits the lower id stays."""
    if k == 0 or k >= row.size:
        return np.arange(row.size)
    ids = _near_maximum(row, k)
    values = row[ids]
    kth = np.partition(values, ids.size - k)[ids.size - k]
    above = ids[values > kth]
    equal = ids[values == kth][: k - above.size]
    return np.sort(np.concatenate((above, equal)))


def top_p(row: Logits, ids: Ids, p: float) -> Ids:
    """The smallest set of the likeliest `ids` with probability `p` or more, ascending."""
    if p >= 1:
        return ids
    values = row[ids].astype(np.float64)
    weights = np.exp(values - values.max())
    mass = p * weights.sum()
    # Only the head has to be sorted; it holds the nucleus unless the row is nearly flat.
    head = np.flatnonzero(weights >= math.exp(-_SPANS[0]))
    if weights[head].sum() < mass:
        head = np.arange(ids.size)
    order = head[np.argsort(-values[head], kind="stable")]
    n_keep = int(np.searchsorted(np.cumsum(weights[order]), mass)) + 1
    return np.sort(ids[order[:n_keep]])


def min_p(row: Logits, ids: Ids, p: float) -> Ids:
    """The `ids` at least `p` times as likely as the likeliest."""
    if p <= 0:
        return ids
    values = row[ids].astype(np.float64)
    kept: Ids = ids[values >= values.max() + math.log(p)]
    return kept


def _near_maximum(row: Logits, n: int) -> Ids:
    """The ids within the fewest nats of the maximum that hold `n` of them, ascending."""
    maximum = row.max()
    for span in _SPANS:
        ids = np.flatnonzero(row >= maximum - np.float32(span))
        if ids.size >= n:
            return ids
    return np.arange(row.size)


def _require(flag: str, value: float, holds: bool, wanted: str) -> None:
    if not holds or not math.isfinite(value):
        raise UsageError(f"{flag} is {value}, but must be {wanted}")
