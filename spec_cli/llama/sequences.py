"""Several texts in one model: each has a KV cache of its own, and one pass serves them all.

A cache for each sequence (llama.cpp calls that not unified) holds the cells of one text alone, in
its order, so that attention goes over them as it would without the others. llama.cpp reads the
weights once for several sequences where each of them has as many tokens as the others, and
their ids follow each other (`split_equal` in llama-batch.cpp).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from spec_cli.errors import Cancelled
from spec_cli.llama.context import (
    ABORTED,
    ContextSettings,
    context_error,
    context_params,
    decode_error,
)
from spec_cli.llama.library import library
from spec_cli.llama.model import LlamaModel
from spec_cli.spec.interfaces import Logits

_N_CELLS = 256  # llama.cpp gives each sequence a multiple of these


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
        self._api = api = library().api
        self.n_vocab, self.n_ctx, self.n_batch = model.n_vocab, settings.n_ctx, settings.n_batch
        self.n_sequences = settings.n_sequences
        self._n_past = [0] * settings.n_sequences
        self._suppressed = np.array(model.suppressed, dtype=np.intp)
        self._abort = api.ggml_abort_callback(lambda _data: cancelled())
        params = context_params(settings, self._abort)
        params.n_ctx = settings.n_sequences * -(-settings.n_ctx // _N_CELLS) * _N_CELLS
        params.kv_unified = False
        library().log.take_errors()
        self.handle: Any = api.llama_init_from_model(model.handle, params)
        if not self.handle:
            raise context_error(model, settings)
        self._memory = api.llama_get_memory(self.handle)
        self._batch = api.llama_batch_init(settings.n_batch, 0, 1)

    def close(self) -> None:
        """Free the context and its batch; harmless when done before."""
        if self.handle:
            self._api.llama_batch_free(self._batch)
            self._api.llama_free(self.handle)
            self.handle = None

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
        pointer = self._api.llama_get_logits(self.handle)
        address = ctypes.cast(pointer, ctypes.c_void_p).value
        buffer = (ctypes.c_float * (n * width * self.n_vocab)).from_address(address or 0)
        rows: Logits = np.ctypeslib.as_array(buffer).reshape(n, width, self.n_vocab)
        if self._suppressed.size:
            rows[..., self._suppressed] = -np.inf
        return rows

    def rollback(self, sequence: int, n_past: int) -> None:
        """Forget every token of a sequence from position `n_past` on."""
        assert 0 <= n_past <= self._n_past[sequence]
        if n_past < self._n_past[sequence]:
            self._forget_from(sequence, n_past)
            self._n_past[sequence] = n_past

    def copy(self, source: int, target: int) -> None:
        """Let the cache of `target` hold what that of `source` does."""
        self._api.llama_memory_seq_cp(self._memory, source, target, -1, -1)
        self._n_past[target] = self._n_past[source]

    def _decode(self, tokens: Mapping[int, Sequence[int]], *, wanted: bool) -> None:
        """One pass; `wanted`: with the logits of every row."""
        batch, at = self._batch, 0
        for sequence, own in tokens.items():
            n_past = self._n_past[sequence]
            assert n_past + len(own) <= self.n_ctx
            for position, token in enumerate(own, start=n_past):
                batch.token[at], batch.pos[at], batch.logits[at] = token, position, wanted
                batch.n_seq_id[at], batch.seq_id[at][0] = 1, sequence
                at += 1
        assert 0 < at <= self.n_batch
        batch.n_tokens = at
        status = self._api.llama_decode(self.handle, batch)
        if status != 0:
            for sequence in tokens:
                self._forget_from(sequence, self._n_past[sequence])
            raise Cancelled if status == ABORTED else decode_error(status)
        for sequence, own in tokens.items():
            self._n_past[sequence] += len(own)

    def _forget_from(self, sequence: int, position: int) -> None:
        self._api.llama_memory_seq_rm(self._memory, sequence, position, -1)
