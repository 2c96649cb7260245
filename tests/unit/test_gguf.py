from __future__ import annotations

import os
import re
import struct
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_cli.errors import ExitCode, ModelError
from spec_cli.gguf import Header, read_header
from spec_cli.gguf_file import MAX_HEADER_BYTES, Array, Tensor, read_gguf
from tests.tiny_gguf import CHATML, N_VOCAB, bpe_vocab, write_tiny_model

REAL_MODELS = sorted(
    Path(os.environ.get("SPEC_CLI_TEST_MODELS", "/nowhere")).glob("*.gguf"),
    key=lambda path: path.stat().st_size,
)[:2]  # the gguf package takes seconds for one


def write_small(
    path: Path,
    arch: str = "llama",
    change: Callable[[gguf.GGUFWriter], None] | None = None,
    types: Sequence[int] = (1, 1, 3),
) -> Path:
    """The smallest file that counts as a model: about a kilobyte, no padding at its end."""
    writer = gguf.GGUFWriter(path, arch)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["a", "b", "</s>"])
    writer.add_token_types(types)
    writer.add_eos_token_id(2)
    if change is not None:
        change(writer)
    writer.add_tensor("first", np.zeros((2, 4), np.float32))
    writer.add_tensor("last", np.zeros((3, 8), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def failure(path: Path) -> ModelError:
    with pytest.raises(ModelError) as caught:
        read_header(path)
    assert caught.value.exit_code == ExitCode.MODEL
    assert caught.value.hint
    assert "\n" not in caught.value.message
    return caught.value


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "model.gguf"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_small(tmp_path_factory.mktemp("small") / "small.gguf").read_bytes()


def test_header_says_what_the_writer_wrote(tmp_path: Path) -> None:
    header = read_header(write_tiny_model(tmp_path / "tiny.gguf", seed=3, n_layer=2, n_embd=64))
    vocab = bpe_vocab()
    assert header.architecture == "llama"
    assert header.name == "Tiny llama 3"
    assert header.quant == "F32"
    assert header.context_length == 512
    assert (header.n_layer, header.n_embd) == (2, 64)
    assert (header.n_head_kv_total, header.key_length, header.value_length) == (2, 32, 32)
    assert header.chat_template == CHATML
    assert header.n_bytes == header.path.stat().st_size
    assert (header.vocab.model, header.vocab.pre) == ("gpt2", "gpt-2")
    assert [text.decode() for text in header.vocab.tokens.strings()] == list(vocab.texts)
    assert header.vocab.types is not None
    assert header.vocab.types.numbers() == tuple(vocab.types)
    assert (header.vocab.bos_id, header.vocab.eos_id) == (265, 267)
    assert header.vocab.text(267) == "<|im_end|>"
    assert (header.vocab.add_bos, header.vocab.add_eos) == (False, None)
    assert header.vocab.pad_id is None


def test_parameters_are_the_elements_of_all_tensors(tmp_path: Path) -> None:
    header = read_header(write_tiny_model(tmp_path / "tiny.gguf", n_layer=1, n_embd=64))
    layer = 2 * 64 + 2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 128
    assert header.n_params == 2 * N_VOCAB * 64 + 64 + layer
    assert sum(tensor.n_bytes for tensor in header.tensors) == 4 * header.n_params


def test_every_scalar_type_is_read(tmp_path: Path) -> None:
    written = {
        "uint8": 255, "int8": -1, "uint16": 65535, "int16": -2, "uint32": 2**32 - 1, "int32": -3,
        "uint64": 2**64 - 1, "int64": -(2**63), "float32": 0.5, "float64": 0.1, "bool": True,
        "string": "héllo 世界",
    }  # fmt: skip

    def change(writer: gguf.GGUFWriter) -> None:
        for name, value in written.items():
            getattr(writer, f"add_{name}")(f"test.{name}", value)

    values = read_header(write_small(tmp_path / "m.gguf", change=change)).values
    assert {name: values[f"test.{name}"] for name in written} == written


@pytest.mark.parametrize("numbers", [[1, 2, 3], [0.5, -1.0], [True, False], [-(2**31)]])
def test_number_arrays_are_read(tmp_path: Path, numbers: list[Any]) -> None:
    path = write_small(tmp_path / "m.gguf", change=lambda w: w.add_array("test.a", numbers))
    array = read_header(path).values["test.a"]
    assert isinstance(array, Array)
    assert list(array.numbers()) == numbers


@pytest.mark.parametrize("version", [2, 3])
def test_both_versions_are_read(scratch: Path, small: bytes, version: int) -> None:
    scratch.write_bytes(small[:4] + struct.pack("<I", version) + small[8:])
    assert read_header(scratch).n_params == 32


def test_kv_heads_may_be_stated_layer_by_layer(tmp_path: Path) -> None:
    def change(writer: gguf.GGUFWriter) -> None:
        writer.add_block_count(3)
        writer.add_head_count([8, 8, 4])
        writer.add_head_count_kv([2, 0, 1])
        writer.add_embedding_length(64)

    header = read_header(write_small(tmp_path / "m.gguf", change=change))
    assert (header.n_head_kv_total, header.key_length) == (3, 8)


@pytest.mark.parametrize("kind", gguf.LlamaFileType, ids=lambda kind: kind.name)
def test_quant_names_are_those_of_the_gguf_package(
    tmp_path: Path, kind: gguf.LlamaFileType
) -> None:
    path = write_small(tmp_path / "m.gguf", change=lambda w: w.add_file_type(kind))
    if kind == gguf.LlamaFileType.GUESSED:  # a flag, here beside 0
        assert read_header(path).quant == "F32"
    else:
        assert read_header(path).quant == re.sub("^(MOSTLY|ALL)_", "", kind.name)


def test_tensor_sizes_are_those_of_the_gguf_package() -> None:
    never_stored = {gguf.GGMLQuantizationType.Q8_1, gguf.GGMLQuantizationType.Q8_K}
    for kind, (n_elements, n_bytes) in gguf.GGML_QUANT_SIZES.items():
        if kind not in never_stored:
            assert Tensor("t", (n_elements, 3), int(kind), 0).n_bytes == 3 * n_bytes, kind


def test_token_id_out_of_range_counts_as_none(tmp_path: Path) -> None:
    path = write_small(tmp_path / "m.gguf", change=lambda w: w.add_bos_token_id(3))
    assert read_header(path).vocab.bos_id is None


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "is empty"),
        (b"GG", "not a GGUF file"),
        (b"GGUF\x03\x00", "is truncated"),
        (b"GGUF" + struct.pack("<IQ", 3, 0), "is truncated"),
        (b"\n<!DOCTYPE html><html>", "is a web page"),
        (b"<html lang=en>", "is a web page"),
        (b"\xef\xbb\xbf<!doctype HTML>", "is a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00", "is a Git LFS pointer"),
        (b"PK\x03\x04 and more bytes", "not a GGUF file: it starts with b'PK\\x03\\x04'"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "is GGUF version 1"),
        (b"GGUF" + struct.pack("<IQQ", 4, 0, 0), "is GGUF version 4"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "is a big-endian GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**62), "is damaged"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**62, 0), "is damaged"),
        (b"GGUF" + struct.pack("<IQQQ1sI", 3, 1, 0, 1, b"t", 5), "a tensor has 5 dimensions"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "names no architecture"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 9, 1), "an array holds arrays"),
        (
            b"GGUF"
            + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"k", 9)
            + struct.pack("<IQ", 9, 1) * 10**6,
            "an array holds arrays",
        ),
    ],
)
def test_each_wrong_file_has_its_own_cause(scratch: Path, content: bytes, cause: str) -> None:
    scratch.write_bytes(content)
    assert cause in failure(scratch).message


def test_missing_file_and_directory_are_told_apart(tmp_path: Path) -> None:
    assert failure(tmp_path / "none.gguf").message == f"no such file: {tmp_path / 'none.gguf'}"
    assert failure(tmp_path).message == f"{tmp_path} is a directory"
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in failure(tmp_path / "pipe").message


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file_is_reported(scratch: Path, small: bytes) -> None:
    scratch.write_bytes(small)
    scratch.chmod(0)
    try:
        assert "Permission denied" in failure(scratch).message
    finally:
        scratch.chmod(0o600)


def test_every_truncation_is_an_error(scratch: Path, small: bytes) -> None:
    scratch.write_bytes(small)
    assert read_header(scratch).n_bytes == len(small)
    for n_bytes in range(8, len(small)):
        scratch.write_bytes(small[:n_bytes])
        assert "is truncated" in failure(scratch).message


def test_file_that_shrinks_under_the_reader_is_truncated(tmp_path: Path, small: bytes) -> None:
    big = tmp_path / "big.gguf"
    big.touch()
    os.truncate(big, 1 << 30)

    class Shrinking(type(tmp_path)):  # type: ignore[misc]
        def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
            return big.stat(follow_symlinks=follow_symlinks)

    path = Shrinking(tmp_path / "small.gguf")
    path.write_bytes(small[:100])
    assert "is truncated" in failure(path).message


@pytest.mark.parametrize("kind", ["clip", "bert", "t5", "llada", "wavtokenizer-dec", "eagle3"])
def test_other_architectures_are_refused(tmp_path: Path, kind: str) -> None:
    assert "not a generative language model" in failure(write_small(tmp_path / "m", kind)).message


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda w: w.add_type("adapter"), "is an adapter (LoRA)"),
        (lambda w: w.add_type("mmproj"), "is an image or audio encoder"),
        (lambda w: w.add_pooling_type(gguf.PoolingType.LAST), "is an embedding model"),
        (lambda w: w.add_causal_attention(False), "is a model without causal attention"),
        (lambda w: w.add_uint32("general.name", 1), "`general.name` is not a text"),
        (lambda w: w.add_float32("llama.block_count", 2.0), "`llama.block_count` is not an int"),
        (lambda w: w.add_int32("tokenizer.ggml.add_bos_token", 1), "is not a boolean"),
        (lambda w: w.add_array("llama.attention.head_count", [0.5]), "one integer per layer"),
        (lambda w: w.add_array("llama.attention.head_count", [1] * 513), "integer per layer"),
        (lambda w: w.add_block_count(0), "`llama.block_count` is 0"),
        (lambda w: w.add_block_count(513), "`llama.block_count` is 513"),
        (lambda w: w.add_int32("llama.block_count", -1), "`llama.block_count` is -1"),
        (lambda w: w.add_context_length(0), "`llama.context_length` is 0"),
        (lambda w: w.add_context_length(2**31), f"`llama.context_length` is {2**31}"),
        (lambda w: w.add_embedding_length(2**32 - 1), f"`llama.embedding_length` is {2**32 - 1}"),
        (lambda w: w.add_rope_freq_base(float("nan")), "`llama.rope.freq_base` is not a number"),
        (lambda w: w.add_uint32("general.alignment", 24), "alignment is not a power of two"),
    ],
)
def test_contradictory_keys_are_refused(
    tmp_path: Path, change: Callable[[gguf.GGUFWriter], None], cause: str
) -> None:
    assert cause in failure(write_small(tmp_path / "m.gguf", change=change)).message


def test_every_token_must_have_a_type(tmp_path: Path) -> None:
    assert read_header(write_small(tmp_path / "more.gguf", types=(1, 1, 3, 1))).n_params == 32
    message = failure(write_small(tmp_path / "fewer.gguf", types=(1, 1))).message
    assert "it has 2 types for 3 tokens" in message


def test_vocabulary_without_weights_is_refused(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "v.gguf", "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["a"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert "holds a vocabulary but no weights" in failure(tmp_path / "v.gguf").message


def test_weights_without_vocabulary_are_refused(scratch: Path, small: bytes) -> None:
    scratch.write_bytes(small.replace(b"tokenizer.ggml.tokens", b"tokenizer.ggml.xokens"))
    assert "holds no tokenizer" in failure(scratch).message


def test_repeated_key_is_refused(tmp_path: Path) -> None:
    def change(writer: gguf.GGUFWriter) -> None:
        writer.add_bool("test.a", True)
        writer.add_bool("test.b", True)

    path = write_small(tmp_path / "m.gguf", change=change)
    path.write_bytes(path.read_bytes().replace(b"test.b", b"test.a"))
    assert "a key appears twice" in failure(path).message


def split(tmp_path: Path, n_parts: int) -> list[Path]:
    parts = [tmp_path / f"m-{i:05d}-of-{n_parts:05d}.gguf" for i in range(1, n_parts + 1)]
    for part in parts:
        write_small(part, change=lambda w: w.add_uint16("split.count", n_parts))
    return parts


def test_parts_of_a_split_model_are_counted_together(tmp_path: Path) -> None:
    parts = split(tmp_path, 3)
    header = read_header(parts[0])
    assert header.n_params == 3 * 32
    assert header.n_bytes == sum(part.stat().st_size for part in parts)


def test_missing_part_is_named(tmp_path: Path) -> None:
    parts = split(tmp_path, 3)
    parts[1].unlink()
    assert failure(parts[0]).message == f"part 2 of 3 is missing: {parts[1]}"


def test_truncated_part_is_named(tmp_path: Path) -> None:
    parts = split(tmp_path, 2)
    parts[1].write_bytes(parts[1].read_bytes()[:-1])
    assert failure(parts[0]).message.startswith(f"{parts[1]} is truncated")


def test_later_part_points_to_the_first(tmp_path: Path) -> None:
    parts = split(tmp_path, 3)
    error = failure(parts[1])
    assert error.message == f"{parts[1]} is part 2 of 3"
    assert error.hint == f"give the first: `{parts[0]}`"


def test_renamed_part_is_refused(tmp_path: Path) -> None:
    renamed = split(tmp_path, 2)[0].rename(tmp_path / "model.gguf")
    assert "is one of 2 parts but is not named like one" in failure(renamed).message


def lying(n_strings: int, first_length: int) -> bytes:
    """One key, an array that claims `n_strings` strings."""
    return b"GGUF" + struct.pack("<IQQQ1sIIQQ", 3, 0, 1, 1, b"k", 9, 8, n_strings, first_length)


@pytest.mark.parametrize(
    "content",
    [
        lying(2**61, 0),
        lying(1, 2**63),
        lying(3, 2**64 - 16),
        lying(MAX_HEADER_BYTES // 4, 0),
        lying(1, MAX_HEADER_BYTES),
    ],
)
def test_lying_header_costs_no_memory(scratch: Path, content: bytes) -> None:
    with scratch.open("wb") as file:
        file.write(content)
        file.truncate(2 * MAX_HEADER_BYTES)  # a sparse file as big as a model
    tracemalloc.start()
    try:
        failure(scratch)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
        scratch.unlink()


def header_or_error(path: Path) -> None:
    try:
        header = read_header(path)
    except ModelError:
        return
    assert isinstance(header, Header)
    assert len(list(header.vocab.tokens.strings())) == len(header.vocab.tokens)
    for token in (header.vocab.bos_id, header.vocab.eos_id):
        assert token is None or isinstance(header.vocab.text(token), str)


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_random_bytes_are_a_model_error(scratch: Path, tail: bytes) -> None:
    for start in (b"", b"GGUF\x03\x00\x00\x00", b"GGUF" + struct.pack("<IQQ", 3, 1, 2)):
        scratch.write_bytes(start + tail)
        header_or_error(scratch)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_flipped_bits_give_a_header_or_a_model_error(
    scratch: Path, small: bytes, data: st.DataObject
) -> None:
    content = bytearray(small)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(small) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    scratch.write_bytes(content)
    header_or_error(scratch)


@pytest.mark.skipif(not REAL_MODELS, reason="SPEC_CLI_TEST_MODELS names no directory of models")
@pytest.mark.parametrize("path", REAL_MODELS, ids=lambda path: path.name)
def test_real_headers_agree_with_the_gguf_package(path: Path) -> None:
    ours, theirs = read_gguf(path), gguf.GGUFReader(path)
    fields = {key: field for key, field in theirs.fields.items() if not key.startswith("GGUF.")}
    assert set(ours.values) == set(fields)
    for key, field in fields.items():
        value = ours.values[key]
        if not isinstance(value, Array):
            assert value == field.contents()
        elif value.kind == gguf.GGUFValueType.STRING:
            assert list(value.strings()) == [bytes(field.parts[i]) for i in field.data]
        else:
            assert list(value.numbers()) == [field.parts[i][0] for i in field.data]
    assert [(t.name, t.shape, t.n_bytes) for t in ours.tensors] == [
        (t.name, tuple(t.shape), t.n_bytes) for t in theirs.tensors
    ]
