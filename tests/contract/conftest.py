"""Tiny models on disk, shared by the contract tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from spec_cli.llama.library import library
from tests.tiny_gguf import write_tiny_model


@pytest.fixture(scope="session", autouse=True)
def _settled_kernels() -> None:
    """Tiled products are settled once in a process: a plan found by the clock must not do it."""
    library().use_tiled(True)


@pytest.fixture(scope="session")
def tiny_target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "target.gguf", seed=1, n_layer=3)


@pytest.fixture(scope="session")
def tiny_draft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Agrees with the target on most tokens, not on all."""
    path = tmp_path_factory.mktemp("models") / "draft.gguf"
    return write_tiny_model(path, seed=1, n_layer=3, noise=0.1)


@pytest.fixture(scope="session")
def tiny_mamba(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "mamba.gguf"
    return write_tiny_model(path, seed=1, arch="mamba")
