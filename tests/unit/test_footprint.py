"""What a model takes, by its header: weights where they lie, caches by layer, states, a bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from spec_cli.footprint import Footprint, footprint
from spec_cli.gguf import Header, read_header
from spec_cli.gguf_file import INT32, Array, Tensor, Value
from spec_cli.llama.native import ContextSettings
from spec_cli.llama.repacking import Repacking
from tests.tiny_gguf import N_VOCAB, write_tiny_model

F32, Q4_K, Q6_K = 0, 12, 14
AS_IT_IS = Repacking({}, {})
CONTEXT = ContextSettings(n_ctx=512, n_threads=1, n_batch=64, n_rows=8)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Header:
    """Three layers with one KV head of 32 and an output head of its own."""
    return read_header(write_tiny_model(tmp_path_factory.mktemp("m") / "tiny.gguf", n_layer=3))


def with_values(header: Header, values: Mapping[str, Value]) -> Header:
    keys = {f"{header.architecture}.{name}": value for name, value in values.items()}
    return replace(header, values={**header.values, **keys})


def numbers(*values: int) -> Array:
    return Array(INT32, len(values), b"".join(v.to_bytes(4, "little") for v in values))


def caches(header: Header, **changes: object) -> list[int]:
    taken = footprint(header, replace(CONTEXT, **changes), AS_IT_IS)  # type: ignore[arg-type]
    return [part.cache_bytes for part in taken.parts]


def weights(taken: Footprint) -> int:
    parts = (taken.input, *taken.parts)
    return sum(part.packed_bytes + part.plain_bytes for part in parts)


def test_every_byte_of_the_weights_lies_in_one_part(tiny: Header) -> None:
    taken = footprint(tiny, CONTEXT, AS_IT_IS)
    assert weights(taken) == sum(tensor.n_bytes for tensor in tiny.tensors)
    assert taken.input.plain_bytes == 4 * N_VOCAB * 64
    assert taken.n_offloadable == 4  # the output counts as a layer


def test_a_cache_has_its_types_heads_and_cells(tiny: Header) -> None:
    assert caches(tiny) == [512 * 32 * (2 + 2)] * 3 + [0]
    assert caches(tiny, k_type="f32")[0] == 512 * 32 * (4 + 2)
    assert caches(tiny, k_type="q8_0", v_type="q8_0")[0] == 512 * 34 * 2
    assert caches(tiny, n_ctx=513)[0] == 768 * 32 * 4  # llama.cpp rounds up to 256


def test_heads_may_be_stated_layer_by_layer(tiny: Header) -> None:
    header = with_values(tiny, {"attention.head_count_kv": numbers(1, 0, 2)})
    assert caches(header) == [512 * 128, 0, 2 * 512 * 128, 0]


def test_a_layer_with_a_window_has_a_full_cache(tiny: Header) -> None:
    values = {"attention.sliding_window": 100, "attention.sliding_window_pattern": 0}
    assert caches(with_values(tiny, values), n_ctx=4096)[:3] == [4096 * 128] * 3


def test_a_recurrent_model_has_a_state_that_no_context_changes(tmp_path: Path) -> None:
    header = read_header(write_tiny_model(tmp_path / "mamba.gguf", arch="mamba"))
    state = 4 * (3 * 128 + 16 * 128)  # (kernel - 1) * inner + state * inner
    assert caches(header) == caches(header, n_ctx=65536) == [state, state, 0]


@pytest.mark.parametrize(("arch", "n_states"), [("mamba", 2), ("lfm2", 2 * (1 + 7))])
def test_snapshots_and_a_second_sequence_have_states_of_their_own(
    tmp_path: Path, arch: str, n_states: int
) -> None:
    header = read_header(write_tiny_model(tmp_path / "m.gguf", arch=arch))  # type: ignore[arg-type]
    one, *_ = caches(header)
    assert caches(header, n_sequences=2, n_snapshots=7)[0] == n_states * one


def test_the_state_of_a_delta_attention_layer_is_a_matrix_for_each_head(tiny: Header) -> None:
    layer = Tensor("blk.0.ssm_a", (64, 64), F32, 0)
    values = {"kda.head_dim": 8, "attention.head_count": 4, "ssm.conv_kernel": 4}
    header = replace(with_values(tiny, values), tensors=(layer,))
    assert caches(header)[0] == 4 * (3 * 3 * 4 * 8 + 4 * 8 * 8)


def test_a_layer_with_a_state_and_a_fused_projection_has_no_cache(tiny: Header) -> None:
    linear = [Tensor(f"blk.0.{name}", (64, 64), F32, 0) for name in ("ssm_a", "attn_qkv.weight")]
    rest = [tensor for tensor in tiny.tensors if not tensor.name.startswith("blk.0.")]
    values = {"ssm.inner_size": 8, "ssm.state_size": 4, "ssm.conv_kernel": 4, "ssm.group_count": 1}
    header = replace(with_values(tiny, values), tensors=(*rest, *linear))
    assert caches(header)[:2] == [4 * (3 * (8 + 2 * 4) + 4 * 8), 512 * 128]


def header_of(tiny: Header, *tensors: Tensor) -> Header:
    """A header with these tensors."""
    return replace(tiny, tensors=tensors, n_layer=1)


def test_weights_that_the_cpu_rearranges_are_told_apart(tiny: Header) -> None:
    tensors = (
        Tensor("blk.0.attn_k.weight", (256, 64), Q4_K, 0),
        Tensor("blk.0.attn_v.weight", (256, 64), Q6_K, 0),
        Tensor("blk.0.odd.weight", (256, 9), Q4_K, 0),
        Tensor("blk.0.norm.weight", (256,), F32, 0),
        Tensor("blk.0.ffn_up_exps.weight", (256, 64, 4), Q4_K, 0),
    )
    part = footprint(header_of(tiny, *tensors), CONTEXT, Repacking({Q4_K: 1.25}, {})).parts[0]
    assert part.packed_bytes == 1.25 * tensors[0].n_bytes
    assert part.plain_bytes == sum(tensor.n_bytes for tensor in tensors[1:])


def test_an_embedding_that_is_the_output_too_is_held_again_where_it_must_be(tiny: Header) -> None:
    embedding = Tensor("token_embd.weight", (256, 64), Q6_K, 0)
    header = header_of(tiny, embedding, Tensor("blk.0.attn_k.weight", (256, 64), F32, 0))
    shared = footprint(header, CONTEXT, AS_IT_IS).parts[-1]
    assert (shared.packed_bytes, shared.copied_bytes) == (0, embedding.n_bytes)
    packed = footprint(header, CONTEXT, Repacking({Q6_K: 1.0}, {})).parts[-1]
    assert (packed.packed_bytes, packed.copied_bytes) == (embedding.n_bytes, 0)


def test_buffers_grow_with_the_batch_the_context_and_the_rows(tiny: Header) -> None:
    base = footprint(tiny, CONTEXT, AS_IT_IS)
    for change in ({"n_batch": 512}, {"n_ctx": 65536}, {"n_rows": 64}):
        more = footprint(tiny, replace(CONTEXT, **change), AS_IT_IS)
        assert more.compute_bytes > base.compute_bytes
