"""Which kernels and widths a target is run with: probed once per machine and file, then kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from spec_cli.errors import Cancelled, ResourceError
from spec_cli.llama.model import LlamaModel
from spec_cli.llama.probe import Prober
from spec_cli.spec.costs import TARGET_WIDTHS, PassTimes
from spec_cli.spec.exactness import (
    DEFAULT_KERNELS,
    MAX_AUTO_PRICE,
    Exact,
    ExactnessPlan,
    Kernels,
    WidthProbe,
    cheapest,
    fast,
    slowdown,
)
from spec_cli.state import StateStore, file_identity

# With these a row is summed alike beside other rows (flash attention splits long f16 caches for a
# single row), at the speed of f16; values stay f16.
_STEADY_KV = replace(DEFAULT_KERNELS, k_type="bf16")

_KIND = "exactness-plans"
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class TargetSetup:
    """What the answer depends on, besides the file: `facts` are build, devices and their layers."""

    path: Path
    n_threads: int
    n_gpu_layers: int
    devices: tuple[str, ...]  # names; none is the CPU
    facts: Mapping[str, Any]

    def key(self, exact: Exact) -> dict[str, Any]:
        """What a stored plan is bound to."""
        return {
            **self.facts,
            **file_identity(self.path),
            "widths": list(TARGET_WIDTHS),
            "exact": exact,
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
        self._state = state
        self._clock, self._cancelled, self._progress = clock, cancelled, progress

    def stored(self) -> ExactnessPlan | None:
        """The plan of an earlier run with this set-up."""
        value = self._state.load(_KIND, self._setup.key(self._exact))
        return None if value is None else _plan_from_json(value)

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
        return self._keep(self._plan(prober, can_draft=model.can_roll_back))

    def try_kernels(self) -> ExactnessPlan:
        """Try every way to load the target, and keep the cheapest exact plan.

        Stops early where the default way is affordable. Raises ResourceError or Cancelled.
        """
        probes: list[WidthProbe] = []
        loads = [(True, True), (False, True), (False, False)]
        if self._setup.devices:
            loads = loads[:1]  # the other ways change CPU kernels
        for i, (repack, tiled) in enumerate(loads):
            self._progress("trying kernels whose passes give equal bits (once)", i / len(loads))
            found = self._trial(repack=repack, tiled=tiled)
            default = probes[0] if probes else found[0]
            probes += [replace(probe, slowdown=slowdown(probe, default)) for probe in found]
            if cheapest(probes).price <= MAX_AUTO_PRICE:
                break
        return self._keep(cheapest(probes))

    def _plan(self, prober: Prober, *, can_draft: bool) -> ExactnessPlan:
        kernels, extra = DEFAULT_KERNELS, 0.0
        if self._exact is Exact.AUTO and can_draft:
            steady = prober.compare_kv(_STEADY_KV, DEFAULT_KERNELS, affordable=MAX_AUTO_PRICE)
            if steady.agrees and steady.slowdown <= MAX_AUTO_PRICE:
                kernels, extra = _STEADY_KV, steady.slowdown
        probe = prober.probe(kernels, slowdown=extra)
        if self._exact is Exact.AUTO:
            plan = cheapest([probe])
            if plan.price <= MAX_AUTO_PRICE:
                return plan
        return fast(probe if kernels == DEFAULT_KERNELS else prober.probe(DEFAULT_KERNELS))

    def _trial(self, *, repack: bool, tiled: bool) -> list[WidthProbe]:
        """What another process finds, with every type of KV cache."""
        setup = self._setup
        order = {
            "path": str(setup.path),
            "n_threads": setup.n_threads,
            "n_gpu_layers": setup.n_gpu_layers,
            "devices": setup.devices,
            "kernels": [
                asdict(replace(kv, repack=repack, tiled=tiled))
                for kv in (DEFAULT_KERNELS, _STEADY_KV)
            ],
        }
        environment = os.environ | ({} if tiled else {"GGML_CPU_TILED_MM": "0"})
        with subprocess.Popen(
            [sys.executable, "-m", "spec_cli.llama.trial", json.dumps(order)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
        ) as process:
            while process.poll() is None:
                if self._cancelled():
                    process.kill()
                    raise Cancelled
                time.sleep(_POLL_S)
            out, error = process.communicate()
        if process.returncode != 0:
            raise ResourceError(f"the kernels cannot be tried: {error.strip() or 'it crashed'}")
        return [_probe_from_json(value) for value in json.loads(out)]

    def _keep(self, plan: ExactnessPlan) -> ExactnessPlan:
        self._state.save(_KIND, self._setup.key(self._exact), asdict(plan))
        return plan


def _plan_from_json(value: Mapping[str, Any]) -> ExactnessPlan:
    return ExactnessPlan(
        kernels=Kernels(**value["kernels"]),
        widths=None if value["widths"] is None else tuple(value["widths"]),
        price=value["price"],
        max_difference=value["max_difference"],
        times=_times_from_json(value["times"]),
    )


def _probe_from_json(value: Mapping[str, Any]) -> WidthProbe:
    return WidthProbe(
        kernels=Kernels(**value["kernels"]),
        short=_times_from_json(value["short"]),
        long=_times_from_json(value["long"]),
        classes=tuple(tuple(widths) for widths in value["classes"]),
        max_difference=value["max_difference"],
        slowdown=value["slowdown"],
    )


def _times_from_json(value: Mapping[str, Any]) -> PassTimes:
    return PassTimes(tuple(value["widths"]), tuple(value["seconds"]))
