"""What a model takes of memory, told by its header: weights, KV cache and buffers, by layer.

The sizes follow llama.cpp (llama-kv-cache.cpp, llama-memory-recurrent.cpp, llama-model.cpp). The
cache is counted exactly where the header tells its shape, and buffers by a bound. A layer with a
sliding window has a full cache: our contexts ask for one (`swa_full`), to roll it back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from spec_cli.gguf import MAX_LAYERS, Header
from spec_cli.gguf_file import INT32, UINT32, Array, Tensor
from spec_cli.llama.native import ContextSettings, padded_cells
from spec_cli.llama.repacking import Repacking

_ELEMENT_BYTES = {"f32": 4.0, "f16": 2.0, "bf16": 2.0, "q8_0": 34 / 32}
_LISTS = (UINT32, INT32)
_VOCAB_ENTRY_BYTES = 400  # of llama.cpp's tables, a token
_BLOCK = re.compile(r"blk\.(\d{1,4})\.")
_INPUT = ("token_embd", "position_embd", "token_types", "per_layer_token_embd")
_KEYS = ("attn_k.", "attn_k_b", "attn_kv")
_STATES = ("ssm_", "time_mix_", "shortconv")

# Whose graphs write snapshots of the state (llm_arch_supports_rs_rollback).
_WITH_SNAPSHOTS = (
    *("qwen35", "qwen35moe", "qwen4exp", "nemotron_h", "nemotron_h_moe", "lfm2", "lfm2moe"),
    *("bailingmoe3", "kimi-k3", "glm5-next", "deepseek4"),
)


@dataclass(frozen=True, slots=True)
class Part:
    """A layer, the input or the output, in bytes.

    `packed_bytes` are weights that a CPU rearranges into memory of its own, `plain_bytes` those
    it uses as they stand in the file; a GPU holds both. `copied_bytes` are weights that another
    part holds, and this one needs again unless it can use those.
    """

    packed_bytes: int = 0
    plain_bytes: int = 0
    cache_bytes: int = 0
    copied_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a model takes. `parts` are the layers and then the output, which a GPU takes from the
    end; the input stays in RAM. `compute_bytes` are needed wherever a part is.
    """

    input: Part
    parts: tuple[Part, ...]
    compute_bytes: int
    host_bytes: int  # logits and the vocabulary, in RAM in any case

    @property
    def n_offloadable(self) -> int:
        """How many parts a GPU can take."""
        return len(self.parts)


def footprint(header: Header, context: ContextSettings, repacking: Repacking) -> Footprint:
    """The footprint of a model; `repacking` is what a CPU does to its weights."""
    n_layer = min(header.n_layer or 0, MAX_LAYERS)
    layers: list[list[Tensor]] = [[] for _ in range(n_layer)]
    input_: list[Tensor] = []
    output: list[Tensor] = []
    for tensor in header.tensors:
        block = _BLOCK.match(tensor.name)
        if block and int(block[1]) < n_layer:
            layers[int(block[1])].append(tensor)
        else:
            (input_ if tensor.name.startswith(_INPUT) else output).append(tensor)
    parts = [
        replace(_weights(layer, repacking), cache_bytes=_cache_bytes(layer, header, i, context))
        for i, layer in enumerate(layers)
    ]
    has_cache = any(_has_cache(layer) for layer in layers)
    n_caches = has_cache + bool(_integer(header, "attention.sliding_window"))
    return Footprint(
        input=_weights(input_, Repacking({}, {})),
        parts=(*parts, _output(output, input_, repacking)),
        compute_bytes=_compute_bytes(header, context, n_caches=n_caches),
        host_bytes=len(header.vocab.tokens) * (4 * context.n_rows + _VOCAB_ENTRY_BYTES),
    )


def _weights(tensors: Sequence[Tensor], repacking: Repacking) -> Part:
    sizes = [(_packed_bytes(tensor, repacking), tensor.n_bytes) for tensor in tensors]
    return Part(
        packed_bytes=sum(packed for packed, _ in sizes),
        plain_bytes=sum(plain for packed, plain in sizes if not packed),
    )


def _packed_bytes(tensor: Tensor, repacking: Repacking) -> int:
    """The size of a weight that is rearranged; 0: it is not."""
    if len(tensor.shape) < 2 or tensor.shape[1] % 8:
        return 0
    growth = repacking.matrices if len(tensor.shape) == 2 else repacking.experts
    return round(tensor.n_bytes * growth.get(tensor.kind, 0))


def _output(tensors: Sequence[Tensor], input_: Sequence[Tensor], repacking: Repacking) -> Part:
    """The output head. Without one of its own, a model uses the embedding a second time."""
    part = _weights(tensors, repacking)
    embedding = next((t for t in input_ if t.name == "token_embd.weight"), None)
    if embedding is None or any(t.name == "output.weight" for t in tensors):
        return part
    if packed_bytes := _packed_bytes(embedding, repacking):
        return replace(part, packed_bytes=part.packed_bytes + packed_bytes)
    return replace(part, copied_bytes=embedding.n_bytes)


def _cache_bytes(
    tensors: Sequence[Tensor], header: Header, index: int, context: ContextSettings
) -> int:
    """The KV cache and the recurrent state of a layer."""
    cache = _kv_bytes(header, index, context) if _has_cache(tensors) else 0
    if not _has_state(tensors):
        return cache
    return cache + context.n_sequences * _n_states(header, context) * _state_bytes(header)


def _has_cache(tensors: Sequence[Tensor]) -> bool:
    """Whether a layer with these weights has keys; a linear layer's fused projection is none."""
    names = _names(tensors)
    return any(name.startswith(_KEYS) for name in names) or (
        any(name.startswith("attn_qkv") for name in names) and not _has_state(tensors)
    )


def _has_state(tensors: Sequence[Tensor]) -> bool:
    return any(name.startswith(_STATES) for name in _names(tensors))


def _names(tensors: Sequence[Tensor]) -> list[str]:
    """The names without the layer's."""
    return [tensor.name.split(".", 2)[-1] for tensor in tensors]


def _kv_bytes(header: Header, index: int, context: ContextSettings) -> int:
    """The KV cache of a layer."""
    n_heads = _per_layer(header, "attention.head_count_kv", index)
    if n_heads is None:
        n_heads = _per_layer(header, "attention.head_count", index) or 0
    element_bytes = (header.key_length or 0) * _ELEMENT_BYTES[context.k_type]
    element_bytes += (header.value_length or 0) * _ELEMENT_BYTES[context.v_type]
    return int(n_heads * element_bytes * padded_cells(context.n_cells))


def _n_states(header: Header, context: ContextSettings) -> int:
    """How many states a sequence has of each recurrent layer."""
    return 1 + (context.n_snapshots if header.architecture in _WITH_SNAPSHOTS else 0)


def _state_bytes(header: Header) -> int:
    """The state of a recurrent layer, in f32 (llama_hparams::n_embd_r and n_embd_s)."""
    n_embd = header.n_embd or 0
    if head_size := _integer(header, "wkv.head_size"):
        return 4 * n_embd * (head_size + (_integer(header, "token_shift_count") or 2))
    if n_kept := _integer(header, "shortconv.l_cache"):
        return 4 * n_embd * (n_kept - 1)
    inner, state, kernel, groups = (
        _integer(header, f"ssm.{name}") or 0
        for name in ("inner_size", "state_size", "conv_kernel", "group_count")
    )
    if head_size := _integer(header, "kda.head_dim"):
        inner = head_size * (_per_layer(header, "attention.head_count", 0) or 0)
        return 4 * inner * (3 * max(0, kernel - 1) + head_size)
    return 4 * (max(0, kernel - 1) * (inner + 2 * groups * state) + state * inner)


def _compute_bytes(header: Header, context: ContextSettings, *, n_caches: int) -> int:
    """A bound on the buffers of one pass: activations, the mask of each kind of cache, logits.

    llama.cpp 0c1e57098 takes half of it to all of it, depending on the shape of the model;
    `tests/contract/test_memory.py` compares the two.
    """
    n_embd = header.n_embd or 0
    n_wide = max(
        (max(t.shape[:2]) for t in header.tensors if len(t.shape) > 1 and _BLOCK.match(t.name)),
        default=n_embd,
    )
    n_experts = _integer(header, "expert_used_count") or 1
    activations = 4 * context.n_batch * (6 * n_embd + 3 * n_wide * n_experts)
    masks = n_caches * 2 * context.n_batch * padded_cells(context.n_cells)
    logits = 4 * context.n_rows * len(header.vocab.tokens)
    states = _n_states(header, context) * _state_bytes(header)  # those that a layer writes
    return activations + masks + logits + states


def _integer(header: Header, key: str) -> int | None:
    value = header.values.get(f"{header.architecture}.{key}")
    return value if type(value) is int else None


def _per_layer(header: Header, key: str, index: int) -> int | None:
    """A number that is stated once for all layers, or layer by layer; 0 for one left out."""
    value = header.values.get(f"{header.architecture}.{key}")
    if not isinstance(value, Array):
        return value if type(value) is int else None
    if value.kind not in _LISTS or not index < len(value) <= MAX_LAYERS:
        return 0
    return int(value.numbers()[index])
