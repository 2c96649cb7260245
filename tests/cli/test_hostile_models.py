"""Files that look like models and make llama.cpp fail or crash: one line and exit code 3."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gguf
import pytest

from tests.cli.conftest import Call
from tests.cli.tiny_models import printable_vocab
from tests.tiny_gguf import write_tiny_model

Change = Callable[[gguf.GGUFWriter], None]


def without(*names: str) -> Change:
    def change(writer: gguf.GGUFWriter) -> None:
        for name in names:
            del writer.tensors[0][name]

    return change


def key(kind: str, name: str, value: object) -> Change:
    return lambda writer: getattr(writer, f"add_{kind}")(name, value)


def no_key(name: str) -> Change:
    def change(writer: gguf.GGUFWriter) -> None:
        del writer.kv_data[0][name]

    return change


HOSTILE: dict[str, Change] = {
    "no heads": lambda w: w.add_head_count(0),
    "no kv heads": lambda w: w.add_head_count_kv(0),
    "more kv heads than heads": lambda w: w.add_head_count_kv(5),
    "many heads": lambda w: w.add_head_count(2**31),
    "heads that do not divide": lambda w: w.add_head_count(3),
    "rope of half a head": lambda w: w.add_rope_dimension_count(7),
    "rope wider than a head": lambda w: w.add_rope_dimension_count(2**31),
    "unknown rope scaling": key("string", "llama.rope.scaling.type", "sideways"),
    "no epsilon": no_key("llama.attention.layer_norm_rms_epsilon"),
    "no context length": no_key("llama.context_length"),
    "no block count": no_key("llama.block_count"),
    "more layers than tensors": lambda w: w.add_block_count(3),
    "fewer layers than tensors": lambda w: w.add_block_count(1),
    "another embedding length": lambda w: w.add_embedding_length(128),
    "another feed-forward length": lambda w: w.add_feed_forward_length(2**31),
    "experts that are used without being there": key("uint32", "llama.expert_used_count", 9),
    "too many experts": key("uint32", "llama.expert_count", 2**31),
    "no embedding": without("token_embd.weight"),
    "no attention": without("blk.0.attn_q.weight"),
    "no norm": without("output_norm.weight"),
    "unknown architecture": key("string", "general.architecture", "llama9"),
    "unknown tokenizer": lambda w: w.add_tokenizer_model("morse"),
    "unknown pre-tokenizer": lambda w: w.add_tokenizer_pre("morse"),
    "a token twice": lambda w: w.add_token_list(["a"] * 320),
    "fewer tokens than rows": lambda w: w.add_token_list([f"t{i}" for i in range(300)]),
    "no merges": no_key("tokenizer.ggml.merges"),
    "merges of nothing": lambda w: w.add_token_merges(["", " ", "a"]),
    "key length": lambda w: w.add_key_length(2**31),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_a_model_that_contradicts_itself_is_refused_or_runs(
    call: Call, tmp_path: Path, change: Change
) -> None:
    path = write_tiny_model(tmp_path / "hostile.gguf", vocab=printable_vocab(), change=change)
    run = call("run", "hi", "--raw", "-n", "4", "-m", path, "--json")
    if run.exit_code != 0:
        # What contradicts itself by its size is refused before it is tried.
        if run.exit_code == 6:
            run.fails(6, "error: the model needs ", " GB of RAM")
        else:
            run.fails(3, "error: hostile.gguf ")
        assert len(run.stderr.splitlines()) <= 2


def test_a_failed_assertion_of_llama_cpp_is_the_cause_that_is_told(
    call: Call, tmp_path: Path
) -> None:
    change = HOSTILE["a token twice"]
    path = write_tiny_model(tmp_path / "hostile.gguf", vocab=printable_vocab(), change=change)
    for _ in range(2):
        call("run", "hi", "-m", path).fails(
            3, "hostile.gguf makes llama.cpp crash: llama-vocab.cpp:", "GGML_ASSERT(id_to_token"
        )
