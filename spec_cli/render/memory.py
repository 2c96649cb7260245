"""A memory plan as a table, and as an object for `--json`. Documented in docs/machine.md."""

from __future__ import annotations

from collections.abc import Iterator

from spec_cli.memory import HOST, MemoryPlan, Room, Share
from spec_cli.render.blocks import aligned
from spec_cli.render.inert import one_line
from spec_cli.spec.counts import counted

SCHEMA = "spec-cli/estimate/1"

_HEADINGS = ("", "in", "layers", "weights", "file pages", "KV cache", "buffers", "total")


def plan_lines(plan: MemoryPlan) -> list[str]:
    """The plan as aligned lines, ending with the verdict. Sizes are in GB of 10^9 bytes."""
    files = [
        f"{p.role:6}  {one_line(p.file)}, context {counted(p.n_ctx, 'token')}"
        for p in plan.placements
    ]
    grid = [list(_HEADINGS), *_rows(plan)]
    rooms = [_room_line(plan, room) for room in plan.rooms]
    return [*files, "", *aligned(grid), "", *rooms, *_verdict(plan)]


def plan_object(plan: MemoryPlan) -> dict[str, object]:
    """The plan for `--json`; sizes are in bytes."""
    models = [
        {
            "role": p.role,
            "file": p.file,
            "n_ctx": p.n_ctx,
            "n_layers": p.n_layers,
            "n_gpu_layers": p.n_gpu_layers,
            "memory": {place: _share_object(share) for place, share in p.shares.items()},
        }
        for p in plan.placements
    ]
    rooms = [
        {
            "name": room.name,
            "free_bytes": room.free_bytes,
            "total_bytes": room.total_bytes,
            "usable_bytes": room.usable_bytes,
            "needed_bytes": plan.needed(room).resident_bytes,
        }
        for room in plan.rooms
    ]
    return {
        "schema": SCHEMA,
        "fits": plan.fits,
        "reread_bytes": plan.reread_bytes,
        "models": models,
        "memory": rooms,
    }


def _share_object(share: Share) -> dict[str, int]:
    return {
        "weights_bytes": share.weights_bytes,
        "mapped_bytes": share.mapped_bytes,
        "cache_bytes": share.cache_bytes,
        "compute_bytes": share.compute_bytes,
    }


def _rows(plan: MemoryPlan) -> Iterator[list[str]]:
    for p in plan.placements:
        on_host = p.n_layers - p.n_gpu_layers
        for place, share in p.shares.items():
            layers = f"{on_host if place == HOST else p.n_gpu_layers} of {p.n_layers}"
            sizes = [share.weights_bytes, share.mapped_bytes, share.cache_bytes]
            sizes += [share.compute_bytes, share.total_bytes]
            yield [p.role, place, layers, *map(gigabytes, sizes)]


def _room_line(plan: MemoryPlan, room: Room) -> str:
    needed = plan.needed(room)
    pages = f", and {gigabytes(needed.mapped_bytes)} for file pages" if needed.mapped_bytes else ""
    return (
        f"{room.name}: {gigabytes(needed.resident_bytes)} must stay{pages}; "
        f"{gigabytes(room.free_bytes)} of {gigabytes(room.total_bytes)} free, "
        f"{gigabytes(room.usable_bytes)} can be used"
    )


def _verdict(plan: MemoryPlan) -> list[str]:
    if not plan.fits:
        return ["does not fit"]
    if plan.reread_bytes:
        again = gigabytes(plan.reread_bytes)
        return [f"fits, but {again} of the weights are read from the disk again and again"]
    return ["fits"]


def gigabytes(n_bytes: int) -> str:
    """`1.25 GB`."""
    return f"{n_bytes / 1e9:,.2f} GB"
