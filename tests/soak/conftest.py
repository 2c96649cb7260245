"""Soak tests run where they are asked for by name: `pytest -m soak`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import call, models, spec_cli

__all__ = ["call", "models", "spec_cli"]
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "soak" not in config.option.markexpr:
        items[:] = [item for item in items if _HERE not in item.path.parents]
