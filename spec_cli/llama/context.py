"""A model with a memory: evaluates tokens, returns logits, forgets a tail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from spec_cli.errors import Cancelled, ResourceError
from spec_cli.llama.memory import OTHER, TEXT, Memory
from spec_cli.llama.model import LlamaModel
from spec_cli.llama.native import ContextSettings, NativeContext
from spec_cli.spec.interfaces import Logits
from spec_cli.spec.prefix import common_prefix


class LlamaContext:
    """A `LanguageModel` on a llama.cpp context, one text, flash attention on.

    Invariant: the memory has exactly the positions 0..n_past-1, and there the tokens
    `_evaluated`. Logits are views into llama.cpp's own buffer: valid until the next `eval`.

    With a second sequence a recurrent memory can go back to what it was at the last `keep`;
    `repeat` needs one, too.
    """

    def __init__(
        self,
        model: LlamaModel,
        settings: ContextSettings,
        *,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Raises ResourceError when the context does not fit into memory.

        `cancelled` is asked inside a pass; where it answers True the pass is aborted.
        """
        self._native = NativeContext(model, settings, shares_cache=True, cancelled=cancelled)
        self._memory = Memory(
            self._native, is_recurrent=model.is_recurrent, n_sequences=settings.n_sequences
        )
        self._n_ctx = settings.n_cells
        self._n_batch, self._n_rows = settings.n_batch, settings.n_rows
        self._n_sequences = settings.n_sequences
        self._evaluated: list[int] = []
        columns = _batch_columns(self._native.batch, settings.n_batch)
        self._tokens, self._positions, self._wanted = columns

    def close(self) -> None:
        """Free the context and its batch; harmless when done before."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @property
    def n_vocab(self) -> int:
        """Length of a row of logits."""
        return self._native.n_vocab

    @property
    def n_ctx(self) -> int:
        """Size of the KV cache in tokens, as asked for (llama.cpp may round it up)."""
        return self._n_ctx

    @property
    def n_batch(self) -> int:
        """The largest number of tokens that one `eval` takes."""
        return self._n_batch

    @property
    def n_past(self) -> int:
        """Number of tokens evaluated so far."""
        return len(self._evaluated)

    @property
    def n_snapshots(self) -> int:
        """How many tokens of its last pass a recurrent memory can take back."""
        return self._memory.n_snapshots

    def eval(self, tokens: Sequence[int], n_rows: int | None = None) -> Logits:
        """See `LanguageModel.eval`. At most `ContextSettings.n_rows` rows."""
        n = len(tokens)
        n_rows = n if n_rows is None else n_rows
        assert 0 < n <= self._n_batch and 0 <= n_rows <= min(n, self._n_rows)
        n_past = self.n_past
        assert n_past + n <= self._n_ctx
        self._tokens[:n] = tokens
        self._positions[:n] = np.arange(n_past, n_past + n)
        self._wanted[:n] = 0
        self._wanted[n - n_rows : n] = 1
        self._memory.begin_pass(n)
        try:
            self._native.decode(n)
        except (Cancelled, ResourceError):
            self._fall_back(n_past)
            raise
        self._memory.end_pass(n)
        self._evaluated += tokens
        return self._native.rows(n_rows)

    def rollback(self, n_past: int) -> None:
        """Forget every token from position `n_past` on; only a tail can be dropped.

        Raises ResourceError where a recurrent memory cannot go back to there.
        """
        assert 0 <= n_past <= self.n_past
        self._memory.drop(n_past)
        del self._evaluated[n_past:]

    def keep(self, tokens: Sequence[int]) -> int:
        """See `LanguageModel.keep`. Also drops what an exception left of a pass."""
        self._fall_back(common_prefix(self._evaluated, tokens))
        self._memory.mark()
        return self.n_past

    @property
    def evaluated(self) -> Sequence[int]:
        """The tokens evaluated so far."""
        return tuple(self._evaluated)

    def state(self) -> memoryview:
        """What the memory holds, for `restore`."""
        self._memory.settle()
        return self._native.state(TEXT)

    def restore(self, tokens: Sequence[int], state: bytes | bytearray | memoryview) -> bool:
        """Put back the `state` taken after evaluating `tokens`; where that fails, nothing is held.

        llama.cpp trusts it: it must come, bit for bit, from a context like this one.
        """
        self._fall_back(0)
        self._memory.settle()
        used = self._native.set_state(TEXT, state)
        if not self._memory.fill(len(tokens), is_whole=used == len(state)):
            return False
        self._evaluated = list(tokens)
        return True

    def repeat(self, n: int) -> None:
        """Fill the KV cache with `n` copies of what it holds, in a moment.

        Attention then runs over a context as long as that, though the copies stand at the
        positions of the original: good for measuring, not for text. `rollback` leaves the copies
        of positions it keeps. Needs a second sequence, and cells for the copies besides those of
        the tokens to come. Raises ResourceError.
        """
        assert self._n_sequences > 1
        state = self.state()
        self._memory.unmark()
        for _ in range(n):
            if not self._native.set_state(OTHER, state):
                raise ResourceError("the KV cache of this model cannot be copied")
            self._memory.take_copy()

    def _fall_back(self, n_past: int) -> None:
        """Keep `n_past` tokens, or as many fewer as the memory can go back to."""
        self.rollback(self._memory.nearest(n_past))


def _batch_columns(batch: Any, n: int) -> tuple[Any, Any, Any]:
    """numpy views of the batch's columns; sequence ids are the same for every token."""
    for i in range(n):
        batch.n_seq_id[i] = 1
        batch.seq_id[i][0] = TEXT
    as_array = np.ctypeslib.as_array
    return (
        as_array(batch.token, shape=(n,)),
        as_array(batch.pos, shape=(n,)),
        as_array(batch.logits, shape=(n,)),
    )
