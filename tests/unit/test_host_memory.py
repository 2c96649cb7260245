"""Available RAM is the system's, within the limits of the cgroups around this process."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from spec_cli.host_memory import HostMemory, host_memory

GB = 1 << 30


@pytest.fixture(autouse=True)
def _system(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SimpleNamespace(available=10 * GB, total=16 * GB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)


V2 = ("memory.max", "memory.current", "memory.stat")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat")


def make(path: Path, names: tuple[str, str, str], limit: object, used: int, pages: str) -> None:
    path.mkdir(parents=True, exist_ok=True)
    for name, content in zip(names, (limit, used, pages), strict=True):
        (path / name).write_text(f"{content}\n")


def test_without_cgroups_it_is_the_systems(tmp_path: Path) -> None:
    assert host_memory(tmp_path, tmp_path / "none") == HostMemory(10 * GB, 16 * GB)


def test_a_v2_limit_counts_and_pages_of_files_can_be_given_back(tmp_path: Path) -> None:
    pages = f"anon 1\ninactive_file {GB}\nactive_file {GB}"
    make(tmp_path / "box", V2, 4 * GB, 3 * GB, pages)
    (tmp_path / "self").write_text("0::/box\n")
    assert host_memory(tmp_path, tmp_path / "self") == HostMemory(3 * GB, 16 * GB, 4 * GB)


def test_the_tightest_of_the_groups_around_counts(tmp_path: Path) -> None:
    make(tmp_path / "outer", V2, 2 * GB, GB, "anon 1")
    make(tmp_path / "outer" / "inner", V2, "max", GB, "anon 1")
    (tmp_path / "self").write_text("0::/outer/inner\n")
    assert host_memory(tmp_path, tmp_path / "self") == HostMemory(GB, 16 * GB, 2 * GB)


def test_a_v1_limit_counts(tmp_path: Path) -> None:
    pages = f"inactive_file 1\ntotal_inactive_file {GB // 2}"
    make(tmp_path / "memory" / "box", V1, 2 * GB, GB, pages)
    (tmp_path / "self").write_text("5:cpu,cpuacct:/x\n3:memory:/box\n")
    assert host_memory(tmp_path, tmp_path / "self") == HostMemory(3 * GB // 2, 16 * GB, 2 * GB)


def test_a_container_that_sees_only_its_own_group_finds_it_at_the_root(tmp_path: Path) -> None:
    make(tmp_path / "memory", V1, 2 * GB, 0, "")
    (tmp_path / "self").write_text("3:memory:/docker/0123\n")
    assert host_memory(tmp_path, tmp_path / "self") == HostMemory(2 * GB, 16 * GB, 2 * GB)


@pytest.mark.parametrize("limit", ["max", 9223372036854771712, 64 * GB, "rubbish"])
def test_a_limit_above_all_ram_is_none(tmp_path: Path, limit: object) -> None:
    make(tmp_path, V2, limit, 15 * GB, "anon 1")
    (tmp_path / "self").write_text("0::/\n")
    assert host_memory(tmp_path, tmp_path / "self") == HostMemory(10 * GB, 16 * GB)


def test_a_group_that_is_over_its_limit_leaves_nothing(tmp_path: Path) -> None:
    make(tmp_path, V2, GB, 2 * GB, "anon 1")
    (tmp_path / "self").write_text("0::/\n")
    assert host_memory(tmp_path, tmp_path / "self").available_bytes == 0


def test_statistics_that_cannot_be_read_count_as_no_pages_of_files(tmp_path: Path) -> None:
    make(tmp_path, V2, 4 * GB, GB, "this is no statistic")
    (tmp_path / "self").write_text("0::/\n")
    assert host_memory(tmp_path, tmp_path / "self").available_bytes == 3 * GB


def test_this_machine_has_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    found = host_memory()
    assert 0 < found.available_bytes <= found.total_bytes
