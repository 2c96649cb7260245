"""Whether a pair fits on this machine: its plan, how many layers go to a GPU, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spec_cli.drafters.model import N_ROWS
from spec_cli.errors import ResourceError
from spec_cli.events import Notice
from spec_cli.footprint import footprint
from spec_cli.gguf import Header
from spec_cli.host_memory import HostMemory
from spec_cli.llama.devices import Device
from spec_cli.llama.memory import N_SNAPSHOTS
from spec_cli.llama.native import ContextSettings
from spec_cli.llama.repacking import Repacking
from spec_cli.memory import (
    HOST,
    Demand,
    MemoryPlan,
    Placement,
    Room,
    Share,
    largest_context,
    plan_memory,
)
from spec_cli.settings import MIN_AUTO_CTX, SessionSettings
from spec_cli.spec.costs import TARGET_WIDTHS

N_TARGET_ROWS = 64  # the longest draft that can be asked for, and one
_N_SEQUENCES = 2  # of a draft, and of a target while it is probed


@dataclass(frozen=True, slots=True)
class Site:
    """The memory of this machine, RAM first, and what its CPU does to weights."""

    rooms: tuple[Room, ...]
    repacking: Repacking


@dataclass(frozen=True, slots=True)
class Seat:
    """A model and the devices it may use; `n_gpu_layers` None: as many of its layers as fit."""

    header: Header
    devices: tuple[str, ...] = ()
    n_gpu_layers: int | None = None


def site(host: HostMemory, devices: Sequence[Device], repacking: Repacking) -> Site:
    """The memory that there is. A device that reports none computes in RAM, as in llama.cpp."""
    ram = Room(HOST, host.available_bytes, host.limit_bytes or host.total_bytes)
    rooms = [
        Room(d.name, d.free_bytes, d.total_bytes, d.shares_host)
        if d.total_bytes
        else Room(d.name, ram.free_bytes, ram.total_bytes, shares_host=True)
        for d in devices
    ]
    return Site((ram, *rooms), repacking)


def plan_pair(
    target: Seat, draft: Seat | None, n_ctx: int, settings: SessionSettings, site: Site
) -> MemoryPlan:
    """The plan of a pair with a context of `n_ctx` tokens; the target is placed first."""
    widest = TARGET_WIDTHS[-1]  # passes may be padded to it, in cells of their own
    n_batch = max(settings.n_batch, widest)
    context = ContextSettings(
        n_ctx=n_ctx,
        n_pad=widest,
        n_threads=1,
        n_batch=n_batch,
        n_rows=min(N_TARGET_ROWS, n_batch),
        n_sequences=_N_SEQUENCES,
        n_snapshots=N_SNAPSHOTS,
    )
    demands = [_demand("target", target, context, site)]
    if draft is not None:
        context = ContextSettings(
            n_ctx=min(n_ctx, draft.header.context_length or n_ctx),
            n_threads=1,
            n_batch=settings.n_batch,
            n_rows=min(N_ROWS, settings.n_batch),
            n_sequences=_N_SEQUENCES,
        )
        demands.append(_demand("draft", draft, context, site))
    return plan_memory(demands, site.rooms)


def first_context(settings: SessionSettings, target: Header) -> int:
    """The context that is planned for before the length of the prompt is known."""
    return settings.n_ctx or min(target.context_length or MIN_AUTO_CTX, MIN_AUTO_CTX)


def shortage(
    plan: MemoryPlan, target: Seat, draft: Seat | None, settings: SessionSettings, site: Site
) -> ResourceError | None:
    """Why a pair does not fit, and what would make it fit; None: it fits."""
    if plan.fits:
        return None
    short = plan.shortages[0]
    on_gpu = short.room.name != HOST
    n_fitting = largest_context(
        lambda n_ctx: plan_pair(target, draft, n_ctx, settings, site).fits,
        plan.placements[0].n_ctx,
    )
    levers = [
        f"a smaller `--ctx-size` (`-c {n_fitting}` fits)" if n_fitting else None,
        "fewer `--gpu-layers`" if on_gpu else None,
        "a smaller quantisation",
        "`--no-draft`" if draft else None,
    ]
    given = [lever for lever in levers if lever]
    models = "the two models need" if draft else "the model needs"
    return ResourceError(
        f"{models} {_gb(short.needed.resident_bytes)} of {short.room.name} ({_items(short.needed)})"
        f", but only {_gb(short.room.usable_bytes)} can be used",
        hint=f"use {', '.join(given[:-1])} or {given[-1]}" if len(given) > 1 else f"use {given[0]}",
    )


def layer_notice(placement: Placement, devices: Sequence[str]) -> Notice | None:
    """What the user should know where not all layers found room; None: they did."""
    if not devices or placement.n_gpu_layers == placement.n_layers:
        return None
    n, role, where = placement.n_gpu_layers, placement.role, ", ".join(devices)
    if n == 0:
        message = f"no layer of the {role} fits on {where}; the CPU computes all of them"
    else:
        fit = f"{n} of the {role}'s {placement.n_layers} layers {'fits' if n == 1 else 'fit'}"
        message = f"{fit} on {where}; the CPU computes the others"
    return Notice(
        message, "a smaller `--ctx-size` leaves room for more; `--gpu-layers N` sets the number"
    )


def reread_notice(plan: MemoryPlan) -> Notice | None:
    """A warning where weights will be read from the disk again and again; None: they stay."""
    if not plan.reread_bytes:
        return None
    return Notice(
        f"RAM is {_gb(plan.reread_bytes)} short of the weights: they are read from the disk again "
        "and again, slowly",
        "use a smaller quantisation, or free memory",
        level="warning",
    )


def _demand(role: str, seat: Seat, context: ContextSettings, site: Site) -> Demand:
    header = seat.header
    return Demand(
        role=role,
        file=header.path.name,
        n_ctx=context.n_ctx,
        footprint=footprint(header, context, site.repacking),
        devices=seat.devices,
        n_gpu_layers=seat.n_gpu_layers,
    )


def _items(share: Share) -> str:
    """What a share is made of."""
    weights = share.weights_bytes / 1e9
    cache, buffers = share.cache_bytes / 1e9, share.compute_bytes / 1e9
    return f"weights {weights:,.1f}, KV cache {cache:,.1f}, buffers {buffers:,.1f}"


def _gb(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:,.1f} GB"
