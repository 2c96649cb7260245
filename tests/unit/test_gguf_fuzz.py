"""Whatever a header says, reading it gives a header or one clear error."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_cli.errors import ModelError
from spec_cli.gguf import Header, read_header

_SIZES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_KEYS = (
    "general.architecture", "general.type", "general.name", "general.file_type",
    "general.alignment", "split.count", "llama.block_count", "llama.context_length",
    "llama.embedding_length", "llama.attention.head_count", "llama.attention.head_count_kv",
    "llama.attention.key_length", "llama.attention.causal", "llama.pooling_type",
    "llama.rope.freq_base", "tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens",
    "tokenizer.ggml.token_type", "tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token",
    "tokenizer.chat_template",
)  # fmt: skip
_NAMES = ("token_embd.weight", "output.weight", "blk.0.attn_q.weight", "")

# Counts: mostly true, sometimes lies of every size.
lies = st.sampled_from([0, 1, 2, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**61, 2**63, 2**64 - 1])


def u32(value: int) -> bytes:
    return struct.pack("<I", value % 2**32)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value % 2**64)


@st.composite
def strings(draw: st.DrawFn, texts: st.SearchStrategy[bytes] | None = None) -> bytes:
    text = draw(texts if texts is not None else st.binary(max_size=12))
    n = draw(lies) if draw(st.integers(0, 60)) == 60 else len(text)
    return u64(n) + text


@st.composite
def scalars(draw: st.DrawFn, kind: int) -> bytes:
    size = struct.calcsize(f"<{_SIZES[kind]}")
    return draw(
        st.binary(min_size=size, max_size=size)
        | st.sampled_from([b"\x00" * size, b"\xff" * size, b"\x01" + b"\x00" * (size - 1)])
    )


@st.composite
def arrays(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from([*_SIZES, 8, 8, 9, 13, 2**32 - 1]))
    n = draw(st.integers(0, 6))
    element = scalars(kind) if kind in _SIZES else arrays() if kind == 9 else strings()
    body = b"".join(draw(element) for _ in range(min(n, 2) if kind == 9 else n))
    return u32(kind) + u64(draw(lies) if draw(st.integers(0, 20)) == 20 else n) + body


@st.composite
def pairs(draw: st.DrawFn) -> bytes:
    key = draw(strings(st.sampled_from([name.encode() for name in _KEYS])))
    kind = draw(st.sampled_from([*_SIZES, 8, 8, 8, 9, 9, 9, 13]))
    if kind == 8:
        texts = st.sampled_from([b"llama", b"gpt2", b"bert", b"\xff", b"", b"{{ x }}"])
        return key + u32(kind) + draw(strings(texts))
    if kind == 9:
        return key + u32(kind) + draw(arrays())
    return key + u32(kind) + (draw(scalars(kind)) if kind in _SIZES else b"")


@st.composite
def tensors(draw: st.DrawFn) -> bytes:
    name = draw(strings(st.sampled_from([name.encode() for name in _NAMES])))
    n_dims = draw(st.sampled_from([0, 1, 2, 4, 5, 2**32 - 1]))
    dims = b"".join(u64(draw(st.integers(0, 64) | lies)) for _ in range(min(n_dims, 5)))
    kind, offset = draw(st.integers(0, 45) | lies), draw(st.integers(0, 64) | lies)
    return name + u32(n_dims) + dims + u32(kind) + u64(offset)


_GOOD = (
    b"".join(
        u64(len(key)) + key + value
        for key, value in {
            b"general.architecture": u32(8) + u64(5) + b"llama",
            b"tokenizer.ggml.model": u32(8) + u64(4) + b"gpt2",
            b"tokenizer.ggml.tokens": u32(9) + u32(8) + u64(2) + u64(1) + b"a" + u64(1) + b"b",
        }.items()
    ),
    3,
)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    start, n_good = draw(st.sampled_from([(b"", 0), _GOOD, _GOOD]))
    keys, entries = draw(st.lists(pairs(), max_size=6)), draw(st.lists(tensors(), max_size=3))
    n_keys = draw(lies) if draw(st.integers(0, 20)) == 20 else n_good + len(keys)
    n_tensors = draw(lies) if draw(st.integers(0, 20)) == 20 else len(entries)
    counts = u64(n_tensors) + u64(n_keys)
    body = b"".join([start, *keys, *entries, bytes(draw(st.integers(0, 200)))])
    return b"GGUF" + u32(draw(st.sampled_from([3, 3, 3, 2, 1, 4, 2**24]))) + counts + body


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "model.gguf"


def outcome(path: Path) -> Header | ModelError:
    try:
        header = read_header(path)
    except ModelError as error:
        assert error.hint and "\n" not in error.message
        return error
    assert header.n_bytes > 0 and header.n_params >= 0
    assert len(list(header.vocab.tokens.strings())) == len(header.vocab.tokens)
    assert all(len(tensor.shape) <= 4 and tensor.n_bytes >= 0 for tensor in header.tensors)
    assert header.n_layer is None or header.n_layer > 0
    assert header.context_length is None or header.context_length > 0
    return header


@given(files())
@settings(max_examples=200)
def test_any_header_is_read_or_refused_in_one_line(scratch: Path, content: bytes) -> None:
    scratch.write_bytes(content)
    outcome(scratch)


def test_the_beginning_that_is_varied_is_good(scratch: Path) -> None:
    tensor = u64(1) + b"t" + u32(1) + u64(16) + u32(0) + u64(0)
    start, n_keys = _GOOD
    scratch.write_bytes(b"GGUF" + u32(3) + u64(1) + u64(n_keys) + start + tensor + bytes(96))
    assert isinstance(outcome(scratch), Header)
