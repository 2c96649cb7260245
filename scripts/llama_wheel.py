"""The llama-cpp-python wheel: which one this machine needs, built once and kept in a cache."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from shell import SetupError, Shell, install_compiler

BACKENDS = {"cpu": "CPU", "cuda": "CUDA", "metal": "Metal"}
OPTIONS = ("-DGGML_NATIVE=ON", "-DGGML_RPC=ON", "-DLLAVA_BUILD=OFF")
# With GGML_NATIVE, ggml's CUDA code is built for the GPUs that are there.
BACKEND_OPTIONS = {
    "cpu": ("-DGGML_METAL=OFF",),
    "cuda": ("-DGGML_CUDA=ON",),
    "metal": ("-DGGML_METAL=ON",),
}
PRELUDE = ("llama_prelude.cmake", "llama_amx.h")  # the first includes the second
CPU_CORE_MINUTES = 6


@dataclass(frozen=True, slots=True)
class Build:
    """All that decides the machine code of the wheel."""

    version: str
    backend: str
    options: tuple[str, ...]
    prelude: tuple[str, ...]
    machine: tuple[str, ...]

    @property
    def key(self) -> str:
        """A directory name: version, backend and a digest of the rest."""
        rest = json.dumps([self.options, self.prelude, self.machine])
        return f"{self.version}-{self.backend}-{hashlib.sha256(rest.encode()).hexdigest()[:12]}"

    @property
    def name(self) -> str:
        """For people: `llama-cpp-python 0.3.36 for CPU`."""
        return f"llama-cpp-python {self.version} for {BACKENDS[self.backend]}"


def plan(version: str, environ: Mapping[str, str], machine: tuple[str, ...]) -> Build:
    """The build that this machine and the user's `SPEC_CLI_BACKEND` and `CMAKE_ARGS` call for."""
    cuda = cuda_toolchain(environ)
    backend = choose_backend(environ.get("SPEC_CLI_BACKEND", "auto"), has_cuda=bool(cuda))
    wishes = shlex.split(environ.get("CMAKE_ARGS", ""))
    return Build(
        version,
        backend,
        options=(*OPTIONS, *BACKEND_OPTIONS[backend], *wishes),
        prelude=tuple(Path(__file__).with_name(name).read_text() for name in PRELUDE),
        machine=(*machine, *cuda) if backend == "cuda" else machine,
    )


def choose_backend(wish: str, *, has_cuda: bool, system: str = platform.system()) -> str:
    """The user's wish, or for `auto` the fastest one that can be built and used here."""
    if wish == "auto":
        return "metal" if system == "Darwin" else "cuda" if has_cuda else "cpu"
    if wish not in BACKENDS:
        choices = ", ".join(["auto", *BACKENDS])
        raise SetupError(f"unknown backend: {wish}", hint=f"`SPEC_CLI_BACKEND` takes {choices}")
    return wish


def cuda_toolchain(environ: Mapping[str, str]) -> tuple[str, ...]:
    """nvcc's version and the GPUs that the driver lists; empty when either is missing."""
    nvcc = find_nvcc(environ)
    gpus = output_of("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader")
    return (output_of(nvcc, "--version"), *sorted(set(gpus.split()))) if nvcc and gpus else ()


def find_nvcc(environ: Mapping[str, str]) -> str | None:
    """nvcc from `PATH`, or from where its installer leaves it."""
    return shutil.which("nvcc", path=f"{environ.get('PATH', '')}{os.pathsep}/usr/local/cuda/bin")


def output_of(*argv: str) -> str:
    """What a command prints; empty when it is not there or fails."""
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def this_machine() -> tuple[str, ...]:
    """What native code depends on: platform, C library and the CPU's instruction sets."""
    if platform.system() == "Darwin":
        cpu = output_of("sysctl", "-n", "machdep.cpu.brand_string")
    else:
        with Path("/proc/cpuinfo").open() as lines:
            cpu = cpu_flags(lines)
    return (sysconfig.get_platform(), " ".join(platform.libc_ver()), cpu)


def cpu_flags(cpuinfo: Iterable[str]) -> str:
    """The first CPU's instruction sets: x86 `flags`, Arm `Features`, RISC-V `isa`, POWER `cpu`."""
    for line in cpuinfo:
        name, _, value = line.partition(":")
        if name.strip().lower() in ("flags", "features", "isa", "cpu"):
            return " ".join(sorted(value.split()))
    return ""


def cached_wheel(wheels: Path, build: Build, make: Callable[[Path], None]) -> Path:
    """The wheel of `build`, made when it is not there yet. The caller holds the set-up lock.

    `make` leaves the wheel in `out` of the directory that it gets. That directory goes away
    however `make` ends; what a killed process left goes away here, the next time.
    """
    home = wheels / build.key
    if not any(home.glob("*.whl")):
        wheels.mkdir(parents=True, exist_ok=True)
        for leftover in wheels.glob(".build-*"):
            shutil.rmtree(leftover)
        with tempfile.TemporaryDirectory(prefix=".build-", dir=wheels) as work:
            make(Path(work))
            Path(work, "out").rename(home)
    return next(home.glob("*.whl"))


def build_wheel(shell: Shell, python: Path, build: Build, work: Path) -> None:
    """Compile the source distribution; the wheel goes into `work/out`, all else into `work`."""
    require_compiler(shell.environ)
    n_jobs = shell.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(n_cores())
    for name, text in zip(PRELUDE, build.prelude, strict=True):
        (work / name).write_text(text)
    options = (*build.options, f"-DCMAKE_PROJECT_llama_cpp_INCLUDE={work / PRELUDE[0]}")
    shell.console.say(f"building {build.name} (once, {estimate(build.backend, n_cores())})")
    # pip's cache may hold a wheel of this version that was built with other options.
    flags = ("--no-deps", "--no-binary", "llama-cpp-python", "--no-cache-dir", "--verbose")
    shell.run(
        f"building {build.name}",
        *(python, "-I", "-m", "pip", "wheel", *flags, "--wheel-dir", work / "out"),
        f"llama-cpp-python=={build.version}",
        extra={
            "CMAKE_ARGS": shlex.join(options),
            "CMAKE_BUILD_PARALLEL_LEVEL": n_jobs,
            "CUDACXX": shell.environ.get("CUDACXX") or find_nvcc(shell.environ) or "nvcc",
            "TMPDIR": str(work),
        },
    )


def require_compiler(environ: Mapping[str, str]) -> None:
    """Raise SetupError when there is no C++ compiler, before anything is fetched for one."""
    chosen = shlex.split(environ.get("CXX", ""))[:1]
    if not any(shutil.which(name) for name in chosen or ("c++", "g++", "clang++")):
        name = chosen[0] if chosen else "a C++ compiler"
        raise SetupError(f"{name} was not found", hint=f"install one: {install_compiler()}")


def n_cores() -> int:
    """The CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def estimate(backend: str, n_cores: int) -> str:
    """How long a build takes, for people."""
    cores = f"{n_cores} core" + "s" * (n_cores > 1)
    if backend != "cpu":
        return f"several minutes on {cores}"
    minutes = -(-CPU_CORE_MINUTES // n_cores)
    return f"about {minutes} minute" + "s" * (minutes > 1) + f" on {cores}"
