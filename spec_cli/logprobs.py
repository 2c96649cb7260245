"""Log-probabilities of committed tokens, from the rows that they were chosen from."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from spec_cli.events import ScoredToken, TokenLogprob
from spec_cli.spec.interfaces import Ids, Logits, Weights
from spec_cli.spec.selection import top_k


class TokenNames(Protocol):
    """How a model writes its tokens."""

    def piece(self, token: int) -> bytes:
        """The bytes that it stands for; empty for control tokens."""

    def token_text(self, token: int) -> str:
        """The vocabulary's entry."""


class TokenScorer:
    """Scores a token by its row: log softmax of the logits as the model gave them."""

    def __init__(self, names: TokenNames, n_likeliest: int) -> None:
        self._names = names
        self._n_likeliest = n_likeliest

    def __call__(self, row: Logits, token: int) -> ScoredToken:
        """The score of `token`, given the logits [n_vocab] in its place."""
        total = log_sum_exp(row)
        ids = likeliest(row, self._n_likeliest)
        chosen = self._named(token, float(row[token]) - total)
        values = (row[ids].astype(np.float64) - total).tolist()
        pairs = zip(ids.tolist(), values, strict=True)
        return ScoredToken(chosen, tuple(self._named(i, value) for i, value in pairs))

    def _named(self, token: int, logprob: float) -> TokenLogprob:
        piece = self._names.piece(token) or None
        name = self._names.token_text(token) if piece is None else piece.decode("utf-8", "replace")
        return TokenLogprob(token, name, piece, logprob)


def log_sum_exp(row: Logits) -> float:
    """The logarithm of the sum of exp(row), in double precision."""
    maximum = np.float64(row.max())
    weights: Weights = np.exp(row - maximum)
    return float(maximum + np.log(weights.sum()))


def likeliest(row: Logits, n: int) -> Ids:
    """The ids of the `n` largest logits above -inf, the largest first; of equal ones the first."""
    if n == 0:
        return np.empty(0, dtype=np.int64)
    ids = top_k(row, min(n, row.size))
    ids = ids[row[ids] > -np.inf]
    return ids[np.argsort(-row[ids], kind="stable")]
