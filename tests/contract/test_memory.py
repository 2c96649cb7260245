"""The plan against llama.cpp's own account of what it allocates, in its log."""

from __future__ import annotations

import ctypes
import logging
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as QuantType
from gguf.quants import quantize

from spec_cli.errors import ResourceError
from spec_cli.footprint import Footprint, footprint
from spec_cli.gguf import read_header
from spec_cli.host_memory import HostMemory
from spec_cli.llama.bindings import bindings
from spec_cli.llama.context import LlamaContext
from spec_cli.llama.library import library
from spec_cli.llama.model import LlamaModel, LoadSettings
from spec_cli.llama.native import ContextSettings
from spec_cli.llama.quantize import quantize_apart
from spec_cli.llama.repacking import repacking
from spec_cli.session import Session
from spec_cli.settings import SessionSettings
from tests.contract.test_session import Desk
from tests.tiny_gguf import write_tiny_model

_LINE = re.compile(r"(\S+) +(model|KV|RS|compute|output) buffer size = +([\d.]+) MiB")
_MIB = 1 << 20
SHAPES = [
    ContextSettings(n_ctx=512, n_threads=1, n_batch=64, n_rows=8),
    ContextSettings(n_ctx=20_000, n_threads=1, n_batch=512, n_rows=64),
    ContextSettings(n_ctx=3_000, n_threads=1, n_batch=16, n_rows=1, k_type="bf16"),
    ContextSettings(n_ctx=512, n_threads=1, n_batch=64, n_rows=8, n_sequences=2, n_snapshots=7),
]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def allocated(path: Path, context: ContextSettings, caplog: pytest.LogCaptureFixture) -> Counter:
    """Bytes by what llama.cpp calls them; weights also by whether they are mapped."""
    with (
        caplog.at_level(logging.INFO, "spec_cli.llama"),
        LlamaModel(path, LoadSettings()) as model,
        LlamaContext(model, context),
    ):
        pass
    found: Counter = Counter()
    for where, what, size in _LINE.findall(caplog.text):
        kind = what if what != "model" else "mapped" if where.endswith("_Mapped") else "packed"
        found[kind] += int(float(size) * _MIB)
    return found


def planned(path: Path, context: ContextSettings) -> Footprint:
    return footprint(read_header(path), context, repacking(library().system_info))


@pytest.mark.parametrize(
    "context", SHAPES, ids=lambda c: f"{c.n_ctx}-{c.n_batch}-{c.n_rows}-{c.n_snapshots}"
)
@pytest.mark.parametrize("arch", ["llama", "gemma3", "mamba", "qwen35", "lfm2", "nemotron_h"])
def test_caches_are_as_large_as_planned_and_buffers_no_larger(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, arch: str, context: ContextSettings
) -> None:
    path = write_tiny_model(tmp_path / "m.gguf", arch=arch, n_layer=3)  # type: ignore[arg-type]
    found, plan = allocated(path, context, caplog), planned(path, context)
    cache = sum(part.cache_bytes for part in plan.parts)
    assert cache == pytest.approx(found["KV"] + found["RS"], abs=_MIB / 50)
    buffers = plan.compute_bytes + plan.host_bytes
    assert found["compute"] + found["output"] <= buffers <= 8 * found["compute"] + 4 * _MIB


@pytest.mark.parametrize("kind", ["q4_0", "q4_k_m", "q8_0"])
def test_weights_that_are_rearranged_are_those_that_the_plan_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    full = write_tiny_model(tmp_path / "full.gguf", n_layer=2, n_embd=256)
    path = tmp_path / "small.gguf"
    quantize_apart(full, path, kind, cancelled=lambda: False)
    found, plan = allocated(path, SHAPES[0], caplog), planned(path, SHAPES[0])
    packed = sum(part.packed_bytes for part in plan.parts)
    plain = plan.input.plain_bytes + sum(part.plain_bytes for part in plan.parts)
    assert packed == pytest.approx(found["packed"], abs=_MIB / 50)
    assert plain <= found["mapped"] + _MIB / 50


@pytest.mark.parametrize("kind", [QuantType.Q4_0, QuantType.Q8_0], ids=lambda kind: kind.name)
def test_experts_that_are_rearranged_are_those_that_the_plan_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: QuantType
) -> None:
    def change(writer: gguf.GGUFWriter) -> None:
        writer.add_expert_count(4)
        writer.add_expert_used_count(2)
        tensors = writer.tensors[0]
        for name in [name for name in tensors if ".ffn_" in name and "norm" not in name]:
            dense = tensors.pop(name).tensor
            experts = quantize(np.stack([dense] * 4), kind)
            writer.add_tensor(name.replace(".weight", "_exps.weight"), experts, raw_dtype=kind)
        for i in range(2):
            writer.add_tensor(f"blk.{i}.ffn_gate_inp.weight", np.ones((4, 64), np.float32))

    path = write_tiny_model(tmp_path / "experts.gguf", change=change)
    found, plan = allocated(path, SHAPES[0], caplog), planned(path, SHAPES[0])
    packed = sum(part.packed_bytes for part in plan.parts)
    assert packed == pytest.approx(found["packed"], abs=_MIB / 50)


def test_the_types_that_an_arm_cpu_rearranges_have_the_numbers_of_ggml() -> None:
    library()
    name = bindings("_ggml").libggml.ggml_type_name
    name.restype = ctypes.c_char_p
    kinds = {"q4_0", "q8_0", "q1_0", "q4_K", "q5_K", "q6_K", "iq4_nl", "mxfp4"}
    assert {name(kind).decode() for kind in repacking("DOTPROD = 1").matrices} == kinds


def test_a_session_refuses_what_does_not_fit_before_any_weight_is_loaded(
    desk: Desk, tiny_target: Path, tiny_draft: Path
) -> None:
    settings = SessionSettings(n_ctx=2_000_000_000, n_threads=1)
    with pytest.raises(ResourceError, match=r"the two models need \d.* GB of RAM"):
        Session(tiny_target, tiny_draft, settings, desk.environment)
    assert desk.doings == []


def test_a_context_that_turns_out_too_large_is_refused_before_it_is_made(
    desk: Desk, tiny_target: Path
) -> None:
    environment = replace(desk.environment, host=lambda: HostMemory(160 << 20, 1 << 30))
    with Session(tiny_target, None, SessionSettings(n_threads=1), environment) as session:
        session._target._settings = SessionSettings(n_ctx=500_000, n_threads=1)
        with pytest.raises(ResourceError, match="can be used"):
            session.prepare(4, 4)
        session._target._settings = SessionSettings(n_threads=1)
        session.prepare(4, 4)
        assert session.n_ctx == 512
