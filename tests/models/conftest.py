"""The real default pair, and its target requantised to Q8_0."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from spec_cli import download
from spec_cli.cpu import usable_cores
from spec_cli.llama.quantize import quantize
from spec_cli.loader import Environment
from spec_cli.registry import load_registry
from spec_cli.state import StateStore


@dataclass(frozen=True)
class RealPair:
    target: Path
    draft: Path


@pytest.fixture(scope="session")
def real_pair() -> RealPair:
    """The default pair, fetched when it is not in the cache yet."""
    pair = load_registry().default
    assert pair.draft is not None
    target, draft = download.fetch(
        download.plan([pair.target, pair.draft]), progress=lambda progress: None
    )
    return RealPair(target.path, draft.path)


@pytest.fixture(scope="session")
def q8_target(real_pair: RealPair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A target whose rows do not depend on the width of the pass (1.9 GB, 15 s)."""
    path = tmp_path_factory.mktemp("q8") / "target-q8_0.gguf"
    quantize(real_pair.target, path, "q8_0", n_threads=usable_cores())
    yield path
    path.unlink()


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(
        state=StateStore(tmp_path_factory.mktemp("state")),
        clock=time.perf_counter,
        cancelled=lambda: False,
        notify=lambda notice: None,
        progress=lambda what, fraction: None,
    )
