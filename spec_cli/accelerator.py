"""Whether this machine seems to have a GPU that the build of llama.cpp does not know."""

from __future__ import annotations

import platform
from pathlib import Path

# A driver leaves these; /dev/kfd is AMD's compute device.
_TRACES = {"/proc/driver/nvidia": "an NVIDIA GPU", "/dev/kfd": "an AMD GPU"}


def unused_gpu(
    root: Path = Path("/"),
    system: str = platform.system(),
    machine: str = platform.machine(),
) -> str | None:
    """What kind of GPU there seems to be; None: none is seen."""
    if system == "Darwin" and machine == "arm64":
        return "Apple silicon's GPU"
    return next((gpu for path, gpu in _TRACES.items() if (root / path[1:]).exists()), None)


def build_hint(gpu: str) -> str:
    """How to get a build of llama.cpp that uses it; docs/start.md has more."""
    if "NVIDIA" in gpu:
        return (
            "in a checkout, with `nvcc`: `SPEC_CLI_BACKEND=cuda make setup`; installed: "
            '`CMAKE_ARGS="-DGGML_CUDA=ON" pipx install --force .`'
        )
    if "AMD" in gpu:
        return 'with ROCm: `CMAKE_ARGS="-DGGML_HIP=ON" pipx install --force .`'
    return "in a checkout: `SPEC_CLI_BACKEND=metal make setup`; installed: `pipx install --force .`"
