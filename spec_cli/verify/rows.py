"""Pairs of consecutive rows of logits on which acceptance rules are tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spec_cli.reading import rows_from
from spec_cli.session import Session
from spec_cli.spec.interfaces import Logits, Weights

N_PAIRS = 4
_N_LIKELIEST = 100  # of each row; the others are left out
_AT = (0.25, 0.5, 0.75)  # of a text, where rows are taken from


@dataclass(frozen=True, slots=True)
class RowPair:
    """Two consecutive rows of `target` and of `draft`, each [2, n] with the same n ids.

    They stand after `position` generated tokens of `prompt`, an id.
    """

    prompt: str
    position: int
    target: Logits
    draft: Logits

    @property
    def contest(self) -> float:
        """How much acceptance and rejection alternate here: the sum of a (1 - a), a being the
        overlap of the two models' distributions in a row."""
        overlap = np.minimum(_softmax(self.target), _softmax(self.draft)).sum(axis=1)
        return float((overlap * (1 - overlap)).sum())


def positions(n_tokens: int) -> list[int]:
    """Where to take rows from in a text of `n_tokens`; the second row is one token later."""
    return sorted({max(1, int(share * n_tokens)) for share in _AT} & set(range(n_tokens)))


def rows_after(session: Session, tokens: Sequence[int]) -> tuple[Logits, Logits]:
    """The logits of target and draft after all `tokens` but the last, and after all of them.

    Each has shape [2, n_shared]: the ids that mean the same to both.
    """
    assert session.draft is not None
    target, draft = (
        np.array([row[: session.n_shared] for row in rows_from(model, tokens, len(tokens) - 2)])
        for model in (session.target, session.draft)
    )
    return target, draft


def likeliest(target: Logits, draft: Logits) -> tuple[Logits, Logits]:
    """Both [2, n_vocab], less the ids that are among the likeliest of no row."""
    rows = np.concatenate([target, draft])
    n = min(_N_LIKELIEST, rows.shape[1])
    ids = np.unique(np.argpartition(rows, -n, axis=1)[:, -n:])
    return target[:, ids], draft[:, ids]


def most_contested(pairs: Sequence[RowPair]) -> list[RowPair]:
    """The `N_PAIRS` on which a wrong rule would show most."""
    return sorted(pairs, key=lambda pair: -pair.contest)[:N_PAIRS]


def _softmax(rows: Logits) -> Weights:
    weights = np.exp(rows - rows.max(axis=1, keepdims=True), dtype=np.float64)
    normalised: Weights = weights / weights.sum(axis=1, keepdims=True)
    return normalised
