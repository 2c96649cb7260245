"""`spec-cli devices`: what llama.cpp can compute on here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

import typer

from spec_cli.accelerator import build_hint, unused_gpu
from spec_cli.host_memory import HostMemory, host_memory
from spec_cli.llama.devices import Device, backends, list_devices
from spec_cli.llama.library import library
from spec_cli.render.blocks import aligned
from spec_cli.render.memory import gigabytes
from spec_cli.render.stdout import Stdout
from spec_cli.terminal import detect

SCHEMA = "spec-cli/devices/1"

_HEADINGS = ("", "device", "kind", "free", "total", "description")


def devices(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the devices that a model can run on; `*` marks those used by default."""
    stdout = Stdout(detect().stdout)
    found, host = list_devices(), host_memory()
    hint = missing_gpu(found)
    if as_json:
        stdout.write(f"{json.dumps(_as_json(found, host, hint))}\n")
        return
    lines = [
        f"llama-cpp-python {library().version}, backends: {', '.join(backends())}",
        "",
        *aligned([list(_HEADINGS), *(_row(device, found, host) for device in found)]),
        *(["", *hint] if hint else []),
    ]
    stdout.write("".join(f"{line}\n" for line in lines))


def missing_gpu(found: Sequence[Device]) -> tuple[str, str] | None:
    """That a GPU is there which this build cannot use, and how to get one that can; or None."""
    gpu = None if any(device.offloads for device in found) else unused_gpu()
    if gpu is None:
        return None
    return f"there seems to be {gpu}, which this build does not use", build_hint(gpu)


def is_default(device: Device, found: Sequence[Device]) -> bool:
    """Whether it is used where `--device` names none: every GPU, or else the CPU."""
    return device.offloads or (device.kind == "cpu" and not any(other.offloads for other in found))


def memory_of(device: Device, host: HostMemory) -> tuple[int, int]:
    """Free and total bytes; of a CPU, what this process may use, which llama.cpp does not ask."""
    if device.kind == "cpu":
        return host.available_bytes, host.limit_bytes or host.total_bytes
    return device.free_bytes, device.total_bytes


def _row(device: Device, found: Sequence[Device], host: HostMemory) -> list[str]:
    free, total = memory_of(device, host)
    mark = "*" if is_default(device, found) else ""
    sizes = (gigabytes(free), gigabytes(total))
    return [mark, device.name, device.kind, *sizes, device.description]


def _as_json(
    found: Sequence[Device], host: HostMemory, hint: tuple[str, str] | None
) -> dict[str, object]:
    rows = []
    for device in found:
        free, total = memory_of(device, host)
        rows.append(
            {
                "name": device.name,
                "kind": device.kind,
                "description": device.description,
                "free_bytes": free,
                "total_bytes": total,
                "default": is_default(device, found),
            }
        )
    return {
        "schema": SCHEMA,
        "llama_cpp_python": library().version,
        "backends": backends(),
        "devices": rows,
        "hint": hint and " - ".join(hint),
    }
