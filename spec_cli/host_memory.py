"""How much RAM this process may still use: what the system has, within the cgroup's limit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spec_cli.cgroups import CGROUPS, MEMBERSHIP, groups_around

# v1 writes "no limit" as the largest multiple of a page.
_NO_LIMIT_BYTES = 1 << 60


@dataclass(frozen=True, slots=True)
class HostMemory:
    """RAM in bytes. `available_bytes` could be taken without swapping, file pages included.

    `limit_bytes` is the cgroup's limit; None: there is none below `total_bytes`.
    """

    available_bytes: int
    total_bytes: int
    limit_bytes: int | None = None


def host_memory(cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> HostMemory:
    """The RAM of this process, now."""
    import psutil  # slow to import

    system = psutil.virtual_memory()
    available, tightest = system.available, None
    for group in groups_around("memory", cgroups, membership):
        limit = _limit(group)
        if limit is None or limit >= system.total:
            continue
        tightest = limit if tightest is None else min(limit, tightest)
        available = min(available, max(0, limit - _held(group)))
    return HostMemory(available, system.total, tightest)


def swap_in_use() -> int:
    """Bytes of swap that the system uses."""
    import psutil

    return int(psutil.swap_memory().used)


def _limit(group: Path) -> int | None:
    limit = _number(group / "memory.max") or _number(group / "memory.limit_in_bytes")
    return limit if limit is not None and limit < _NO_LIMIT_BYTES else None


def _held(group: Path) -> int:
    """Bytes that cannot be given back: pages of files can."""
    used = _number(group / "memory.current") or _number(group / "memory.usage_in_bytes") or 0
    pages = _statistics(group / "memory.stat")
    files = sum(
        pages.get(f"total_{name}", pages.get(name, 0)) for name in ("inactive_file", "active_file")
    )
    return max(0, used - files)


def _number(path: Path) -> int | None:
    """The number in a file; None: no such file, or `max`."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _statistics(path: Path) -> dict[str, int]:
    try:
        pairs = (line.split() for line in path.read_text().splitlines())
        return {name: int(value) for name, value in pairs}
    except (OSError, ValueError):
        return {}
