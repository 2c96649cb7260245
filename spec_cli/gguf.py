"""What a model file says about itself, read before any weight is loaded."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spec_cli.errors import ModelError
from spec_cli.gguf_file import INT32, STRING, UINT32, Array, GgufFile, Tensor, Value, read_gguf
from spec_cli.spec.counts import counted

MAX_LAYERS = 512  # LLAMA_MAX_LAYERS
# What llama.cpp, or we, could not count with
_LIMITS = {"block_count": MAX_LAYERS, "context_length": 2**31 - 1, "embedding_length": 2**20}
_SPLIT_NAME = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")

# llama.h, enum llama_ftype
_QUANTS = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K",
    11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S",
    17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS",
    23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M",
    30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE",
    39: "NVFP4", 40: "Q1_0", 41: "Q2_0",
}  # fmt: skip
_QUANT_GUESSED = 1024  # LLAMA_FTYPE_GUESSED, a flag beside the type

# Files that are no decoder-only language model, by general.type or general.architecture
_OTHER_MODELS = {
    "adapter": "an adapter (LoRA)",
    "imatrix": "an importance matrix",
    **dict.fromkeys(("mmproj", "clip"), "an image or audio encoder"),
    **dict.fromkeys(
        ("bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2",
         "jina-bert-v3", "eurobert", "gemma-embedding", "llama-embed"), "an embedding model",
    ),
    **dict.fromkeys(("t5", "t5encoder"), "an encoder-decoder model"),
    **dict.fromkeys(("dream", "llada", "llada-moe", "rnd1"), "a diffusion model"),
    **dict.fromkeys(("wavtokenizer-dec", "qwen3tts", "pockettts"), "a speech model"),
    **dict.fromkeys(("eagle3", "dflash", "gemma4-assistant"), "a draft head of another model"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokenizer as the file states it; None where it says nothing.

    `model` is `gpt2` (byte-level BPE), `llama` (SentencePiece) and so on; `pre` names the
    pre-tokenizer; `types` holds the llama_token_type of every token.
    """

    model: str
    pre: str | None
    tokens: Array
    types: Array | None
    bos_id: int | None
    eos_id: int | None
    eot_id: int | None
    pad_id: int | None
    unk_id: int | None
    add_bos: bool | None
    add_eos: bool | None

    def text(self, token: int) -> str:
        """The stored text of a token; special tokens are stored as they are written."""
        stored = next(itertools.islice(self.tokens.strings(), token, None))
        return stored.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Header:
    """What a model, with all its parts, says about itself; None where it says nothing.

    `quant` is the file type, such as Q4_K_M. `n_head_kv_total` counts the KV heads of all layers:
    a token takes n_head_kv_total * (key_length + value_length) elements of KV cache, or fewer
    where the architecture bounds or shares its cache. `values` has every key of the first part.
    """

    path: Path
    architecture: str
    name: str | None
    quant: str | None
    n_params: int
    n_bytes: int
    context_length: int | None
    n_layer: int | None
    n_embd: int | None
    n_head_kv_total: int | None
    key_length: int | None
    value_length: int | None
    chat_template: str | None
    vocab: Vocabulary
    tensors: tuple[Tensor, ...]
    values: Mapping[str, Value]


def read_header(path: Path) -> Header:
    """Read and check the header of a model, given its file or the first of its parts.

    Raises ModelError, with a cause and a hint of its own, for everything that cannot be generated
    with: no GGUF file, a damaged one, a missing part, another kind of model.
    """
    first = read_gguf(path)
    keys = _Keys(path, first.values)
    _check_kind(keys)
    return header_of(path, [first, *(read_gguf(part) for part in _other_parts(keys))])


def header_of(path: Path, files: Sequence[GgufFile]) -> Header:
    """What a model says about itself, given the headers of all its parts, `path` the first's name.

    Raises ModelError for what cannot be generated with.
    """
    keys = _Keys(path, files[0].values)
    architecture = _check_kind(keys)
    _check_numbers(keys, architecture)
    tensors = tuple(tensor for file in files for tensor in file.tensors)
    if not tensors:
        raise ModelError(
            f"{path} holds a vocabulary but no weights", hint="give a complete model file"
        )
    return _header(keys, architecture, tensors, n_bytes=sum(file.n_bytes for file in files))


def _check_kind(keys: _Keys) -> str:
    """The architecture, when it is one that generates text token by token."""
    architecture = keys.text("general.architecture")
    kind = _other_kind(keys, architecture)
    if kind is not None:
        raise ModelError(
            f"{keys.path} is {kind}, not a generative language model",
            hint="give the language model itself",
        )
    if architecture is None:
        hint = "give a model that was converted for llama.cpp"
        raise ModelError(f"{keys.path} names no architecture", hint=hint)
    return architecture


def _other_kind(keys: _Keys, architecture: str | None) -> str | None:
    for name in (keys.text("general.type"), architecture):
        if name in _OTHER_MODELS:
            return _OTHER_MODELS[name]
    if keys.integer(f"{architecture}.pooling_type"):
        return "an embedding model"
    if keys.flag(f"{architecture}.attention.causal") is False:
        return "a model without causal attention"
    return None


def _check_numbers(keys: _Keys, architecture: str) -> None:
    for name, most in _LIMITS.items():
        key = f"{architecture}.{name}"
        number = keys.integer(key)
        if number is not None and not 0 < number <= most:
            raise keys.damaged(f"`{key}` is {number}")
    for key, value in keys.values.items():
        if isinstance(value, float) and math.isnan(value):
            raise keys.damaged(f"`{key}` is not a number")


def _other_parts(keys: _Keys) -> Iterator[Path]:
    """The files of parts 2 to N of a split model."""
    path = keys.path
    name = _SPLIT_NAME.fullmatch(path.name)
    if name is None:
        n_parts = keys.integer("split.count") or 1
        if n_parts > 1:
            raise ModelError(
                f"{path} is one of {n_parts} parts but is not named like one",
                hint=f"rename the parts to `NAME-00001-of-{n_parts:05d}.gguf` and so on",
            )
        return
    stem, part, n_parts = name[1], int(name[2]), int(name[3])
    if part != 1:
        first = path.with_name(f"{stem}-00001-of-{n_parts:05d}.gguf")
        raise ModelError(f"{path} is part {part} of {n_parts}", hint=f"give the first: `{first}`")
    for number in range(2, n_parts + 1):
        other = path.with_name(f"{stem}-{number:05d}-of-{n_parts:05d}.gguf")
        if not other.exists():
            raise ModelError(
                f"part {number} of {n_parts} is missing: {other}",
                hint="download all parts into one directory",
            )
        yield other


def _header(keys: _Keys, architecture: str, tensors: tuple[Tensor, ...], n_bytes: int) -> Header:
    n_embd = keys.integer(f"{architecture}.embedding_length")
    n_heads = keys.integers(f"{architecture}.attention.head_count")
    head_length = n_embd // max(n_heads) if n_embd and n_heads and max(n_heads) > 0 else None
    file_type = keys.integer("general.file_type")
    return Header(
        path=keys.path,
        architecture=architecture,
        name=keys.text("general.name"),
        quant=None if file_type is None else _QUANTS.get(file_type & ~_QUANT_GUESSED),
        n_params=sum(tensor.n_params for tensor in tensors),
        n_bytes=n_bytes,
        context_length=keys.integer(f"{architecture}.context_length"),
        n_layer=keys.integer(f"{architecture}.block_count"),
        n_embd=n_embd,
        n_head_kv_total=_n_head_kv_total(keys, architecture),
        key_length=keys.integer(f"{architecture}.attention.key_length") or head_length,
        value_length=keys.integer(f"{architecture}.attention.value_length") or head_length,
        chat_template=keys.text("tokenizer.chat_template")
        or keys.text("tokenizer.chat_template.default"),
        vocab=_vocabulary(keys),
        tensors=tensors,
        values=keys.values,
    )


def _n_head_kv_total(keys: _Keys, architecture: str) -> int | None:
    """KV heads are stated once for all layers, or layer by layer; by default as many as heads."""
    n_heads = keys.integers(f"{architecture}.attention.head_count_kv")
    n_heads = n_heads or keys.integers(f"{architecture}.attention.head_count")
    n_layer = keys.integer(f"{architecture}.block_count")
    if n_heads is None or n_layer is None:
        return None
    return n_heads[0] * n_layer if len(n_heads) == 1 else sum(n_heads)


def _vocabulary(keys: _Keys) -> Vocabulary:
    model = keys.text("tokenizer.ggml.model")
    tokens = keys.array("tokenizer.ggml.tokens", STRING)
    types = keys.array("tokenizer.ggml.token_type", INT32)
    if model is None or not tokens:
        raise ModelError(f"{keys.path} holds no tokenizer", hint="give a complete model file")
    if types is not None and len(types) < len(tokens):
        raise keys.damaged(
            f"it has {counted(len(types), 'type')} for {counted(len(tokens), 'token')}"
        )

    def token_id(name: str) -> int | None:
        # Out of range means none: llama.cpp disables such an id too.
        value = keys.integer(f"tokenizer.ggml.{name}_token_id")
        return value if value is not None and 0 <= value < len(tokens) else None

    return Vocabulary(
        model=model,
        pre=keys.text("tokenizer.ggml.pre"),
        tokens=tokens,
        types=types,
        bos_id=token_id("bos"),
        eos_id=token_id("eos"),
        eot_id=token_id("eot"),
        pad_id=token_id("padding"),
        unk_id=token_id("unknown"),
        add_bos=keys.flag("tokenizer.ggml.add_bos_token"),
        add_eos=keys.flag("tokenizer.ggml.add_eos_token"),
    )


class _Keys:
    """Typed access to the keys of the file at `path`; a value of another type is an error."""

    def __init__(self, path: Path, values: Mapping[str, Value]) -> None:
        self.path = path
        self.values = values

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is None or isinstance(value, str):
            return value
        raise self.damaged(f"`{key}` is not a text")

    def flag(self, key: str) -> bool | None:
        value = self.values.get(key)
        if value is None or isinstance(value, bool):
            return value
        raise self.damaged(f"`{key}` is not a boolean")

    def integer(self, key: str) -> int | None:
        value = self.values.get(key)
        if value is None or type(value) is int:
            return value
        raise self.damaged(f"`{key}` is not an integer")

    def integers(self, key: str) -> tuple[int, ...] | None:
        """One integer, or one per layer."""
        value = self.values.get(key)
        if not isinstance(value, Array):
            one = self.integer(key)
            return None if one is None else (one,)
        if value.kind not in (UINT32, INT32) or not 0 < len(value) <= MAX_LAYERS:
            raise self.damaged(f"`{key}` is not one integer per layer")
        return tuple(int(number) for number in value.numbers())

    def array(self, key: str, kind: int) -> Array | None:
        value = self.values.get(key)
        if value is None or (isinstance(value, Array) and value.kind == kind):
            return value
        raise self.damaged(f"`{key}` is not an array of the right type")

    def damaged(self, cause: str) -> ModelError:
        hint = "delete the file and download it again"
        return ModelError(f"{self.path} is damaged: {cause}", hint=hint)
