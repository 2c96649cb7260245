"""What a measurement was made on, without anything that tells whose it is."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from spec_cli.cpu import usable_cores

_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Machine:
    """The model of the CPU, how many of its cores can be used, and the operating system."""

    cpu: str
    n_cores: int
    os: str


def this_machine(cpuinfo: Path = _CPUINFO) -> Machine:
    """The machine that this process runs on."""
    cpu = _model_name(cpuinfo) or platform.processor() or platform.machine()
    return Machine(cpu, usable_cores(), f"{platform.system()} {platform.machine()}")


def load_average() -> float | None:
    """The load average of the last minute, where the system has one."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def _model_name(cpuinfo: Path) -> str | None:
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name" and value.strip():
            return " ".join(value.split())
    return None
