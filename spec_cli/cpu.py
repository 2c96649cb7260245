"""How many CPU cores this process may keep busy."""

from __future__ import annotations

import os
from pathlib import Path

from spec_cli.cgroups import CGROUPS, MEMBERSHIP, groups_around

_TOPOLOGY = Path("/sys/devices/system/cpu")
_CPUINFO = Path("/proc/cpuinfo")


def usable_cores(
    topology: Path = _TOPOLOGY, cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP
) -> int:
    """Physical cores in this process's affinity mask, at most its cgroups' quota, at least 1."""
    return _within_quota(_physical_cores(_affinity(), topology), cgroups, membership)


def usable_cpus(cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> int:
    """How many threads can run at once: as `usable_cores`, but each hyper-thread counts."""
    return _within_quota(len(_affinity()), cgroups, membership)


def explain_cores(
    topology: Path = _TOPOLOGY, cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP
) -> str:
    """`usable_cores` in words: how many, and why."""
    cpus, quota = _affinity(), _quota(cgroups, membership)
    limit = f"its cgroups allow {quota}" if quota else "no cgroup limits it"
    return (
        f"{usable_cores(topology, cgroups, membership)}: this process may use {len(cpus)} of "
        f"{os.cpu_count()} CPUs, on {_physical_cores(cpus, topology)} physical cores; {limit}"
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


def _within_quota(n: int, cgroups: Path, membership: Path) -> int:
    quota = _quota(cgroups, membership)
    return max(1, min(n, quota) if quota else n)


def _quota(cgroups: Path, membership: Path) -> int | None:
    """Whole CPUs of the tightest quota, rounded up; None where there is none."""
    groups = groups_around("cpu", cgroups, membership)
    return min(filter(None, map(_quota_of, groups)), default=None)


def _quota_of(group: Path) -> int | None:
    words = _words(group / "cpu.max")
    words = words or _words(group / "cpu.cfs_quota_us") + _words(group / "cpu.cfs_period_us")
    try:
        quota, period = map(int, words)  # no quota is `max` in v2, and -1 in v1
    except ValueError:
        return None
    return -(-quota // period) if quota > 0 and period > 0 else None


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
