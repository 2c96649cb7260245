from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from spec_cli.calibration import PASS_TIMES
from spec_cli.exactness import PLANS, PROBE_VERSION
from spec_cli.measured import Measurements
from spec_cli.spec.costs import DRAFT_WIDTHS, TARGET_WIDTHS, PassTimes
from spec_cli.spec.exactness import DEFAULT_KERNELS, ExactnessPlan, Widths
from spec_cli.state import StateStore, file_identity

SETUP = {"build": "1", "devices": ["CPU"], "n_gpu_layers": -1, "n_threads": 2}


@pytest.fixture
def state(tmp_path: Path) -> StateStore:
    return StateStore(tmp_path / "state")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    return path


def save_plan(
    state: StateStore, path: Path, unit: float, widths: Widths = TARGET_WIDTHS, **changed: Any
) -> None:
    """A plan whose passes over w rows take `unit` * (1 + w / 16) seconds."""
    times = PassTimes(TARGET_WIDTHS, tuple(unit * (1 + w / 16) for w in TARGET_WIDTHS))
    plan = ExactnessPlan(DEFAULT_KERNELS, widths, 0.0, 0.0, times, times)
    key = {**SETUP, **file_identity(path), "exact": "auto", "tiled": None, "probe": PROBE_VERSION}
    state.save(PLANS, {**key, **changed}, asdict(plan))
    _space_out(state, PLANS)


def save_draft(state: StateStore, path: Path, token_s: float, **changed: Any) -> None:
    key = {**SETUP, **file_identity(path), "widths": list(DRAFT_WIDTHS)}
    state.save(PASS_TIMES, {**key, **changed}, [DRAFT_WIDTHS, [token_s] * len(DRAFT_WIDTHS)])


def _space_out(state: StateStore, kind: str) -> None:
    """Make what was stored before a second older, as it is in life."""
    for entry in state.entries(kind, {})[1:]:
        time_ns = entry.path.stat().st_mtime_ns - 10**9
        os.utime(entry.path, ns=(time_ns, time_ns))


def test_newest_plan_of_the_file_is_found(state: StateStore, model: Path) -> None:
    assert Measurements(state).target(model) is None
    save_plan(state, model, 1.0)
    save_plan(state, model, 2.0, n_threads=4)
    found = Measurements(state).target(model)
    assert found is not None
    assert found.setup["n_threads"] == 4
    assert found.plan.times(1) == 2.0 * (1 + 1 / 16)
    assert found.file == "model.gguf"


def test_plan_of_the_default_mode_goes_before_newer_ones(state: StateStore, model: Path) -> None:
    save_plan(state, model, 1.0)
    save_plan(state, model, 2.0, exact="on")
    found = Measurements(state).target(model)
    assert found is not None and found.exact == "auto"


def test_file_that_changed_was_never_measured(state: StateStore, model: Path) -> None:
    save_plan(state, model, 1.0)
    save_draft(state, model, 0.1)
    model.write_bytes(b"GGUF, another")
    measured = Measurements(state)
    assert measured.target(model) is None
    assert measured.draft_times(model, SETUP) is None
    assert measured.of_file(model) == []
    assert measured.any_drafted_for() is not None


def test_plan_of_another_version_does_not_count(state: StateStore, model: Path) -> None:
    save_plan(state, model, 1.0, probe=PROBE_VERSION - 1)
    assert Measurements(state).target(model) is None


@pytest.mark.parametrize(
    ("name", "spoilt"),
    [
        *[("widths", value) for value in ([], 3, "abc", [2, 1], [5], [1, 1], ["1"], {})],
        *[("kernels", value) for value in (None, [], {"k_type": "f15"}, {"x": 1}, {"v_type": []})],
        *[(name, value) for name in ("price", "max_difference") for value in (None, "a", [])],
        *[(name, value) for name in ("times", "long_times") for value in (None, [], {})],
        ("rollback", "maybe"),
    ],
)
def test_plan_that_an_edit_has_spoilt_does_not_count(
    state: StateStore, model: Path, name: str, spoilt: Any
) -> None:
    save_plan(state, model, 1.0)
    (entry,) = state.entries(PLANS, {})
    state.save(PLANS, entry.key, {**entry.value, name: spoilt})
    assert Measurements(state).target(model) is None


def test_draft_times_are_those_of_the_same_set_up(state: StateStore, model: Path) -> None:
    save_draft(state, model, 0.1)
    save_draft(state, model, 0.3, n_threads=8)
    measured = Measurements(state)
    times = measured.draft_times(model, SETUP)
    assert times is not None and times(1) == 0.1
    assert measured.draft_times(model, {**SETUP, "build": "2"}) is None


def test_everything_of_a_file_is_found(state: StateStore, model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF, other")
    for path in (model, other):
        save_plan(state, path, 1.0)
        save_draft(state, path, 0.1)
    entries = Measurements(state).of_file(model)
    assert len(entries) == 2
    assert {entry.key["file"] for entry in entries} == {"model.gguf"}


def test_damaged_entries_are_as_good_as_none(state: StateStore, model: Path) -> None:
    save_plan(state, model, 1.0)
    (entry,) = state.entries(PLANS, {})
    entry.path.write_text("{")
    entry.path.with_name("list.json").write_text('{"key": [1], "value": 2}')
    assert Measurements(state).target(model) is None
