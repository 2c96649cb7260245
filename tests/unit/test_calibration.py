"""Pass times are measured once and found again; what an edit has spoilt is as good as none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spec_cli.calibration import PASS_TIMES, PassTimer
from spec_cli.spec.costs import PassTimes
from spec_cli.state import StateStore, file_identity


@pytest.fixture
def state(tmp_path: Path) -> StateStore:
    return StateStore(tmp_path / "state")


@pytest.fixture
def timer(tmp_path: Path, state: StateStore) -> PassTimer:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")
    return PassTimer(model, (1, 2), setup={"build": "1"}, state=state, clock=lambda: 0.0)


def keep(state: StateStore, directory: Path, value: Any) -> None:
    key = {"build": "1", **file_identity(directory / "model.gguf"), "widths": [1, 2]}
    state.save(PASS_TIMES, key, value)


def test_times_are_found_again(timer: PassTimer, tmp_path: Path, state: StateStore) -> None:
    assert timer.stored() is None
    keep(state, tmp_path, [[1, 2], [0.5, 1]])
    assert timer.stored() == PassTimes((1, 2), (0.5, 1))


@pytest.mark.parametrize(
    "value",
    [
        *(0, True, "12", [], {}, [[1, 2]], [[], []], [[1, 2], [0.5]], [[2, 1], [0.5, 1]]),
        *([[1, 1], [1, 1]], [[0, 2], [1, 1]], [[1, 2.5], [1, 1]], [[1, "2"], [1, 1]], [1, 2]),
        *([[1, 2], ["a", "b"]], [[1, 2], [0, 1]], [[1, 2], [1, float("nan")]], [[1, 2], "ab"]),
    ],
)
def test_what_are_no_times_is_as_good_as_none(
    timer: PassTimer, tmp_path: Path, state: StateStore, value: Any
) -> None:
    keep(state, tmp_path, value)
    assert timer.stored() is None
