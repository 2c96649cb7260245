"""How many CPU cores this process may keep busy."""

from __future__ import annotations

import os
from pathlib import Path

_TOPOLOGY = Path("/sys/devices/system/cpu")
_CGROUP_MAX = Path("/sys/fs/cgroup/cpu.max")  # cgroup v2
_CPUINFO = Path("/proc/cpuinfo")


def usable_cores(topology: Path = _TOPOLOGY, cgroup_max: Path = _CGROUP_MAX) -> int:
    """Physical cores in this process's affinity mask, at most the cgroup's quota, at least 1."""
    return _within_quota(_physical_cores(_affinity(), topology), cgroup_max)


def usable_cpus(cgroup_max: Path = _CGROUP_MAX) -> int:
    """How many threads can run at once: as `usable_cores`, but each hyper-thread counts."""
    return _within_quota(len(_affinity()), cgroup_max)


def explain_cores(topology: Path = _TOPOLOGY, cgroup_max: Path = _CGROUP_MAX) -> str:
    """`usable_cores` in words: how many, and why."""
    cpus = _affinity()
    quota = _quota(cgroup_max)
    limit = f"a cgroup quota of {quota}" if quota else "no cgroup quota"
    return (
        f"{usable_cores(topology, cgroup_max)}: {_physical_cores(cpus, topology)} physical cores "
        f"under the {len(cpus)} of {os.cpu_count()} CPUs that this process may use, {limit}"
    )


def cpu_flags(cpuinfo: Path = _CPUINFO) -> frozenset[str]:
    """The instruction sets that an x86 or Arm CPU has; empty where that is not told."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def _affinity() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))  # macOS, Windows


def _physical_cores(cpus: set[int], topology: Path) -> int:
    """Distinct groups of hyper-threads among `cpus`; each CPU its own where unknown."""
    groups = set()
    for cpu in cpus:
        siblings = topology / f"cpu{cpu}" / "topology" / "thread_siblings_list"
        try:
            groups.add(siblings.read_text().strip())
        except OSError:
            groups.add(str(cpu))
    return len(groups)


def _within_quota(n: int, cgroup_max: Path) -> int:
    quota = _quota(cgroup_max)
    return max(1, min(n, quota) if quota else n)


def _quota(cgroup_max: Path) -> int | None:
    """Whole CPUs of the quota, rounded up; None where there is none."""
    try:
        quota, period = cgroup_max.read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else -(-int(quota) // int(period))
