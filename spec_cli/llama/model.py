"""A model file loaded by llama.cpp: its weights' handle and its vocabulary."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from spec_cli.errors import Cancelled, ModelError, ResourceError
from spec_cli.llama.devices import Device
from spec_cli.llama.library import library
from spec_cli.llama.longcall import LongCall
from spec_cli.settings import ALL_LAYERS

_SHORT_BYTES = 1 << 14  # of a text that is tokenised in no time, however badly
# Some vocabularies cut text by std::regex, which recurs at each character.
_PIECE_BYTES, _PIECE_STACK_BYTES = 1 << 12, 1 << 22
_CONTROL_OR_UNKNOWN = 0x8 | 0x1  # LLAMA_TOKEN_ATTR_CONTROL, _UNKNOWN (llama.h)


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """How a model is loaded. `n_gpu_layers` counts from the output end; ALL_LAYERS is all."""

    n_gpu_layers: int = ALL_LAYERS
    devices: tuple[Device, ...] = ()  # none: the CPU alone
    repack: bool = True  # weights rearranged for faster CPU kernels (use_extra_bufts)


class LlamaModel:
    """Owns a `llama_model`. Frees it in `close`; contexts made from it must be closed before."""

    def __init__(
        self,
        path: Path,
        settings: LoadSettings,
        *,
        progress: Callable[[float], bool] = lambda fraction: True,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Load `path`. `progress` gets the fraction loaded and returns False to give up;
        `cancelled` is asked while a long text is tokenised.

        Raises Cancelled when `progress` gave up, what it raised, ResourceError when memory ran
        out, and ModelError with llama.cpp's own reason otherwise.
        """
        self.path = path
        self._api = library().api
        stopped: BaseException | None = None

        def report(fraction: float, _user_data: object) -> bool:
            nonlocal stopped
            try:
                stopped = None if progress(fraction) else Cancelled()
            except BaseException as error:  # it cannot pass through llama.cpp
                stopped = error
            return stopped is None

        params = self._api.llama_model_default_params()
        params.n_gpu_layers = settings.n_gpu_layers if settings.devices else 0
        devices = (ctypes.c_void_p * (len(settings.devices) + 1))(
            *(device.handle for device in settings.devices), None
        )
        params.devices = ctypes.cast(devices, ctypes.c_void_p)
        params.use_extra_bufts = settings.repack
        callback = self._api.llama_progress_callback(report)
        params.progress_callback = callback
        library().log.take_errors()
        self.handle: Any = self._api.llama_model_load_from_file(os.fsencode(path), params)
        if not self.handle:
            raise stopped or _load_error(path, library().log.take_errors())
        self.vocab: Any = self._api.llama_model_get_vocab(self.handle)
        self._pieces: dict[int, bytes] = {}
        self._buffer = ctypes.create_string_buffer(64)
        self._cancelled = cancelled
        self._readings: list[LongCall[list[int]]] = []  # those that may still run

    def close(self) -> None:
        """Free the weights, unless a text is still being tokenised; harmless when done before."""
        if self.handle and not any(reading.is_running for reading in self._readings):
            self._api.llama_model_free(self.handle)
            self.handle = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @cached_property
    def n_vocab(self) -> int:
        """Number of token ids."""
        return int(self._api.llama_vocab_n_tokens(self.vocab))

    @property
    def n_ctx_train(self) -> int:
        """The context length the model was trained for."""
        return int(self._api.llama_model_n_ctx_train(self.handle))

    @property
    def is_recurrent(self) -> bool:
        """Whether its memory, or a part of it, is one state that each token overwrites."""
        return bool(
            self._api.llama_model_is_recurrent(self.handle)
            or self._api.llama_model_is_hybrid(self.handle)
        )

    @cached_property
    def suppressed(self) -> tuple[int, ...]:
        """The token ids that the model file says are never to be generated."""
        n = ctypes.c_int32()
        ids = self._api.llama_vocab_get_suppress_tokens(self.vocab, ctypes.byref(n))
        return tuple(ids[i] for i in range(n.value))

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Every end-of-generation token. Walks the vocabulary: 0.1 s."""
        return tuple(token for token in range(self.n_vocab) if self.is_end(token))

    def is_end(self, token: int) -> bool:
        """Whether `token` ends a generation; a model may have several such tokens."""
        return bool(self._api.llama_vocab_is_eog(self.vocab, token))

    def tokenize(self, text: str, *, special: bool, bos: bool) -> list[int]:
        """The ids of `text`. `special`: control tokens written in it become those tokens.
        `bos`: with the beginning-of-sequence token, if the vocabulary wants one.
        Raises ResourceError, and Cancelled: llama.cpp goes on then, and `close` frees nothing
        until it has ended.
        """
        # Not by llama_tokenize's add_special: it may also append an end-of-sequence token.
        wants_bos = bos and self._api.llama_vocab_get_add_bos(self.vocab)
        bos_id = int(self._api.llama_vocab_bos(self.vocab))
        first = [bos_id] if wants_bos and bos_id >= 0 else []
        raw = text.encode()
        if len(raw) <= _SHORT_BYTES:
            return first + self._tokenize(raw, special)
        stack_bytes = (len(raw) // _PIECE_BYTES + 1) * _PIECE_STACK_BYTES
        try:
            reading = LongCall(lambda: self._tokenize(raw, special), stack_bytes=stack_bytes)
        except RuntimeError:  # no room for the stack
            raise ResourceError(
                f"there is no memory to tokenise a text of {len(raw) >> 20} MiB",
                hint="shorten it: few contexts hold a hundredth of that",
            ) from None
        self._readings = [other for other in self._readings if other.is_running] + [reading]
        return first + reading.result(self._cancelled)

    def _tokenize(self, raw: bytes, special: bool) -> list[int]:
        n = len(raw) + 1
        while True:
            buffer = (self._api.llama_token * n)()
            got = self._api.llama_tokenize(self.vocab, raw, len(raw), buffer, n, False, special)
            if got >= 0:
                tokens: list[int] = buffer[:got]
                return tokens
            n = -got

    def piece(self, token: int) -> bytes:
        """The bytes that `token` stands for; empty for control tokens."""
        known = self._pieces.get(token)
        if known is None:
            known = self._pieces[token] = self._token_to_piece(token)
        return known

    def control_texts(self) -> list[str]:
        """The texts of all control and unknown tokens. Walks the vocabulary once: 0.1 s."""
        return self._control_texts

    @cached_property
    def _control_texts(self) -> list[str]:
        get_attr, get_text = self._api.llama_vocab_get_attr, self._api.llama_vocab_get_text
        return [
            get_text(self.vocab, token).decode("utf-8", "replace")
            for token in range(self.n_vocab)
            if get_attr(self.vocab, token) & _CONTROL_OR_UNKNOWN
        ]

    def token_text(self, token: int) -> str:
        """The vocabulary's entry of a token, control tokens included; empty for no token (-1)."""
        if token < 0:
            return ""
        return str(self._api.llama_vocab_get_text(self.vocab, token).decode("utf-8", "replace"))

    @property
    def bos_text(self) -> str:
        """The text of the beginning-of-sequence token, or nothing."""
        return self.token_text(self._api.llama_vocab_bos(self.vocab))

    @property
    def eos_text(self) -> str:
        """The text of the end-of-sequence token, or nothing."""
        return self.token_text(self._api.llama_vocab_eos(self.vocab))

    def _token_to_piece(self, token: int) -> bytes:
        buffer = self._buffer
        n = self._api.llama_token_to_piece(self.vocab, token, buffer, len(buffer), 0, False)
        if n >= 0:
            return ctypes.string_at(buffer, n)
        self._buffer = ctypes.create_string_buffer(-n)
        return self._token_to_piece(token)


def _load_error(path: Path, log: list[str]) -> ModelError | ResourceError:
    reason = log[0] if log else "llama.cpp gave no reason"
    if any("alloc" in line or "out of memory" in line for line in log):
        return ResourceError(
            f"not enough memory to load {path.name}: {reason}",
            hint="use a smaller quantisation, or fewer `--gpu-layers`",
        )
    return ModelError(f"{path.name} cannot be loaded: {reason}")
