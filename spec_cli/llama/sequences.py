"""Several texts in one model: each has a KV cache of its own, and one pass serves them all.

A cache for each sequence (llama.cpp calls that not unified) holds the cells of one text alone, in
its order, so that attention goes over them as it would without the others. llama.cpp reads the
weights once for several sequences where each of them has as many tokens as the others, and
their ids follow each other (`split_equal` in llama-batch.cpp).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Self

from spec_cli.errors import Cancelled, ResourceError
from spec_cli.llama.model import LlamaModel
from spec_cli.llama.native import ContextSettings, NativeContext
from spec_cli.spec.interfaces import Logits


class LlamaSequences:
    """A `SequenceModel` on a llama.cpp context, flash attention on.

    Invariant: the cache of sequence i holds exactly the positions 0..n_past(i)-1. Logits are views
    into llama.cpp's own buffer: valid until the next `eval`.
    """

    def __init__(
        self,
        model: LlamaModel,
        settings: ContextSettings,
        *,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """`n_ctx` of `settings` is for each sequence, `n_rows` for all of a pass together.

        `cancelled` is asked inside a pass; where it answers True the pass is aborted. Raises
        ResourceError when the context does not fit into memory.
        """
        self._native = NativeContext(model, settings, shares_cache=False, cancelled=cancelled)
        self.n_ctx, self.n_batch = settings.n_ctx, settings.n_batch
        self.n_sequences = settings.n_sequences
        self._n_past = [0] * settings.n_sequences

    def close(self) -> None:
        """Free the context and its batch; harmless when done before."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def n_past(self, sequence: int) -> int:
        """Number of tokens that a sequence has evaluated."""
        return self._n_past[sequence]

    def read(self, sequence: int, tokens: Sequence[int]) -> None:
        """See `SequenceModel.read`."""
        self._decode({sequence: tokens}, wanted=False)

    def eval(self, tokens: Sequence[Sequence[int]]) -> Logits:
        """See `SequenceModel.eval`."""
        n, width = len(tokens), len(tokens[0])
        assert all(len(own) == width for own in tokens)
        self._decode(dict(enumerate(tokens)), wanted=True)
        return self._native.rows(n * width).reshape(n, width, -1)

    def rollback(self, sequence: int, n_past: int) -> None:
        """Forget every token of a sequence from position `n_past` on."""
        assert 0 <= n_past <= self._n_past[sequence]
        if n_past < self._n_past[sequence]:
            self._native.forget_from(n_past, sequence)
            self._n_past[sequence] = n_past

    def copy(self, source: int, target: int) -> None:
        """Let the cache of `target` hold what that of `source` does."""
        self._native.copy(source, target)
        self._n_past[target] = self._n_past[source]

    def _decode(self, tokens: Mapping[int, Sequence[int]], *, wanted: bool) -> None:
        """One pass; `wanted`: with the logits of every row."""
        batch, at = self._native.batch, 0
        for sequence, own in tokens.items():
            n_past = self._n_past[sequence]
            assert n_past + len(own) <= self.n_ctx
            for position, token in enumerate(own, start=n_past):
                batch.token[at], batch.pos[at], batch.logits[at] = token, position, wanted
                batch.n_seq_id[at], batch.seq_id[at][0] = 1, sequence
                at += 1
        assert 0 < at <= self.n_batch
        try:
            self._native.decode(at)
        except (Cancelled, ResourceError):
            for sequence in tokens:
                self._native.forget_from(self._n_past[sequence], sequence)
            raise
        for sequence, own in tokens.items():
            self._n_past[sequence] += len(own)
