"""How much of each model goes to which device, settled before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from spec_cli.errors import ResourceError
from spec_cli.events import Notice
from spec_cli.fitting import Seat, Site, layer_notice, plan_pair, reread_notice, shortage, site
from spec_cli.gguf import Header
from spec_cli.host_memory import HostMemory
from spec_cli.llama.devices import Device, find_device, offload_devices
from spec_cli.llama.library import library
from spec_cli.llama.repacking import repacking
from spec_cli.memory import MemoryPlan, Placement
from spec_cli.settings import ALL_LAYERS, SessionSettings


@dataclass(frozen=True, slots=True)
class Offload:
    """The devices that take the last `n_layers` of a model; ALL_LAYERS is every one."""

    devices: tuple[Device, ...]
    n_layers: int

    @property
    def used(self) -> tuple[Device, ...]:
        """The devices that take any; none is the CPU."""
        return self.devices if self.n_layers else ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of those."""
        return tuple(device.name for device in self.used)


class Fitter:
    """Says where the layers of `target` and `draft` go, and refuses what does not fit.

    Where nobody said how many layers, that is all of them before the first `fit`, and as many as
    fitted after it.
    Raises ResourceError for a device that is not there.
    """

    def __init__(
        self,
        settings: SessionSettings,
        *,
        host: Callable[[], HostMemory],
        notify: Callable[[Notice], None],
    ) -> None:
        self._settings, self._host, self._notify = settings, host, notify
        asked = settings.n_gpu_layers
        n_layers = ALL_LAYERS if asked is None else asked
        self.target = Offload(_devices(settings.device), n_layers)
        self.draft = Offload(_devices(settings.draft_device or settings.device), n_layers)
        self._may_choose = asked is None
        self._has_warned = False

    def plan(self, target: Header, draft: Header | None, n_ctx: int) -> MemoryPlan:
        """What a pair with a context of `n_ctx` tokens takes."""
        return plan_pair(*self._seats(target, draft), n_ctx, self._settings, self._site)

    def shortage(
        self, plan: MemoryPlan, target: Header, draft: Header | None
    ) -> ResourceError | None:
        """Why `plan`, made for this pair, does not fit, and what would; None: it fits."""
        return shortage(plan, *self._seats(target, draft), self._settings, self._site)

    def fit(self, target: Header, draft: Header | None, n_ctx: int) -> None:
        """Settle how many layers go to the devices; later calls only check that `n_ctx` fits.

        Raises ResourceError when the pair does not fit.
        """
        plan = self.plan(target, draft, n_ctx)
        if error := self.shortage(plan, target, draft):
            raise error
        if not self._has_warned and (notice := reread_notice(plan)):
            self._has_warned = True
            self._notify(notice)
        if self._may_choose:
            self._may_choose = False
            self.target = self._settled(self.target, plan.placements[0])
            for placement in plan.placements[1:]:
                self.draft = self._settled(self.draft, placement)

    def _settled(self, offload: Offload, placement: Placement) -> Offload:
        """`offload` with as many layers as `placement` gives to its devices, if it has any."""
        if not offload.devices:
            return offload
        if notice := layer_notice(placement, offload.names):
            self._notify(notice)
        n = placement.n_gpu_layers
        return replace(offload, n_layers=ALL_LAYERS if n == placement.n_layers else n)

    def _seats(self, target: Header, draft: Header | None) -> tuple[Seat, Seat | None]:
        def seat(header: Header, offload: Offload) -> Seat:
            return Seat(header, offload.names, None if self._may_choose else offload.n_layers)

        return seat(target, self.target), seat(draft, self.draft) if draft else None

    @cached_property
    def _site(self) -> Site:
        """The memory that was free before anything was loaded."""
        devices = {device.name: device for device in (*self.target.used, *self.draft.used)}
        return site(self._host(), tuple(devices.values()), repacking(library().system_info))


def _devices(name: str | None) -> tuple[Device, ...]:
    """The devices to offload to; none is the CPU."""
    if name is not None:
        device = find_device(name)
        return (device,) if device else ()
    return tuple(offload_devices())
