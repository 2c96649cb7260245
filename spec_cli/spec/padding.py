"""A target all of whose passes have a width of one class."""

from __future__ import annotations

from collections.abc import Sequence

from spec_cli.spec.exactness import ExactnessPlan
from spec_cli.spec.interfaces import LanguageModel, Logits

_PAD = 0  # any token will do: its row is dropped, and earlier rows cannot see it


class PaddedModel:
    """A `LanguageModel` that fills passes with throw-away rows, as an `ExactnessPlan` asks.

    Invariant: between calls the wrapped model has evaluated exactly the tokens asked for. Passes
    without logits (the prompt's chunks) are left as they are: they do not depend on who drafts.
    The wrapped model's cache must have room for the widest padding beyond `n_ctx` tokens, and its
    batch for the widest pass.
    """

    def __init__(
        self, model: LanguageModel, plan: ExactnessPlan, *, n_ctx: int, n_batch: int
    ) -> None:
        self._model = model
        self._plan = plan
        self._n_ctx, self._n_batch = n_ctx, n_batch

    @property
    def n_vocab(self) -> int:
        """That of the wrapped model."""
        return self._model.n_vocab

    @property
    def n_ctx(self) -> int:
        """Number of tokens besides padding that the KV cache can hold."""
        return self._n_ctx

    @property
    def n_batch(self) -> int:
        """The largest number of tokens that one `eval` takes."""
        return self._n_batch

    @property
    def n_past(self) -> int:
        """Number of tokens evaluated so far."""
        return self._model.n_past

    def eval(self, tokens: Sequence[int], n_rows: int | None = None) -> Logits:
        """See `LanguageModel.eval`; rows are wanted for all tokens, or for none."""
        if n_rows == 0:
            return self._model.eval(tokens, n_rows=0)
        n = len(tokens)
        assert n_rows is None or n_rows == n
        n_pad = self._plan.padded(n) - n
        rows = self._model.eval((*tokens, *(_PAD,) * n_pad))
        if n_pad:
            self._model.rollback(self._model.n_past - n_pad)
        return rows[:n]

    def rollback(self, n_past: int) -> None:
        """Forget every token from position `n_past` on."""
        self._model.rollback(n_past)

    def keep(self, tokens: Sequence[int]) -> int:
        """See `LanguageModel.keep`."""
        return self._model.keep(tokens)
