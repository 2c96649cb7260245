"""From a row of logits to the tokens that may be chosen and their weights.

The order is llama.cpp's: logit bias, constraint, penalties, top-k, top-p, min-p, temperature.
Everything is a pure function of the row, the constraint, the recent tokens and the settings, so
the target and the draft model are processed alike.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from spec_cli.errors import CheckError, ModelError
from spec_cli.spec.interfaces import Constraint, Distribution, Ids, Logits, Weights
from spec_cli.spec.selection import below_maximum, min_p, top_k, top_p
from spec_cli.spec.settings import SamplingSettings

_HEADS = (64, 1024)  # logits, the largest, that a constraint judges before it lists all it allows


@dataclass(frozen=True, slots=True)
class Candidates:
    """The tokens that may be chosen: `ids` ascending and their logits, both of shape [n].

    Their distribution is softmax(log_weights). `logits` may be the model's own row.
    """

    ids: Ids
    logits: Logits
    temp: float

    @property
    def log_weights(self) -> Weights:
        """Log weights [n], temperature applied; the largest is 0."""
        values = below_maximum(self.logits)
        with np.errstate(over="ignore"):  # a tiny temperature leaves the maximum alone, at 0
            values /= self.temp
        return values

    def take(self, indices: Ids) -> Candidates:
        """The candidates at `indices`, in that order."""
        return Candidates(self.ids[indices], self.logits[indices], self.temp)

    def distribution(self) -> Distribution:
        """softmax(log_weights); tokens whose probability is 0 in double precision are left out."""
        weights = np.exp(self.log_weights)
        kept = weights > 0
        weights = weights[kept]
        return Distribution(self.ids[kept], weights / weights.sum())


class UnusableLogits(ModelError):
    """The largest logit of a row is not finite."""

    def __init__(
        self, maximum: float, *, model: str = "model", instead: str = "`--gpu-layers 0`"
    ) -> None:
        super().__init__(
            f"the {model}'s logits cannot be used: the largest is {maximum}",
            hint=f"try {instead}, or another quantisation of the {model}",
        )
        self.maximum = maximum


class NothingAllowed(CheckError):
    """A constraint allows no token that has a probability."""

    def __init__(self) -> None:
        super().__init__(
            "the grammar allows no token of this model here",
            hint="see whether `--logit-bias` forbids what it needs, or whether it needs "
            "characters that this model cannot write",
        )


def candidates(
    logits: Logits,
    history: Sequence[int],
    settings: SamplingSettings,
    constraint: Constraint | None = None,
) -> Candidates:
    """The tokens that survive the filters after `history`; needs a temperature above 0.

    With a constraint, what they are in a row where all that it forbids is -inf.
    Raises UnusableLogits when a logit is NaN, or the largest is infinite, and NothingAllowed.
    """
    row, k = shaped(logits, history, settings), settings.top_k
    if constraint is not None:
        ids = allowed_head(row, k, constraint)
        if 0 < k < ids.size:
            ids = ids[top_k(row[ids], k)]
        found = Candidates(ids, row[ids], settings.temp)
    elif 0 < k < row.size:
        ids = top_k(row, k)
        found = Candidates(ids, row[ids], settings.temp)
    else:
        found = Candidates(_every_id(row.size), row, settings.temp)
    require_finite(found.logits.max())
    if settings.top_p < 1:
        found = found.take(top_p(found.logits, settings.top_p))
    if settings.min_p > 0:
        found = found.take(min_p(found.logits, settings.min_p))
    return found


def allowed_head(row: Logits, k: int, constraint: Constraint) -> Ids:
    """Allowed ids, ascending, among them those of the `k` largest allowed logits; 0: all of them.

    The allowed ones of the n largest logits are the largest allowed ones, however many they are:
    few are judged where the model wants what is allowed. Raises NothingAllowed.
    """
    for n in sorted({max(n, 2 * k) for n in _HEADS if k}):
        if n >= row.size:
            continue
        head = top_k(row, n)
        ids = head[constraint.allows(head)]
        if ids.size >= k:
            break
    else:
        ids = constraint.allowed()
        ids = ids[: ids.searchsorted(row.size)]
    if not ids.size or row[ids].max() == -np.inf:
        raise NothingAllowed
    return ids


def require_finite(maximum: np.floating) -> None:
    """Raises UnusableLogits unless `maximum`, a row's largest logit, is finite.

    numpy's maximum is NaN where any logit is; it is -inf where every token is forbidden.
    """
    if not math.isfinite(maximum):
        raise UnusableLogits(float(maximum))


def shaped(logits: Logits, history: Sequence[int], settings: SamplingSettings) -> Logits:
    """Logits [n_vocab] with the bias and the penalties; ids that the row lacks have no bias."""
    if settings.logit_bias:
        logits = logits.copy()
        for token, bias in settings.logit_bias:
            if token < logits.size:
                logits[token] += bias
    return penalised(logits, history, settings)


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


@lru_cache(maxsize=2)
def _every_id(n: int) -> Ids:
    """0 to n - 1, read-only; kept, since making it costs more than a pass over the row."""
    ids = np.arange(n)
    ids.flags.writeable = False
    return ids
