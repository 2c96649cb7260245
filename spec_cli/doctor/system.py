"""The machine and the process: what is found there, and what may be wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from spec_cli.doctor.report import Finding, Section
from spec_cli.host_memory import HostMemory
from spec_cli.spec.counts import counted

_SWAP_BYTES = 256 << 20  # more of it in use is worth saying
_DISK_BYTES = 2 << 30  # less of it free is
_ENVIRONMENT = re.compile(
    r"(SPEC_CLI|HF|HUGGINGFACE|GGML|LLAMA|OMP|GOMP|KMP|CUDA|HIP|ROCR|XDG)_\w+"
    r"|(NO|FORCE)_COLOR|TERM|COLUMNS|CI|LANG|LC_ALL|(HTTPS?|ALL|NO)_PROXY|PIP_INDEX_URL",
    re.IGNORECASE,
)
_SECRET = re.compile(
    r"(?<!_DRAFT_)(?<!_MAX_)TOKEN|KEY|SECRET|PASS|PROXY|INDEX_URL",  # two settings count tokens
    re.IGNORECASE,
)
# What a CPU can do, by its name in /proc/cpuinfo and in llama.cpp's line.
_INSTRUCTIONS = {"avx2": "AVX2", "avx512f": "AVX512", "amx_int8": "AMX_INT8"}


@dataclass(frozen=True, slots=True)
class Load:
    """How busy the machine is: the load average of the last minute, and the swap in use."""

    average: float | None
    n_cores: int
    swap_bytes: int


def memory_section(host: HostMemory, load: Load) -> Section:
    """RAM, its limits, and who else uses the machine."""
    limit = "none" if host.limit_bytes is None else _gb(host.limit_bytes)
    rows = (
        ("RAM", f"{_gb(host.available_bytes)} of {_gb(host.total_bytes)} can be used"),
        ("cgroup limit", limit),
        ("swap in use", _gb(load.swap_bytes)),
        ("load average", "unknown" if load.average is None else f"{load.average:.1f}"),
    )
    return Section("memory and load", rows, tuple(_memory_findings(host, load)))


def _memory_findings(host: HostMemory, load: Load) -> Iterator[Finding]:
    if host.limit_bytes is not None:
        yield Finding(
            f"a cgroup limits memory to {_gb(host.limit_bytes)} of {_gb(host.total_bytes)}",
            "raise the container's limit where a model does not fit, e.g. `docker run -m 16g`",
        )
    if load.swap_bytes > _SWAP_BYTES:
        yield Finding(
            f"{_gb(load.swap_bytes)} of swap is in use: weights may be on the disk",
            "close other programs, or see `spec-cli run --estimate`",
        )
    if load.average is not None and load.average >= max(load.n_cores, 1):
        yield Finding(
            f"the load average is {load.average:.1f} on "
            f"{counted(load.n_cores, 'core')}: other programs compute, too",
            "see `top`; what is measured now comes out too slow; `--threads` may help",
        )


def environment_section(environ: Mapping[str, str]) -> Section:
    """The variables that matter; of secrets only that they are set."""
    rows = tuple(
        (name, shown_value(name, value))
        for name, value in sorted(environ.items())
        if _ENVIRONMENT.fullmatch(name)
    )
    return Section("environment", rows, tuple(_environment_findings(environ)))


def shown_value(name: str, value: str) -> str:
    """A variable's value, unless it may be a secret or hold a password."""
    return "set" if _SECRET.search(name) or "@" in value else value


def _environment_findings(environ: Mapping[str, str]) -> Iterator[Finding]:
    if threads := environ.get("OMP_NUM_THREADS"):
        yield Finding(
            f"OMP_NUM_THREADS is {threads}, which `spec-cli` ignores",
            "use `--threads N`, or `unset OMP_NUM_THREADS`",
        )
    if limit := environ.get("OMP_THREAD_LIMIT"):
        yield Finding(
            f"OMP_THREAD_LIMIT is {limit}: at most that many threads compute",
            "`unset OMP_THREAD_LIMIT`",
        )
    if environ.get("OMP_WAIT_POLICY", "").lower() == "active":
        yield Finding(
            "OMP_WAIT_POLICY is active: waiting threads keep the cores busy",
            "`unset OMP_WAIT_POLICY`",
        )


def disk_findings(free_bytes: Mapping[Path, int]) -> Iterator[Finding]:
    """Directories on disks that are nearly full."""
    for directory, free in free_bytes.items():
        if free < _DISK_BYTES:
            yield Finding(
                f"only {_gb(free)} is free on the disk of {directory}",
                "free some space, or set `HF_HOME` and `XDG_CACHE_HOME` to a larger disk",
            )


def unused_instructions(cpu_flags: frozenset[str], features: frozenset[str]) -> Iterator[Finding]:
    """What the CPU can do, and this build of llama.cpp does not use."""
    names = [
        name for flag, name in _INSTRUCTIONS.items() if flag in cpu_flags and name not in features
    ]
    if names:
        them = "it" if len(names) == 1 else "them"
        yield Finding(
            f"the CPU has {', '.join(names)}, and this build of llama.cpp does not use {them}",
            'build it for this machine: `CMAKE_ARGS="-DGGML_NATIVE=ON" pip install '
            "--force-reinstall --no-binary llama-cpp-python llama-cpp-python==0.3.36`",
        )


def _gb(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB"
