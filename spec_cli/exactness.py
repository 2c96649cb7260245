"""Which kernels and widths a target is run with: probed once per machine and file, then kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from spec_cli.calibration import checked_times
from spec_cli.errors import ResourceError
from spec_cli.llama.apart import run_apart
from spec_cli.llama.model import LlamaModel
from spec_cli.llama.native import KV_TYPES
from spec_cli.llama.probe import Prober
from spec_cli.spec.costs import TARGET_WIDTHS, PassTimes
from spec_cli.spec.exactness import (
    DEFAULT_KERNELS,
    ExactnessPlan,
    Kernels,
    Rollback,
    WidthProbe,
    Widths,
    affordable,
    cheapest,
    fast,
    slowdown,
)
from spec_cli.spec.settings import Exact
from spec_cli.state import StateStore, file_identity

PLANS = "exactness-plans"
PROBE_VERSION = 4  # of what a probe tries and how a price is reckoned


@dataclass(frozen=True, slots=True)
class TargetSetup:
    """What the answer depends on, besides the file: `facts` are build, devices and their layers.

    `tiled` says whether this process uses tiled products: that is settled with the first model
    it loads. None: it is open.
    """

    path: Path
    n_threads: int
    n_gpu_layers: int
    devices: tuple[str, ...]  # names; none is the CPU
    facts: Mapping[str, Any]
    tiled: bool | None = None

    def key(self, exact: Exact) -> dict[str, Any]:
        """What a stored plan is bound to."""
        return {
            **self.facts,
            **file_identity(self.path),
            "widths": list(TARGET_WIDTHS),
            "exact": exact,
            "tiled": self.tiled,
            "probe": PROBE_VERSION,
        }


class Planner:
    """Finds the `ExactnessPlan` of a target, in one of three ways.

    `stored` costs nothing. `probe` uses the loaded target: its weights stay as they are, so only
    the KV cache can be changed. `try_kernels` loads the target in other processes, once for each
    way of loading it: it takes longest, and finds the cheapest plan there is.
    """

    def __init__(
        self,
        setup: TargetSetup,
        exact: Exact,
        *,
        state: StateStore,
        clock: Callable[[], float],
        cancelled: Callable[[], bool],
        progress: Callable[[str, float | None], None],
    ) -> None:
        self._setup, self._exact = setup, exact
        self.default = replace(DEFAULT_KERNELS, tiled=setup.tiled is not False)
        self._state = state
        self._clock, self._cancelled, self._progress = clock, cancelled, progress

    def stored(self) -> ExactnessPlan | None:
        """The plan of an earlier run with this set-up."""
        settled = self._setup.tiled
        for setup in (replace(self._setup, tiled=None), self._setup):
            plan = plan_from_json(self._state.load(PLANS, setup.key(self._exact)))
            if plan and settled in (None, plan.kernels.tiled):
                return plan
        return None

    def probe(self, model: LlamaModel) -> ExactnessPlan:
        """Probe the loaded target, and keep the plan. Raises ResourceError or Cancelled."""
        self._progress("checking which passes give equal bits (once)", None)
        prober = Prober(
            model,
            TARGET_WIDTHS,
            n_threads=self._setup.n_threads,
            clock=self._clock,
            cancelled=self._cancelled,
        )
        return self._keep(self._plan(prober))

    def try_kernels(self) -> ExactnessPlan:
        """Try the ways to load the target, and keep the cheapest exact plan.

        The first affordable one is the last that is tried. Raises ResourceError or Cancelled.
        """
        probes: list[WidthProbe] = []
        reference: WidthProbe | None = None
        loads = self._loads()
        for i, kernels in enumerate(loads):
            self._progress("trying kernels whose passes give equal bits (once)", i / len(loads))
            found = self._trial(kernels)
            reference = reference or found[0]
            probes += [_priced(probe, reference) for probe in found]
            if plan := affordable(probes):
                return self._keep(plan)
        return self._keep(cheapest(probes))

    def _loads(self) -> list[Kernels]:
        """The ways to load the target that this process can use, the fastest first."""
        bare = replace(self.default, repack=False)
        if self._setup.devices:
            return [self.default]  # the other ways change CPU kernels
        if self._setup.tiled is not None:
            return [self.default, bare]
        return [self.default, bare, replace(bare, tiled=False)]

    def _plan(self, prober: Prober) -> ExactnessPlan:
        if self._exact is Exact.OFF:
            return fast(prober.probe(self.default))
        probes = prober.survey(self.default)
        if plan := affordable(probes):
            return plan
        default = [probe for probe in probes if probe.kernels == self.default]
        return fast(default[0] if default else prober.probe(self.default))

    def _trial(self, kernels: Kernels) -> list[WidthProbe]:
        """What another process finds that loads the target as `kernels` say."""
        setup = self._setup
        order = {
            "path": str(setup.path),
            "n_threads": setup.n_threads,
            "n_gpu_layers": setup.n_gpu_layers,
            "devices": setup.devices,
            "kernels": asdict(kernels),
        }
        ended = run_apart("spec_cli.llama.trial", json.dumps(order), cancelled=self._cancelled)
        if ended.exit_code != 0:
            raise ResourceError(f"the kernels cannot be tried: {ended.reason}")
        return [_probe_from_json(value) for value in json.loads(ended.output)]

    def _keep(self, plan: ExactnessPlan) -> ExactnessPlan:
        self._state.save(PLANS, self._setup.key(self._exact), asdict(plan))
        return plan


def _priced(probe: WidthProbe, reference: WidthProbe) -> WidthProbe:
    """`probe`, its slowdown counted against the default kernels by way of `reference`.

    The reference was compared with them in its own process, in turns; `probe` was in another.
    """
    if probe.kernels.repack == reference.kernels.repack:
        return probe
    total = (1 + reference.slowdown) * (1 + slowdown(probe, reference)) - 1
    return replace(probe, slowdown=total)


def plan_from_json(value: Any) -> ExactnessPlan | None:
    """The plan that was stored.

    None where there is none, another version wrote it, or an edit has spoilt it.
    """
    try:
        times = _times_from_json(value["times"])
        return ExactnessPlan(
            kernels=_kernels_from_json(value["kernels"]),
            widths=None if value["widths"] is None else _some_of(times.widths, value["widths"]),
            price=float(value["price"]),
            max_difference=float(value["max_difference"]),
            times=times,
            long_times=_times_from_json(value["long_times"]),
            rollback=Rollback(value["rollback"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _kernels_from_json(value: Mapping[str, Any]) -> Kernels:
    kernels = Kernels(**value)
    if not {kernels.k_type, kernels.v_type} <= set(KV_TYPES):
        raise ValueError("unknown types of the KV cache")
    return kernels


def _some_of(known: Widths, widths: Sequence[Any]) -> Widths:
    chosen = tuple(width for width in known if width in widths)
    if not chosen or list(chosen) != list(widths):
        raise ValueError("not some of the widths")
    return chosen


def _probe_from_json(value: Mapping[str, Any]) -> WidthProbe:
    return WidthProbe(
        kernels=Kernels(**value["kernels"]),
        short=_times_from_json(value["short"]),
        long=_times_from_json(value["long"]),
        classes=tuple(tuple(widths) for widths in value["classes"]),
        max_difference=value["max_difference"],
        slowdown=value["slowdown"],
        rollback=Rollback(value["rollback"]),
    )


def _times_from_json(value: Mapping[str, Any]) -> PassTimes:
    return checked_times(value["widths"], value["seconds"])
