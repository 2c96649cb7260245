"""The memory plan: where both models go and what they take there, before any weight is loaded.

A plan bounds what is needed from above, so that a model which fits by it is not killed while it
loads. Layers go to devices as llama.cpp puts them: from the output end, in proportion to the free
memory of each device.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from spec_cli.footprint import Footprint, Part

HOST = "RAM"
_HOST_RESERVE_BYTES = 128 << 20  # for Python, and for what grows while it runs
_DEVICE_RESERVE_BYTES = 512 << 20  # for its driver, and the display


@dataclass(frozen=True, slots=True)
class Room:
    """The memory of one place, in bytes; `shares_host`: a device that computes in RAM."""

    name: str
    free_bytes: int
    total_bytes: int
    shares_host: bool = False

    @property
    def usable_bytes(self) -> int:
        """What a plan may fill."""
        reserve = _HOST_RESERVE_BYTES if self.name == HOST else _DEVICE_RESERVE_BYTES
        return max(0, self.free_bytes - reserve)


@dataclass(frozen=True, slots=True)
class Share:
    """What a model takes in one place, in bytes.

    `mapped_bytes` are weights that are used as they stand in the file: the system may drop these
    pages when memory is short, and reads them from the disk again. All else has to stay.
    """

    weights_bytes: int = 0
    mapped_bytes: int = 0
    cache_bytes: int = 0
    compute_bytes: int = 0

    @property
    def resident_bytes(self) -> int:
        """What has to stay."""
        return self.weights_bytes + self.cache_bytes + self.compute_bytes

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.resident_bytes + self.mapped_bytes

    def __add__(self, other: Share) -> Share:
        return Share(
            self.weights_bytes + other.weights_bytes,
            self.mapped_bytes + other.mapped_bytes,
            self.cache_bytes + other.cache_bytes,
            self.compute_bytes + other.compute_bytes,
        )


@dataclass(frozen=True, slots=True)
class Demand:
    """A model to be placed on `devices`, names of rooms; `n_gpu_layers` None: as much as fits."""

    role: str  # "target" or "draft"
    file: str
    n_ctx: int
    footprint: Footprint
    devices: tuple[str, ...] = ()
    n_gpu_layers: int | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a model goes: `n_gpu_layers` of its `n_layers` (the output counts) on devices."""

    role: str
    file: str
    n_ctx: int
    n_layers: int
    n_gpu_layers: int
    shares: Mapping[str, Share]  # by place

    @property
    def total(self) -> Share:
        """What it takes in all places together."""
        return sum(self.shares.values(), Share())


@dataclass(frozen=True, slots=True)
class Shortage:
    """A place that cannot hold what has to stay there."""

    room: Room
    needed: Share


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Where the models go, and the memory that there is. The first room is RAM."""

    placements: tuple[Placement, ...]
    rooms: tuple[Room, ...]

    def needed(self, room: Room) -> Share:
        """What both models take there; of RAM, also what devices without their own take of it."""
        places = {room.name}
        if room.name == HOST:
            places |= {other.name for other in self.rooms if other.shares_host}
        shares = [p.shares.get(name, Share()) for p in self.placements for name in places]
        return sum(shares, Share())

    @property
    def shortages(self) -> tuple[Shortage, ...]:
        """The places that are too small; none: the plan fits."""
        needs = [(room, self.needed(room)) for room in self.rooms]
        return tuple(
            Shortage(room, needed)
            for room, needed in needs
            if needed.resident_bytes > room.usable_bytes
        )

    @property
    def fits(self) -> bool:
        """Whether every place holds what has to stay there."""
        return not self.shortages

    @property
    def reread_bytes(self) -> int:
        """How much of the weights will be read from the disk again and again: RAM is short."""
        host = self.rooms[0]
        needed = self.needed(host)
        missing = needed.total_bytes - host.usable_bytes
        return max(0, min(missing, needed.mapped_bytes))


def plan_memory(demands: Sequence[Demand], rooms: Sequence[Room]) -> MemoryPlan:
    """Place each of `demands` in turn; the first of `rooms` is RAM.

    A model that may choose puts as many layers on its devices as fit beside those placed before,
    or none.
    """
    placed: tuple[Placement, ...] = ()
    for demand in demands:
        placed = (*placed, _place(demand, placed, tuple(rooms)))
    return MemoryPlan(placed, tuple(rooms))


def largest_context(fits: Callable[[int], bool], n_ctx: int, step: int = 256) -> int | None:
    """The largest multiple of `step` below `n_ctx` tokens for which `fits`; None: there is none."""
    sizes = range(step, n_ctx, step)
    n_fitting = bisect_right(sizes, False, key=lambda size: not fits(size))
    return sizes[n_fitting - 1] if n_fitting else None


def _place(demand: Demand, placed: tuple[Placement, ...], rooms: tuple[Room, ...]) -> Placement:
    devices = [room for room in rooms[1:] if room.name in demand.devices]
    used = MemoryPlan(placed, rooms)
    free = [max(0, room.usable_bytes - used.needed(room).resident_bytes) for room in devices]
    most = demand.footprint.n_offloadable if devices else 0
    if demand.n_gpu_layers is not None:
        wanted = demand.n_gpu_layers
        return _placement(demand, devices, free, most if wanted < 0 else min(wanted, most))
    filled = {room.name for room in devices}
    if any(room.shares_host for room in devices):
        filled.add(HOST)
    for n in range(most, 0, -1):
        placement = _placement(demand, devices, free, n)
        plan = MemoryPlan((*placed, placement), rooms)
        if not any(shortage.room.name in filled for shortage in plan.shortages):
            return placement
    return _placement(demand, devices, free, 0)


def _placement(
    demand: Demand, devices: Sequence[Room], free: Sequence[int], n_gpu_layers: int
) -> Placement:
    parts = demand.footprint.parts
    n_host = len(parts) - n_gpu_layers
    on_device = _by_device(parts[n_host:], devices, free)
    shares = {HOST: _on_host(demand.footprint, parts[:n_host])}
    for room, taken in zip(devices, on_device, strict=True):
        if taken:
            shares[room.name] = _on_device(taken, demand.footprint.compute_bytes)
    n_layers = len(parts)
    return Placement(demand.role, demand.file, demand.n_ctx, n_layers, n_gpu_layers, shares)


def _by_device(
    parts: Sequence[Part], devices: Sequence[Room], free: Sequence[int]
) -> list[list[Part]]:
    """`parts`, dealt out in order and in proportion to `free` (llama_model::load_tensors)."""
    dealt: list[list[Part]] = [[] for _ in devices]
    total = sum(free) or 1
    ends = [end / total for end in accumulate(free)]
    for i, part in enumerate(parts):
        dealt[min(bisect_right(ends, i / len(parts)), len(devices) - 1)].append(part)
    return dealt


def _on_host(footprint: Footprint, parts: Sequence[Part]) -> Share:
    return Share(
        weights_bytes=sum(part.packed_bytes for part in parts),
        mapped_bytes=footprint.input.plain_bytes + sum(part.plain_bytes for part in parts),
        cache_bytes=sum(part.cache_bytes for part in parts),
        compute_bytes=footprint.compute_bytes + footprint.host_bytes,
    )


def _on_device(parts: Sequence[Part], compute_bytes: int) -> Share:
    weights = sum(part.packed_bytes + part.plain_bytes + part.copied_bytes for part in parts)
    return Share(weights, 0, sum(part.cache_bytes for part in parts), compute_bytes)
