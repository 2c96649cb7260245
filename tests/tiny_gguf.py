"""Tiny random models that llama.cpp really loads and decodes, written in milliseconds.

The vocabulary holds every byte, so any text can be tokenised and a character outside ASCII takes
several tokens. A weight depends on the seed and its tensor's name only, so the same seed with
fewer layers or with `noise` gives a draft: at noise 0.1 it agrees on 8 tokens of 10, at 0.3 on 4.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import gguf
import numpy as np
import numpy.typing as npt
from gguf import TokenType

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
N_VOCAB = 320
N_CTX = 512
N_WINDOW = 32
_N_HEAD, _N_HEAD_KV = 2, 1
_MERGES = ("i n", "e r", "Ġ t", "Ġt h", "Ġth e", "l l", "h e", "he ll", "hell o")
_CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

Weight = npt.NDArray[np.float32]


@dataclass(frozen=True)
class TinyVocab:
    """Token texts and types; `bos` and `eos` are texts of tokens."""

    model: Literal["gpt2", "llama"]
    pre: str
    texts: Sequence[str]
    types: Sequence[TokenType]
    bos: str
    eos: str
    add_bos: bool


def bpe_vocab(
    n_vocab: int = N_VOCAB,
    *,
    renamed: Mapping[int, str] | None = None,
    pre: str = "gpt-2",
    bos: str = "<|endoftext|>",
    eos: str = "<|im_end|>",
    add_bos: bool = False,
) -> TinyVocab:
    """Byte-level BPE: 256 bytes, a few merges, control tokens, padding up to `n_vocab`.

    `renamed` gives tokens another text, for vocabularies that do not match.
    """
    merged = [merge.replace(" ", "") for merge in _MERGES]
    texts, types = _padded(
        {
            **dict.fromkeys((*_byte_texts(), *merged), TokenType.NORMAL),
            **dict.fromkeys(_CONTROL, TokenType.CONTROL),
        },
        n_vocab,
    )
    for token, text in (renamed or {}).items():
        texts[token] = text
    return TinyVocab("gpt2", pre, texts, types, bos, eos, add_bos)


def spm_vocab(n_vocab: int = N_VOCAB) -> TinyVocab:
    """SentencePiece: `<unk>`, `<s>`, `</s>`, 256 bytes, a few pieces, control tokens, padding."""
    texts, types = _padded(
        {
            "<unk>": TokenType.UNKNOWN,
            **dict.fromkeys(("<s>", "</s>"), TokenType.CONTROL),
            **{f"<0x{byte:02X}>": TokenType.BYTE for byte in range(256)},
            **dict.fromkeys(("▁", "h", "e", "l", "o", "he", "▁he"), TokenType.NORMAL),
            **dict.fromkeys(_CONTROL, TokenType.CONTROL),
        },
        n_vocab,
    )
    return TinyVocab("llama", "default", texts, types, bos="<s>", eos="</s>", add_bos=True)


def write_tiny_model(
    path: Path,
    *,
    seed: int = 0,
    noise: float = 0.0,
    arch: Literal["llama", "mamba", "gemma3", "qwen35", "lfm2", "nemotron_h"] = "llama",
    n_layer: int = 2,
    n_embd: int = 64,
    vocab: TinyVocab | None = None,
    chat_template: str | None = CHATML,
    change: Callable[[gguf.GGUFWriter], None] = lambda writer: None,
) -> Path:
    """Write a model and return its path. `noise` is relative to the scale of each weight.

    `change` may spoil it: it gets the writer before anything is written.

    `arch="mamba"` is recurrent: its memory cannot drop its tail. `qwen35`, `lfm2` and `nemotron_h`
    are hybrid, the first layer being recurrent and the second not: llama.cpp keeps snapshots of
    their states.
    All layers of `gemma3`, where there are fewer than six, look no further back than `N_WINDOW`
    tokens. `n_embd` is a multiple of 64, and of 256 where K-quants are wanted.
    """
    vocab = vocab or bpe_vocab()
    weights = _Weights(seed, noise)
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(f"Tiny {arch} {seed}")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    _add_vocab(writer, vocab)
    if chat_template is not None:
        writer.add_chat_template(chat_template)
    writer.add_context_length(N_CTX)
    writer.add_embedding_length(n_embd)
    writer.add_block_count(n_layer)
    writer.add_layer_norm_rms_eps(1e-5)
    add_sizes, *layers = {
        "llama": (_add_llama_sizes, _llama_layer),
        "mamba": (_add_mamba_sizes, _mamba_layer),
        "gemma3": (_add_gemma_sizes, _gemma_layer),
        "qwen35": (_add_qwen35_sizes, _qwen35_linear_layer, _qwen35_layer),
        "lfm2": (_add_lfm2_sizes, _lfm2_conv_layer, _lfm2_layer),
        "nemotron_h": (
            _add_nemotron_h_sizes,
            _mamba2_layer,
            _nemotron_h_attention_layer,
            _nemotron_h_forward_layer,
        ),
    }[arch]
    add_sizes(writer, n_embd)
    if arch in ("lfm2", "nemotron_h"):  # which tell by this which layers are recurrent
        writer.add_head_count_kv([_N_HEAD_KV * (i % len(layers) == 1) for i in range(n_layer)])
    if arch == "nemotron_h":
        writer.add_feed_forward_length([2 * n_embd * (i % 3 == 2) for i in range(n_layer)])
    for name, weight in _ends(weights, vocab, n_embd, arch):
        writer.add_tensor(name, weight)
    for i in range(n_layer):
        for name, weight in layers[i % len(layers)](weights, f"blk.{i}", n_embd):
            writer.add_tensor(name, weight)
    change(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@dataclass(frozen=True)
class _Weights:
    """Normal weights, the same for the same seed and name."""

    seed: int
    noise: float

    def normal(self, name: str, shape: tuple[int, ...], scale: float) -> Weight:
        rng = np.random.default_rng([self.seed, zlib.crc32(name.encode())])
        clean, noise = rng.standard_normal((2, *shape))
        weight: Weight = (scale * (clean + self.noise * noise)).astype(np.float32)
        return weight

    def linear(self, name: str, n_out: int, n_in: int) -> tuple[str, Weight]:
        name = f"{name}.weight"
        return name, self.normal(name, (n_out, n_in), n_in**-0.5)


def _ends(
    weights: _Weights, vocab: TinyVocab, n_embd: int, arch: str
) -> Iterator[tuple[str, Weight]]:
    """Embedding and output head."""
    shape = (len(vocab.texts), n_embd)
    yield "token_embd.weight", weights.normal("token_embd.weight", shape, 1.0)
    norm = "token_embd_norm" if arch == "lfm2" else "output_norm"
    yield f"{norm}.weight", np.ones(n_embd, np.float32)
    output = weights.normal("output.weight", shape, 3.0 * n_embd**-0.5)
    # Logit 0 among logits of spread 3: a random model would stop at once if it could pick EOS.
    output[[kind != TokenType.NORMAL and kind != TokenType.BYTE for kind in vocab.types]] = 0.0
    yield "output.weight", output


def _add_llama_sizes(writer: gguf.GGUFWriter, n_embd: int) -> None:
    writer.add_feed_forward_length(2 * n_embd)
    writer.add_head_count(_N_HEAD)
    writer.add_head_count_kv(_N_HEAD_KV)
    writer.add_rope_dimension_count(n_embd // _N_HEAD)


def _llama_layer(weights: _Weights, name: str, n_embd: int) -> Iterator[tuple[str, Weight]]:
    n_kv = n_embd // _N_HEAD * _N_HEAD_KV
    for norm in ("attn_norm", "ffn_norm"):
        yield f"{name}.{norm}.weight", np.ones(n_embd, np.float32)
    yield weights.linear(f"{name}.attn_q", n_embd, n_embd)
    yield weights.linear(f"{name}.attn_k", n_kv, n_embd)
    yield weights.linear(f"{name}.attn_v", n_kv, n_embd)
    yield weights.linear(f"{name}.attn_output", n_embd, n_embd)
    yield from _feed_forward(weights, name, n_embd)


def _add_gemma_sizes(writer: gguf.GGUFWriter, n_embd: int) -> None:
    _add_llama_sizes(writer, n_embd)
    writer.add_key_length(n_embd // _N_HEAD)
    writer.add_value_length(n_embd // _N_HEAD)
    writer.add_sliding_window(N_WINDOW)


def _gemma_layer(weights: _Weights, name: str, n_embd: int) -> Iterator[tuple[str, Weight]]:
    yield from _llama_layer(weights, name, n_embd)
    for norm in ("post_attention_norm", "post_ffw_norm"):
        yield f"{name}.{norm}.weight", np.ones(n_embd, np.float32)
    yield from _head_norms(name, n_embd)


_D_CONV, _D_STATE, _DT_RANK = 4, 16, 4


def _add_mamba_sizes(writer: gguf.GGUFWriter, n_embd: int) -> None:
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_ssm_conv_kernel(_D_CONV)
    writer.add_ssm_inner_size(2 * n_embd)
    writer.add_ssm_state_size(_D_STATE)
    writer.add_ssm_time_step_rank(_DT_RANK)


def _mamba_layer(weights: _Weights, name: str, n_embd: int) -> Iterator[tuple[str, Weight]]:
    n_inner = 2 * n_embd
    yield f"{name}.attn_norm.weight", np.ones(n_embd, np.float32)
    yield weights.linear(f"{name}.ssm_in", 2 * n_inner, n_embd)
    yield weights.linear(f"{name}.ssm_conv1d", n_inner, _D_CONV)
    yield f"{name}.ssm_conv1d.bias", np.zeros(n_inner, np.float32)
    yield weights.linear(f"{name}.ssm_x", _DT_RANK + 2 * _D_STATE, n_inner)
    yield weights.linear(f"{name}.ssm_dt", n_inner, _DT_RANK)
    yield f"{name}.ssm_dt.bias", np.full(n_inner, -3.0, np.float32)
    decay = -np.arange(1, _D_STATE + 1, dtype=np.float32)
    yield f"{name}.ssm_a", np.tile(decay, (n_inner, 1))
    yield f"{name}.ssm_d", np.ones(n_inner, np.float32)
    yield weights.linear(f"{name}.ssm_out", n_embd, n_inner)


_N_LINEAR_HEAD, _D_LINEAR = 4, 16


def _add_qwen35_sizes(writer: gguf.GGUFWriter, n_embd: int) -> None:
    _add_llama_sizes(writer, n_embd)
    writer.add_key_length(n_embd // _N_HEAD)
    writer.add_value_length(n_embd // _N_HEAD)
    writer.add_rope_dimension_sections([n_embd // _N_HEAD // 4, n_embd // _N_HEAD // 4, 0, 0])
    writer.add_full_attention_interval(2)
    writer.add_ssm_conv_kernel(_D_CONV)
    writer.add_ssm_inner_size(_N_LINEAR_HEAD * _D_LINEAR)
    writer.add_ssm_state_size(_D_LINEAR)
    writer.add_ssm_time_step_rank(_N_LINEAR_HEAD)
    writer.add_ssm_group_count(_N_LINEAR_HEAD)


def _qwen35_layer(weights: _Weights, name: str, n_embd: int) -> Iterator[tuple[str, Weight]]:
    yield weights.linear(f"{name}.attn_q", 2 * n_embd, n_embd)  # with a gate
    for tensor, weight in _llama_layer(weights, name, n_embd):
        if not tensor.endswith(("attn_q.weight", "ffn_norm.weight")):
            yield tensor, weight
    yield f"{name}.post_attention_norm.weight", np.ones(n_embd, np.float32)
    yield from _head_norms(name, n_embd)


def _qwen35_linear_layer(weights: _Weights, name: str, n_embd: int) -> Iterator[tuple[str, Weight]]:
    n_inner = _N_LINEAR_HEAD * _D_LINEAR
    for norm in ("attn_norm", "post_attention_norm"):
        yield f"{name}.{norm}.weight", np.ones(n_embd, np.float32)
    yield weights.linear(f"{name}.attn_qkv", 3 * n_inner, n_embd)
    yield weights.linear(f"{name}.attn_gate", n_inner, n_embd)
    yield weights.linear(f"{name}.ssm_conv1d", 3 * n_inner, _D_CONV)
    yield f"{name}.ssm_dt.bias", np.full(_N_LINEAR_HEAD, -3.0, np.float32)
    yield f"{name}.ssm_a", -np.arange(1, _N_LINEAR_HEAD + 1, dtype=np.float32)
    for gate in ("ssm_alpha", "ssm_beta"):
        yield weights.linear(f"{name}.{gate}", _N_LINEAR_HEAD, n_embd)
    yield f"{name}.ssm_norm.weight", np.ones(_D_LINEAR, np.float32)
    yield weights.linear(f"{name}.ssm_out", n_embd, n_inner)
    yield from _feed_forward(weights, name, n_embd)


_N_SHORTCONV = 3


def _add_lfm2_sizes(writer: gguf.GGUFWriter, n_embd: int) -> None:
    writer.add_feed_forward_length(2 * n_embd)
    writer.add_head_count(_N_HEAD)
    writer.add_shortconv_l_cache(_N_SHORTCONV)


def _lfm2_layer(weights: _Weights, name: str, n_embd: int) -> Iterator[tuple[str, Weight]]:
    yield from _llama_layer(weights, name, n_embd)
    yield from _head_norms(name, n_embd)


def _lfm2_conv_layer(weights: _Weights, name: str, n_embd: int) -> Iterator[tuple[str, Weight]]:
    for norm in ("attn_norm", "ffn_norm"):
        yield f"{name}.{norm}.weight", np.ones(n_embd, np.float32)
    yield weights.linear(f"{name}.shortconv.conv", n_embd, _N_SHORTCONV)
    yield weights.linear(f"{name}.shortconv.in_proj", 3 * n_embd, n_embd)
    yield weights.linear(f"{name}.shortconv.out_proj", n_embd, n_embd)
    yield from _feed_forward(weights, name, n_embd)


_N_GROUP = 2


def _add_nemotron_h_sizes(writer: gguf.GGUFWriter, n_embd: int) -> None:
    writer.add_layer_norm_eps(1e-5)
    writer.add_head_count(_N_HEAD)
    writer.add_ssm_conv_kernel(_D_CONV)
    writer.add_ssm_inner_size(2 * n_embd)
    writer.add_ssm_state_size(_D_STATE)
    writer.add_ssm_time_step_rank(_N_LINEAR_HEAD)
    writer.add_ssm_group_count(_N_GROUP)


def _mamba2_layer(weights: _Weights, name: str, n_embd: int) -> Iterator[tuple[str, Weight]]:
    n_inner, n_head = 2 * n_embd, _N_LINEAR_HEAD
    n_conv = n_inner + 2 * _N_GROUP * _D_STATE
    yield f"{name}.attn_norm.weight", np.ones(n_embd, np.float32)
    yield weights.linear(f"{name}.ssm_in", n_inner + n_conv + n_head, n_embd)
    yield weights.linear(f"{name}.ssm_conv1d", n_conv, _D_CONV)
    yield f"{name}.ssm_conv1d.bias", np.zeros(n_conv, np.float32)
    yield f"{name}.ssm_dt.bias", np.full(n_head, -3.0, np.float32)
    yield f"{name}.ssm_a", -np.arange(1, n_head + 1, dtype=np.float32)[:, None]
    yield f"{name}.ssm_d", np.ones((n_head, 1), np.float32)
    yield f"{name}.ssm_norm.weight", np.ones((_N_GROUP, n_inner // _N_GROUP), np.float32)
    yield weights.linear(f"{name}.ssm_out", n_embd, n_inner)


def _nemotron_h_attention_layer(
    weights: _Weights, name: str, n_embd: int
) -> Iterator[tuple[str, Weight]]:
    for tensor, weight in _llama_layer(weights, name, n_embd):
        if ".attn" in tensor:
            yield tensor, weight


def _nemotron_h_forward_layer(
    weights: _Weights, name: str, n_embd: int
) -> Iterator[tuple[str, Weight]]:
    yield f"{name}.attn_norm.weight", np.ones(n_embd, np.float32)
    for tensor, weight in _feed_forward(weights, name, n_embd):
        if "gate" not in tensor:
            yield tensor, weight


def _head_norms(name: str, n_embd: int) -> Iterator[tuple[str, Weight]]:
    for norm in ("attn_q_norm", "attn_k_norm"):
        yield f"{name}.{norm}.weight", np.ones(n_embd // _N_HEAD, np.float32)


def _feed_forward(weights: _Weights, name: str, n_embd: int) -> Iterator[tuple[str, Weight]]:
    yield weights.linear(f"{name}.ffn_gate", 2 * n_embd, n_embd)
    yield weights.linear(f"{name}.ffn_up", 2 * n_embd, n_embd)
    yield weights.linear(f"{name}.ffn_down", n_embd, 2 * n_embd)


def _add_vocab(writer: gguf.GGUFWriter, vocab: TinyVocab) -> None:
    writer.add_tokenizer_model(vocab.model)
    writer.add_tokenizer_pre(vocab.pre)
    writer.add_token_list(vocab.texts)
    writer.add_token_types(vocab.types)
    if vocab.model == "gpt2":
        writer.add_token_merges(_MERGES)
    else:
        writer.add_token_scores([float(len(text)) for text in vocab.texts])
    writer.add_bos_token_id(vocab.texts.index(vocab.bos))
    writer.add_eos_token_id(vocab.texts.index(vocab.eos))
    writer.add_add_bos_token(vocab.add_bos)


def _padded(types: Mapping[str, TokenType], n_vocab: int) -> tuple[list[str], list[TokenType]]:
    padding = [f"[PAD{token}]" for token in range(len(types), n_vocab)]
    return [*types, *padding], [*types.values(), *(TokenType.UNUSED for _ in padding)]


def _byte_texts() -> list[str]:
    """The characters by which GPT-2's vocabulary writes the bytes 0 to 255."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]
