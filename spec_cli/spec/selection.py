"""The largest of a long row of logits.

A row is passed over as few times as can be, and never sorted as a whole unless top-p keeps nearly
all of it.
"""

from __future__ import annotations

import math

import numpy as np

from spec_cli.spec.interfaces import Ids, Logits, Weights

_N_GROUPS = 4096  # groups of a few dozen ids each, far more than a usual k
_FLOORS = (1e-2, 1e-4, 1e-6, 0.0)  # least weights, relative to the largest, of the heads in top_p


def top_k(logits: Logits, k: int) -> Ids:
    """The indices of the `k` largest logits, 0 < k <= n, ascending; of equal ones the first stay.

    NaN counts as the largest. The k largest group maxima are k different logits, so the k-th of
    them is at most the k-th largest logit, and a group whose maximum is less holds none of the k.
    """
    maxima = _group_maxima(logits)
    least = np.partition(maxima, -k)[-k] if k <= maxima.size else -np.inf
    groups = (~(maxima < least)).nonzero()[0]
    indices = (np.arange(0, logits.size, _N_GROUPS)[:, np.newaxis] + groups).ravel()
    indices = indices[: indices.searchsorted(logits.size)]  # the last round may be incomplete
    values = logits[indices]
    return indices[_largest(values, k, np.partition(values, -k)[-k])]


def top_p(logits: Logits, p: float) -> Ids:
    """The indices of the fewest largest logits with probability `p` or more, ascending.

    Of equal ones the first stay. No more is sorted than the first of a few heads with that mass.
    """
    weights = below_maximum(logits)
    np.exp(weights, out=weights)
    mass = p * weights.sum()
    for floor in _FLOORS:
        falling = np.sort(weights[weights >= floor])[::-1]
        totals = falling.cumsum()
        if totals[-1] >= mass:
            break
    n = min(int(totals.searchsorted(mass)) + 1, totals.size)
    return _largest(weights, n, falling[n - 1])


def min_p(logits: Logits, p: float) -> Ids:
    """The indices of the logits at least `p` times as likely as the largest, ascending."""
    return (logits >= np.float64(logits.max()) + math.log(p)).nonzero()[0]


def below_maximum(logits: Logits) -> Weights:
    """logits - max(logits) in double precision."""
    return logits - np.float64(logits.max())


def _group_maxima(logits: Logits) -> Logits:
    """The maximum of each group of indices that are equal modulo _N_GROUPS; -inf for an empty one.

    Groups of neighbours would be slower: this way numpy compares long runs element by element.
    """
    rest = logits.size % _N_GROUPS
    whole = logits[: logits.size - rest]
    maxima: Logits = whole.reshape(-1, _N_GROUPS).max(axis=0, initial=-np.inf)
    maxima[:rest] = np.maximum(maxima[:rest], logits[whole.size :])
    return maxima


def _largest(values: Logits | Weights, n: int, nth: np.floating) -> Ids:
    """The indices of the `n` largest, given the n-th; ascending, and of equal ones the first."""
    kept = (~(values < nth)).nonzero()[0]
    if kept.size > n:
        equal = (values[kept] == nth).nonzero()[0]
        kept = np.delete(kept, equal[n - kept.size :])
    return kept
