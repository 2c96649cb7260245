"""The number of threads follows physical cores, affinity and the cgroup's quota."""

from __future__ import annotations

from pathlib import Path

import pytest

from spec_cli import cpu


@pytest.fixture
def topology(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eight CPUs on four cores, all of them allowed."""
    for i in range(8):
        directory = tmp_path / f"cpu{i}" / "topology"
        directory.mkdir(parents=True)
        (directory / "thread_siblings_list").write_text(f"{i % 4},{i % 4 + 4}\n")
    monkeypatch.setattr(cpu, "_affinity", lambda: set(range(8)))
    return tmp_path


@pytest.mark.parametrize(
    ("quota", "n_cores"),
    [("max 100000", 4), ("200000 100000", 2), ("150000 100000", 2), ("20000 100000", 1),
     ("900000 100000", 4), ("", 4), ("rubbish", 4)],
)  # fmt: skip
def test_cores_are_physical_ones_within_the_quota(topology: Path, quota: str, n_cores: int) -> None:
    cgroup = topology / "cpu.max"
    cgroup.write_text(quota)
    assert cpu.usable_cores(topology, cgroup) == n_cores


def test_the_affinity_mask_counts(topology: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_affinity", lambda: {0, 4, 5})
    assert cpu.usable_cores(topology, topology / "none") == 2


def test_a_machine_that_tells_nothing_has_a_core_for_each_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "_affinity", lambda: {0, 1, 2})
    assert cpu.usable_cores(tmp_path, tmp_path / "none") == 3


def test_the_number_of_cores_is_explained(topology: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu.os, "cpu_count", lambda: 16)
    cgroup = topology / "cpu.max"
    cgroup.write_text("200000 100000")
    assert cpu.explain_cores(topology, cgroup) == (
        "2: 4 physical cores under the 8 of 16 CPUs that this process may use, a cgroup quota of 2"
    )
    assert cpu.explain_cores(topology, topology / "none").endswith(", no cgroup quota")


def test_hyper_threads_count_as_cpus_within_the_quota(topology: Path) -> None:
    cgroup = topology / "cpu.max"
    assert cpu.usable_cpus(cgroup) == 8
    cgroup.write_text("250000 100000")
    assert cpu.usable_cpus(cgroup) == 3
