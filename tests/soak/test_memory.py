"""Many short runs in one process: its memory stays as it is after the first of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from spec_cli.loader import Environment
from spec_cli.session import Session
from spec_cli.settings import GenerationSettings, SessionSettings
from spec_cli.spec.settings import Accept, Exact, SamplingSettings
from spec_cli.state import StateStore
from tests.tiny_gguf import write_tiny_model

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc"),
]

MAX_GROWTH_BYTES = 8 << 20
SETTINGS = SessionSettings(n_threads=1, exact=Exact.OFF, draft_tokens=4)


def resident_bytes() -> int:
    n_pages = int(Path("/proc/self/statm").read_text().split()[1])
    return n_pages * 4096


def growth(step: Callable[[int], None], *, n_warm: int, n: int) -> int:
    """By how many bytes the process grows in `n` steps after `n_warm` others."""
    for i in range(n_warm):
        step(i)
    before = resident_bytes()
    for i in range(n):
        step(n_warm + i)
    return resident_bytes() - before


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(
        state=StateStore(tmp_path / "state"),
        clock=time.perf_counter,
        cancelled=lambda: False,
        notify=lambda notice: None,
        progress=lambda what, fraction: None,
    )


def generation(i: int) -> GenerationSettings:
    sampling = SamplingSettings(temp=(0.0, 0.8, 1.2)[i % 3], repeat_penalty=1.0 + i % 2)
    return GenerationSettings(
        seed=i, sampling=sampling, accept=list(Accept)[i % 3], max_tokens=24, stop=("zzz",)
    )


def test_a_session_that_answers_again_and_again_does_not_grow(
    environment: Environment, tmp_path: Path
) -> None:
    target = write_tiny_model(tmp_path / "target.gguf")
    draft = write_tiny_model(tmp_path / "draft.gguf", n_layer=1, noise=0.1)
    with Session(target, draft, SETTINGS, environment) as session:

        def answer(i: int) -> None:
            prompt = session.model.tokenize(f"hello number {i}", special=False, bos=False)
            session.prepare(len(prompt), 24)
            for _ in session.generate(prompt, generation(i)):
                pass

        assert growth(answer, n_warm=100, n=1000) < MAX_GROWTH_BYTES


def test_sessions_that_come_and_go_leave_nothing_behind(
    environment: Environment, tmp_path: Path
) -> None:
    target = write_tiny_model(tmp_path / "target.gguf")
    draft = write_tiny_model(tmp_path / "draft.gguf", n_layer=1, noise=0.1)

    def visit(i: int) -> None:
        with Session(target, draft, SETTINGS, environment) as session:
            prompt = session.model.tokenize("hello", special=False, bos=False)
            session.prepare(len(prompt), 24)
            for _ in session.generate(prompt, generation(i)):
                pass

    assert growth(visit, n_warm=20, n=100) < MAX_GROWTH_BYTES
