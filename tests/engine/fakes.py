"""A language model as a table, and drafters that follow a script: the loop in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from spec_cli.spec.interfaces import NO_DRAFT, Budget, Draft, Logits
from spec_cli.spec.prefix import common_prefix

EOG = 0  # the end-of-generation token of every table


class TableLM:
    """Logits are a function of the last `order` tokens, drawn once from a seed.

    Its KV cache is a list of tokens, so a wrong position or a forgotten rollback changes the
    logits; evaluating beyond `n_ctx` or more than `n_batch` tokens raises; and the rows of an
    earlier pass are overwritten by the next one, as llama.cpp does.
    """

    def __init__(
        self, *, seed: int = 0, n_vocab: int = 5, order: int = 2, n_ctx: int = 64, n_batch: int = 8
    ) -> None:
        self.n_vocab, self.n_ctx, self.n_batch = n_vocab, n_ctx, n_batch
        self.kv: list[int] = []
        self.n_passes = 0
        self.n_evaluated = 0
        self._order = order
        rng = np.random.default_rng(seed)
        self._table = rng.normal(scale=1.5, size=(n_vocab + 1,) * order + (n_vocab,)).astype(
            np.float32
        )
        self._last_rows: Logits | None = None

    @property
    def n_past(self) -> int:
        return len(self.kv)

    def row(self, context: Sequence[int]) -> Logits:
        """The logits after `context`, without a cache."""
        padded = [self.n_vocab] * self._order + list(context)
        row: Logits = self._table[tuple(padded[-self._order :])]
        return row

    def eval(self, tokens: Sequence[int], n_rows: int | None = None) -> Logits:
        assert 0 < len(tokens) <= self.n_batch, f"a pass of {len(tokens)} tokens"
        assert len(self.kv) + len(tokens) <= self.n_ctx, "the context is overrun"
        if self._last_rows is not None:
            self._last_rows.fill(np.nan)
        rows = []
        for token in tokens:
            assert 0 <= token < self.n_vocab
            self.kv.append(token)
            rows.append(self.row(self.kv))
        self.n_passes += 1
        self.n_evaluated += len(tokens)
        n = len(tokens) if n_rows is None else n_rows
        self._last_rows = np.array(rows[len(rows) - n :]).reshape(n, self.n_vocab)
        return self._last_rows

    def rollback(self, n_past: int) -> None:
        assert 0 <= n_past <= len(self.kv), "a rollback cannot add tokens"
        del self.kv[n_past:]

    def keep(self, tokens: Sequence[int]) -> int:
        del self.kv[common_prefix(self.kv, tokens) :]
        return len(self.kv)


class ScriptedDrafter:
    """Proposes what `script(context, k)` says."""

    def __init__(self, script: Callable[[Sequence[int], int], Sequence[int]]) -> None:
        self._script = script
        self.committed: list[int] = []

    def begin(self, prompt: Sequence[int]) -> None:
        self.committed = list(prompt)

    def n_behind(self, context: Sequence[int]) -> int:
        return 0

    def propose(self, context: Sequence[int], budget: Budget) -> Draft:
        tokens = tuple(self._script(context, budget.room))[: budget.room]
        return Draft(tokens) if tokens else NO_DRAFT

    def commit(self, context: Sequence[int]) -> None:
        assert list(context[: len(self.committed)]) == self.committed
        self.committed = list(context)


def ticking_clock(step_s: float = 1.0) -> Callable[[], float]:
    """A clock that advances by `step_s` at every look."""
    ticks: Iterator[float] = iter(step_s * i for i in range(10**9))
    return lambda: next(ticks)
