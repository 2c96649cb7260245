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


@pytest.fixture
def membership(tmp_path: Path) -> Path:
    """This process is in `/outer/inner`, of either version."""
    path = tmp_path / "self"
    path.write_text("5:cpu,cpuacct:/outer/inner\n0::/outer/inner\n")
    return path


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{content}\n")


@pytest.mark.parametrize(
    ("quota", "n_cores"),
    [("max 100000", 4), ("200000 100000", 2), ("150000 100000", 2), ("20000 100000", 1),
     ("900000 100000", 4), ("", 4), ("rubbish", 4), ("200000 0", 4)],
)  # fmt: skip
@pytest.mark.parametrize("group", ["", "outer", "outer/inner"])
def test_cores_are_physical_ones_within_the_quota_of_each_group_around(
    topology: Path, membership: Path, tmp_path: Path, group: str, quota: str, n_cores: int
) -> None:
    write(tmp_path / "v2" / group / "cpu.max", quota)
    (tmp_path / "v2/outer/inner").mkdir(parents=True, exist_ok=True)
    assert cpu.usable_cores(topology, tmp_path / "v2", membership) == n_cores


@pytest.mark.parametrize(("quota", "n_cores"), [("-1", 4), ("200000", 2), ("50000", 1)])
def test_a_quota_of_version_1_counts(
    topology: Path, membership: Path, tmp_path: Path, quota: str, n_cores: int
) -> None:
    write(tmp_path / "v1/cpu/outer/cpu.cfs_quota_us", quota)
    write(tmp_path / "v1/cpu/outer/cpu.cfs_period_us", "100000")
    assert cpu.usable_cores(topology, tmp_path / "v1", membership) == n_cores


def test_the_tightest_quota_counts(topology: Path, membership: Path, tmp_path: Path) -> None:
    write(tmp_path / "v2/outer/inner/cpu.max", "300000 100000")
    write(tmp_path / "v2/outer/cpu.max", "200000 100000")
    assert cpu.usable_cores(topology, tmp_path / "v2", membership) == 2


def test_the_affinity_mask_counts(topology: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_affinity", lambda: {0, 4, 5})
    assert cpu.usable_cores(topology, topology / "none", topology / "none") == 2


def test_a_machine_that_tells_nothing_has_a_core_for_each_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "_affinity", lambda: {0, 1, 2})
    assert cpu.usable_cores(tmp_path, tmp_path, tmp_path / "none") == 3


def test_the_number_of_cores_is_explained(
    topology: Path, membership: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu.os, "cpu_count", lambda: 16)
    write(tmp_path / "v2/cpu.max", "200000 100000")
    assert cpu.explain_cores(topology, tmp_path / "v2", membership) == (
        "2: this process may use 8 of 16 CPUs, on 4 physical cores; its cgroups allow 2"
    )
    assert cpu.explain_cores(topology, tmp_path / "v1", membership).endswith("no cgroup limits it")


def test_hyper_threads_count_as_cpus_within_the_quota(
    topology: Path, membership: Path, tmp_path: Path
) -> None:
    assert cpu.usable_cpus(tmp_path / "v2", membership) == 8
    write(tmp_path / "v2" / "outer" / "inner" / "cpu.max", "250000 100000")
    assert cpu.usable_cpus(tmp_path / "v2", membership) == 3
