"""The control groups around this process, of version 1 or 2, whose limits hold for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def groups_around(controller: str, cgroups: Path, membership: Path) -> Iterator[Path]:
    """The directories of this process's group of a controller and of the groups around that."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return  # macOS
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":  # v2
            root = cgroups
        elif controller in controllers.split(","):
            root = cgroups / controller
        else:
            continue
        group = root / path.lstrip("/")
        while True:
            if group.is_dir():
                yield group
            if group == root or root not in group.parents:
                break
            group = group.parent
