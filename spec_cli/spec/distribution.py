"""Operations on sparse distributions over tokens: what the sampling rules are made of."""

from __future__ import annotations

import numpy as np

from spec_cli.spec.interfaces import Distribution, Weights


def certain(token: int) -> Distribution:
    """All of the probability on `token`: the q of a copied token."""
    return Distribution(np.array([token], dtype=np.int64), np.ones(1))


def probability(distribution: Distribution, token: int) -> float:
    """The probability of `token`; 0 when it is not among the ids."""
    ids = distribution.ids
    at = int(np.searchsorted(ids, token))
    return float(distribution.probabilities[at]) if at < ids.size and ids[at] == token else 0.0


def sample(distribution: Distribution, u: float) -> int:
    """The token at which the cumulative distribution passes `u`, a uniform number in [0, 1).

    `u` is scaled by the sum as it was rounded, so that no id is favoured and one is always found.
    """
    cumulative = np.cumsum(distribution.probabilities)
    return int(distribution.ids[np.argmax(u * cumulative[-1] < cumulative)])


def excess(p: Distribution, q: Distribution, scale: float = 1.0) -> Weights:
    """max(scale * p(x) - q(x), 0) for each id x of `p`, shape [p.ids.size]; elsewhere it is 0."""
    at = np.searchsorted(q.ids, p.ids)
    at[at == q.ids.size] = 0  # beyond the last id of q: any place where the ids differ
    q_of_p = np.where(q.ids[at] == p.ids, q.probabilities[at], 0.0)
    return np.maximum(scale * p.probabilities - q_of_p, 0.0)


def residual(p: Distribution, q: Distribution, scale: float = 1.0) -> Distribution:
    """The normalised `excess`: what is drawn from after a rejection.

    Where there is no excess it is `p`. With `scale` 1 that means p = q, and with less, that the
    rules never stop there: a rejection has probability 0 then, and only rounding can ask for it.
    """
    weights = excess(p, q, scale)
    kept = weights > 0
    if not kept.any():
        return p
    weights = weights[kept]
    return Distribution(p.ids[kept], weights / weights.sum())
