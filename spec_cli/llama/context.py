"""A model with a KV cache: evaluates tokens, returns logits, forgets a tail."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from spec_cli.errors import Cancelled, ResourceError
from spec_cli.llama.library import library
from spec_cli.llama.model import LlamaModel
from spec_cli.spec.counts import counted
from spec_cli.spec.interfaces import Logits
from spec_cli.spec.prefix import common_prefix

KV_TYPES = {"f32": 0, "f16": 1, "q8_0": 8, "bf16": 30}  # enum ggml_type, ggml.h

_SEQUENCE = 0
ABORTED = 2  # llama_decode, llama.h


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """Size and threads of a context, in tokens: `n_batch` at most per pass, `n_rows` of logits.

    `n_pad` cells lie beyond the `n_ctx` that a text may fill. `k_type` and `v_type` are the types
    of the KV cache, keys of `KV_TYPES`. More than one sequence is for `repeat` only.
    """

    n_ctx: int
    n_threads: int
    n_batch: int = 512
    n_rows: int = 64
    k_type: str = "f16"
    v_type: str = "f16"
    n_sequences: int = 1
    n_pad: int = 0

    @property
    def n_cells(self) -> int:
        """Tokens that the KV cache holds."""
        return self.n_ctx + self.n_pad


class LlamaContext:
    """A `LanguageModel` on a llama.cpp context, one sequence, flash attention on.

    Invariant: the KV cache holds exactly the positions 0..n_past-1, and there the tokens
    `_evaluated`. Logits are views into llama.cpp's own buffer: valid until the next `eval`.
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
        self._api = api = library().api
        self._n_ctx = settings.n_cells
        self._n_batch, self._n_rows = settings.n_batch, settings.n_rows
        self._n_sequences = settings.n_sequences
        self._evaluated: list[int] = []
        self._n_vocab = model.n_vocab
        self._suppressed = np.array(model.suppressed, dtype=np.intp)
        self._abort = api.ggml_abort_callback(lambda _data: cancelled())
        params = context_params(settings, self._abort)
        library().log.take_errors()
        self.handle: Any = api.llama_init_from_model(model.handle, params)
        if not self.handle:
            raise context_error(model, settings)
        self._memory = api.llama_get_memory(self.handle)
        self._batch = api.llama_batch_init(settings.n_batch, 0, 1)
        self._tokens, self._positions, self._wanted = _batch_arrays(self._batch, settings.n_batch)

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

    @property
    def n_vocab(self) -> int:
        """Length of a row of logits."""
        return self._n_vocab

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
        self._batch.n_tokens = n
        status = self._api.llama_decode(self.handle, self._batch)
        if status != 0:
            self._recover()
            raise Cancelled if status == ABORTED else decode_error(status)
        self._evaluated += tokens
        return self._logits(n_rows)

    def rollback(self, n_past: int) -> None:
        """Forget every token from position `n_past` on; only a tail can be dropped."""
        assert 0 <= n_past <= self.n_past
        if n_past < self.n_past:
            self._forget_from(n_past)
            del self._evaluated[n_past:]

    def keep(self, tokens: Sequence[int]) -> int:
        """See `LanguageModel.keep`. Also drops what an exception left of a pass."""
        self._forget_beyond(common_prefix(self._evaluated, tokens))
        return self.n_past

    @property
    def evaluated(self) -> Sequence[int]:
        """The tokens evaluated so far."""
        return tuple(self._evaluated)

    def state(self) -> memoryview:
        """What the memory holds, for `restore`."""
        size = self._api.llama_state_seq_get_size(self.handle, _SEQUENCE)
        state = (ctypes.c_uint8 * size)()
        size = self._api.llama_state_seq_get_data(self.handle, state, size, _SEQUENCE)
        return memoryview(state).cast("B")[:size]

    def restore(self, tokens: Sequence[int], state: bytes | bytearray | memoryview) -> bool:
        """Put back the `state` that was had after evaluating `tokens`; else the memory is empty.

        llama.cpp trusts it: it must come from a context like this one, bit for bit.
        """
        self._forget_beyond(0)
        data = np.frombuffer(state, np.uint8).ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
        used = self._api.llama_state_seq_set_data(self.handle, data, len(state), _SEQUENCE)
        last = self._api.llama_memory_seq_pos_max(self._memory, _SEQUENCE)
        if used != len(state) or last != len(tokens) - 1:
            self._seq_rm(0)
            return False
        self._evaluated = list(tokens)
        return True

    def repeat(self, n: int) -> None:
        """Fill the KV cache with `n` copies of what it holds, in a moment.

        Attention then runs over a context as long as that, though the copies stand at the
        positions of the original: good for measuring, not for text. `rollback` leaves the copies
        of positions it keeps. Needs `n_sequences` above `n`, and cells for the copies besides
        those of the tokens to come. Raises ResourceError.
        """
        assert n < self._n_sequences
        state = self.state()
        buffer = (ctypes.c_uint8 * len(state)).from_buffer(state)
        for copy in range(1, n + 1):
            if not self._api.llama_state_seq_set_data(self.handle, buffer, len(state), copy):
                raise ResourceError("the KV cache of this model cannot be copied")
            self._api.llama_memory_seq_cp(self._memory, copy, _SEQUENCE, -1, -1)

    def _recover(self) -> None:
        """After a failed pass: forget what it left, or all where a tail cannot be dropped."""
        self._forget_beyond(self.n_past)

    def _forget_beyond(self, n_past: int) -> None:
        """Keep `n_past` tokens, or none where a tail cannot be dropped."""
        if not self._seq_rm(n_past):
            self._seq_rm(0)
            n_past = 0
        del self._evaluated[n_past:]

    def _forget_from(self, position: int) -> None:
        if not self._seq_rm(position):
            raise ResourceError("this model's memory cannot drop its last tokens")

    def _seq_rm(self, position: int) -> bool:
        return bool(self._api.llama_memory_seq_rm(self._memory, _SEQUENCE, position, -1))

    def _logits(self, n_rows: int) -> Logits:
        if n_rows == 0:
            return np.empty((0, self._n_vocab), dtype=np.float32)
        pointer = self._api.llama_get_logits(self.handle)
        address = ctypes.cast(pointer, ctypes.c_void_p).value
        buffer = (ctypes.c_float * (n_rows * self._n_vocab)).from_address(address or 0)
        rows: Logits = np.ctypeslib.as_array(buffer).reshape(n_rows, self._n_vocab)
        if self._suppressed.size:
            rows[:, self._suppressed] = -np.inf
        return rows


def _batch_arrays(batch: Any, n: int) -> tuple[Any, Any, Any]:
    """numpy views of the batch's columns; sequence ids are the same for every token."""
    for i in range(n):
        batch.n_seq_id[i] = 1
        batch.seq_id[i][0] = _SEQUENCE
    as_array = np.ctypeslib.as_array
    return (
        as_array(batch.token, shape=(n,)),
        as_array(batch.pos, shape=(n,)),
        as_array(batch.logits, shape=(n,)),
    )


def context_params(settings: ContextSettings, abort: Any) -> Any:
    """llama.cpp's own parameters; all sequences share one cache."""
    api = library().api
    params = api.llama_context_default_params()
    params.n_ctx = settings.n_cells
    params.n_batch = params.n_ubatch = settings.n_batch
    params.n_outputs_max_per_seq = settings.n_rows
    params.n_outputs_max = max(settings.n_rows, settings.n_sequences)
    params.n_threads = params.n_threads_batch = settings.n_threads
    params.flash_attn_type = api.LLAMA_FLASH_ATTN_TYPE_ENABLED
    params.type_k, params.type_v = KV_TYPES[settings.k_type], KV_TYPES[settings.v_type]
    params.n_seq_max, params.kv_unified = settings.n_sequences, True
    params.swa_full = True  # a sliding window that forgot tokens could not be rolled back
    params.no_perf = True
    params.abort_callback = abort
    return params


def context_error(model: LlamaModel, settings: ContextSettings) -> ResourceError:
    """Why there is no context, in llama.cpp's words."""
    reason = "; ".join(library().log.take_errors()) or "llama.cpp gave no reason"
    size = counted(settings.n_ctx, "token")
    return ResourceError(
        f"a context of {size} for {model.path.name} cannot be made: {reason}",
        hint=f"use a smaller one: `--ctx-size {max(256, settings.n_ctx // 2)}`",
    )


def decode_error(status: int) -> ResourceError:
    """Why a pass failed, in llama.cpp's words."""
    reason = "; ".join(library().log.take_errors()) or "llama.cpp gave no reason"
    return ResourceError(f"a pass through the model failed (llama_decode: {status}): {reason}")
