"""A context of llama.cpp: made, run pass by pass, and freed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from spec_cli.errors import Cancelled, ResourceError
from spec_cli.llama.library import library
from spec_cli.llama.model import LlamaModel
from spec_cli.spec.counts import counted
from spec_cli.spec.interfaces import Logits

KV_TYPES = {"f32": 0, "f16": 1, "q8_0": 8, "bf16": 30}  # enum ggml_type, ggml.h

_ABORTED = 2  # llama_decode, llama.h
_N_CELLS = 256  # the size of a cache is a multiple of these


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """Size and threads of a context, in tokens: `n_batch` at most per pass, `n_rows` of logits.

    `n_pad` cells lie beyond the `n_ctx` that a text may fill. `k_type` and `v_type` are the types
    of the KV cache, keys of `KV_TYPES`. `n_snapshots` are the tokens of its last pass that a
    recurrent memory can take back.
    """

    n_ctx: int
    n_threads: int
    n_batch: int = 512
    n_rows: int = 64
    k_type: str = "f16"
    v_type: str = "f16"
    n_sequences: int = 1
    n_pad: int = 0
    n_snapshots: int = 0

    @property
    def n_cells(self) -> int:
        """Tokens that the KV cache holds."""
        return self.n_ctx + self.n_pad


def padded_cells(n_cells: int) -> int:
    """How many cells llama.cpp makes where a cache of `n_cells` is wanted."""
    return -(-n_cells // _N_CELLS) * _N_CELLS


class NativeContext:
    """A llama.cpp context and the batch it is given, flash attention on.

    It knows nothing of tokens and positions: what is in the memory is known to those who build
    on it.
    """

    def __init__(
        self,
        model: LlamaModel,
        settings: ContextSettings,
        *,
        shares_cache: bool,
        cancelled: Callable[[], bool],
    ) -> None:
        """`shares_cache`: all sequences in one KV cache, else one of `n_cells` for each of them.

        `cancelled` is asked inside a pass; where it answers True the pass is aborted. Raises
        ResourceError when the context does not fit into memory.
        """
        self._api = api = library().api
        self.n_vocab = model.n_vocab
        self._suppressed = np.array(model.suppressed, dtype=np.intp)
        self._abort = api.ggml_abort_callback(lambda _data: cancelled())
        params = _context_params(settings, self._abort)
        if not shares_cache:
            params.n_ctx = settings.n_sequences * padded_cells(settings.n_cells)
            params.kv_unified = False
        library().log.take_errors()
        self._handle: Any = api.llama_init_from_model(model.handle, params)
        if not self._handle:
            raise _context_error(model, settings)
        self._memory = api.llama_get_memory(self._handle)
        self.n_snapshots = int(api.llama_n_rs_seq(self._handle))
        self.batch = api.llama_batch_init(settings.n_batch, 0, 1)

    def close(self) -> None:
        """Free the context and its batch; harmless when done before."""
        if self._handle:
            self._api.llama_batch_free(self.batch)
            self._api.llama_free(self._handle)
            self._handle = None

    def decode(self, n_tokens: int) -> None:
        """One whole pass over the first tokens of the batch. Raises Cancelled or ResourceError.

        A GPU goes on computing after `llama_decode` has returned: without waiting for it, a pass
        without logits would seem to take no time, and the next one its time.
        """
        self.batch.n_tokens = n_tokens
        status = self._api.llama_decode(self._handle, self.batch)
        if status != 0:
            raise Cancelled if status == _ABORTED else _decode_error(status)
        self._api.llama_synchronize(self._handle)

    def rows(self, n: int) -> Logits:
        """The logits of the last pass, [n, n_vocab]: a view, valid until the next one."""
        if n == 0:
            return np.empty((0, self.n_vocab), dtype=np.float32)
        pointer = self._api.llama_get_logits(self._handle)
        address = ctypes.cast(pointer, ctypes.c_void_p).value
        buffer = (ctypes.c_float * (n * self.n_vocab)).from_address(address or 0)
        rows: Logits = np.ctypeslib.as_array(buffer).reshape(n, self.n_vocab)
        if self._suppressed.size:
            rows[:, self._suppressed] = -np.inf
        return rows

    def forget_from(self, position: int, sequence: int) -> bool:
        """Drop the tail of a sequence from `position` on; False where there is no such way."""
        return bool(self._api.llama_memory_seq_rm(self._memory, sequence, position, -1))

    def copy(self, source: int, target: int) -> None:
        """Let the sequence `target` hold what `source` does."""
        self._api.llama_memory_seq_cp(self._memory, source, target, -1, -1)

    def last_position(self, sequence: int) -> int:
        """The largest position that a sequence holds; -1 when it is empty."""
        return int(self._api.llama_memory_seq_pos_max(self._memory, sequence))

    def state(self, sequence: int) -> memoryview:
        """What a sequence holds, for `set_state`."""
        size = self._api.llama_state_seq_get_size(self._handle, sequence)
        state = (ctypes.c_uint8 * size)()
        size = self._api.llama_state_seq_get_data(self._handle, state, size, sequence)
        return memoryview(state).cast("B")[:size]

    def set_state(self, sequence: int, state: bytes | bytearray | memoryview) -> int:
        """Let a sequence hold a `state`; how many bytes of it were read, 0 when it failed."""
        data = np.frombuffer(state, np.uint8).ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
        return int(self._api.llama_state_seq_set_data(self._handle, data, len(state), sequence))


def _context_params(settings: ContextSettings, abort: Any) -> Any:
    """llama.cpp's own parameters; all sequences share one cache."""
    api = library().api
    params = api.llama_context_default_params()
    params.n_ctx = settings.n_cells
    # llama.cpp wants the snapshots of a pass, and a token, to fit into one (split_equal).
    params.n_batch = params.n_ubatch = max(settings.n_batch, settings.n_snapshots + 2)
    params.n_outputs_max_per_seq = settings.n_rows
    params.n_outputs_max = max(settings.n_rows, settings.n_sequences)
    params.n_threads = params.n_threads_batch = settings.n_threads
    params.flash_attn_type = api.LLAMA_FLASH_ATTN_TYPE_ENABLED
    params.type_k, params.type_v = KV_TYPES[settings.k_type], KV_TYPES[settings.v_type]
    params.n_seq_max, params.kv_unified = settings.n_sequences, True
    params.n_rs_seq = settings.n_snapshots  # llama.cpp takes 0 where no snapshots are written
    params.swa_full = True  # a sliding window that forgot tokens could not be rolled back
    params.no_perf = True
    params.abort_callback = abort
    return params


def _context_error(model: LlamaModel, settings: ContextSettings) -> ResourceError:
    """Why there is no context, in llama.cpp's words."""
    reason = "; ".join(library().log.take_errors()) or "llama.cpp gave no reason"
    size, smaller = counted(settings.n_ctx, "token"), settings.n_ctx // 2
    return ResourceError(
        f"a context of {size} for {model.path.name} cannot be made: {reason}",
        hint=f"use a smaller one: `--ctx-size {smaller}`" if smaller >= _N_CELLS else None,
    )


def _decode_error(status: int) -> ResourceError:
    """Why a pass failed, in llama.cpp's words."""
    reason = "; ".join(library().log.take_errors()) or "llama.cpp gave no reason"
    return ResourceError(f"a pass through the model failed (llama_decode: {status}): {reason}")
