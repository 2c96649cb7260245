"""The devices llama.cpp can compute on."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

from spec_cli.errors import ResourceError
from spec_cli.llama.bindings import bindings
from spec_cli.llama.library import library

_KINDS = ("cpu", "gpu", "igpu", "accel", "meta")  # enum ggml_backend_dev_type, ggml-backend.h
OFFLOAD_KINDS = ("gpu", "igpu")
_METAL = ("MTL", "Metal")


@dataclass(frozen=True, slots=True)
class Device:
    """One backend device. Memory is in bytes; a CPU reports the system's."""

    name: str
    description: str
    kind: str
    free_bytes: int
    total_bytes: int
    handle: int

    @property
    def offloads(self) -> bool:
        """Whether model layers can be put on it."""
        return self.kind in OFFLOAD_KINDS

    @property
    def shares_host(self) -> bool:
        """Whether its memory is the system's RAM: integrated graphics, Apple silicon."""
        return self.kind == "igpu" or self.name.startswith(_METAL)


def list_devices() -> list[Device]:
    """All devices, in llama.cpp's order."""
    ggml = _ggml()
    return [
        _describe(ggml, ggml.ggml_backend_dev_get(i)) for i in range(ggml.ggml_backend_dev_count())
    ]


def offload_devices() -> list[Device]:
    """The devices that can hold layers; none without a GPU, or in a build without its backend."""
    return [device for device in list_devices() if device.offloads]


def backends() -> list[str]:
    """The names of the backends in this build of llama.cpp."""
    ggml = _ggml()
    registered = (ggml.ggml_backend_reg_get(i) for i in range(ggml.ggml_backend_reg_count()))
    return [ggml.ggml_backend_reg_name(backend).decode() for backend in registered]


def cpu_device() -> Device:
    """The CPU; every build of llama.cpp has it."""
    return next(device for device in list_devices() if device.kind == "cpu")


def find_device(name: str) -> Device | None:
    """The offload device called `name`; None for `cpu`. Raises ResourceError for any other name."""
    if name.lower() in ("cpu", "none"):
        return None
    found = offload_devices()
    for device in found:
        if device.name.lower() == name.lower():
            return device
    names = ", ".join(["cpu", *(device.name for device in found)])
    raise ResourceError(f"there is no device `{name}` here", hint=f"use one of: {names}")


def _describe(ggml: Any, handle: int) -> Device:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    ggml.ggml_backend_dev_memory(handle, ctypes.byref(free), ctypes.byref(total))
    return Device(
        name=ggml.ggml_backend_dev_name(handle).decode(),
        description=ggml.ggml_backend_dev_description(handle).decode().strip(),
        kind=_KINDS[ggml.ggml_backend_dev_type(handle)],
        free_bytes=free.value,
        total_bytes=total.value,
        handle=handle,
    )


@cache
def _ggml() -> Any:
    """libggml with the device functions typed; llama_cpp.llama_cpp does not bind them."""
    library()
    libggml = bindings("_ggml").libggml
    handle, size_p = ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)
    for name, arguments, result in (
        ("ggml_backend_reg_count", [], ctypes.c_size_t),
        ("ggml_backend_reg_get", [ctypes.c_size_t], handle),
        ("ggml_backend_reg_name", [handle], ctypes.c_char_p),
        ("ggml_backend_dev_count", [], ctypes.c_size_t),
        ("ggml_backend_dev_get", [ctypes.c_size_t], handle),
        ("ggml_backend_dev_name", [handle], ctypes.c_char_p),
        ("ggml_backend_dev_description", [handle], ctypes.c_char_p),
        ("ggml_backend_dev_type", [handle], ctypes.c_int),
        ("ggml_backend_dev_memory", [handle, size_p, size_p], None),
    ):
        function = getattr(libggml, name)
        function.argtypes, function.restype = arguments, result
    return libggml
