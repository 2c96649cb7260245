"""Loading models on this machine: its devices and threads, and what was measured here before."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spec_cli.calibration import PassTimer
from spec_cli.cpu import usable_cores, usable_cpus
from spec_cli.draft_copy import DraftCopies, NoCopy
from spec_cli.events import Notice
from spec_cli.exactness import Planner, TargetSetup
from spec_cli.fitter import Fitter, Offload
from spec_cli.gguf import Header
from spec_cli.host_memory import HostMemory, host_memory
from spec_cli.llama.context import LlamaContext
from spec_cli.llama.devices import Device, cpu_device, offload_devices
from spec_cli.llama.library import library
from spec_cli.llama.model import LlamaModel, LoadSettings
from spec_cli.llama.native import ContextSettings
from spec_cli.llama.rehearsal import rehearse
from spec_cli.llama.rolling_back import returns
from spec_cli.llama.sequences import LlamaSequences
from spec_cli.parallel_plan import ParallelPlans
from spec_cli.settings import SessionSettings
from spec_cli.spec.costs import DRAFT_WIDTHS, PassTimes
from spec_cli.spec.counts import counted
from spec_cli.spec.exactness import DEFAULT_KERNELS, ExactnessPlan
from spec_cli.spec.settings import Exact
from spec_cli.spec.shapes import ParallelPlan
from spec_cli.state import REHEARSED, StateStore, file_identity

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Environment:
    """What a session needs from the outside.

    `clock` gives seconds; `cancelled` is asked often and from inside passes; `notify` receives
    what the user should know; `progress` what is being done now, with a fraction or None.
    `copies` is the directory for faster copies of draft models; None: none are made. `host` tells
    how much RAM there is. `learns`: what generations show about guesses is kept in `state` for
    the next session. `rehearses`: a file that was never loaded here is first loaded by another
    process.
    """

    state: StateStore
    clock: Callable[[], float]
    cancelled: Callable[[], bool]
    notify: Callable[[Notice], None]
    progress: Callable[[str, float | None], None]
    copies: Path | None = None
    host: Callable[[], HostMemory] = host_memory
    learns: bool = False
    rehearses: bool = False


class Loader:
    """Loads models and makes their contexts, and owns both.

    `fitter` says how many layers go to which devices.
    Raises ResourceError, also for a device that is not there.
    """

    def __init__(self, settings: SessionSettings, environment: Environment) -> None:
        self._settings, self._env = settings, environment
        self._models, self._contexts = ExitStack(), ExitStack()
        self.n_threads = settings.n_threads or usable_cores()
        self.fitter = Fitter(settings, host=environment.host, notify=environment.notify)
        if problem := environment.state.problem():
            environment.notify(
                Notice(
                    "what is measured and learned here is not kept for later runs: "
                    f"{problem} (`XDG_STATE_HOME` moves it)"
                )
            )
        if self.n_threads > (n_cpus := usable_cpus()):
            threads, cpus = counted(self.n_threads, "thread"), counted(n_cpus, "CPU")
            hint = f"leave `--threads` out: the default here is {usable_cores()}"
            environment.notify(Notice(f"{threads} on {cpus} slow each other down", hint, "warning"))
        if settings.n_gpu_layers and not offload_devices():
            hint = "build it for CUDA or Metal (see docs/start.md), or leave `--gpu-layers` out"
            environment.notify(
                Notice("this build of llama.cpp finds no GPU: the CPU is used", hint, "warning")
            )

    @property
    def devices(self) -> tuple[Device, ...]:
        """What the target is offloaded to; none is the CPU."""
        return self.fitter.target.used

    def close(self) -> None:
        """Free everything, contexts before their models."""
        self.close_contexts()
        self._models.close()

    def close_contexts(self) -> None:
        """Free the contexts and keep the models."""
        self._contexts.close()

    def target(self, path: Path) -> tuple[LlamaModel, ExactnessPlan]:
        """The target, loaded in the way its exactness plan asks for; the plan is found if need be.

        Raises ModelError, ResourceError or Cancelled.
        """
        self._rehearse(path)
        planner = self._planner(path)
        plan = planner.stored()
        if plan is None and self._settings.exact is Exact.ON:
            plan = planner.try_kernels()
        kernels = plan.kernels if plan else planner.default
        library().use_tiled(kernels.tiled)
        model = self._load(path, self.fitter.target, repack=kernels.repack)
        return model, plan or planner.probe(model)

    def draft(self, path: Path) -> LlamaModel:
        """The draft model. Raises ModelError, ResourceError or Cancelled."""
        self._rehearse(path)
        return self._load(path, self.fitter.draft, repack=DEFAULT_KERNELS.repack)

    def stored_plan(self, path: Path) -> ExactnessPlan | None:
        """The target's exactness plan of an earlier run here; None: there was none."""
        return self._planner(path).stored()

    def stored_draft_times(self, path: Path) -> PassTimes | None:
        """Pass times of a draft model from an earlier run here; None: there was none."""
        return self._draft_timer(path).stored()

    def facts(self, offload: Offload) -> dict[str, Any]:
        """What measurements of any model depend on, besides the model."""
        return {
            "build": f"{library().version} {library().system_info}",
            "devices": [f"{d.name} {d.description}" for d in offload.used or (cpu_device(),)],
            "n_gpu_layers": offload.n_layers,
            "n_threads": self.n_threads,
        }

    def context(self, model: LlamaModel, settings: ContextSettings) -> LlamaContext:
        """A context of `model`. Raises ResourceError."""
        return self._contexts.enter_context(
            LlamaContext(model, settings, cancelled=self._env.cancelled)
        )

    def sequences(self, model: LlamaModel, settings: ContextSettings) -> LlamaSequences:
        """Caches of `model` for several texts. Raises ResourceError."""
        return self._contexts.enter_context(
            LlamaSequences(model, settings, cancelled=self._env.cancelled)
        )

    def parallel_plan(self, model: LlamaModel, plan: ExactnessPlan, n_texts: int) -> ParallelPlan:
        """How passes of the target over several texts keep to `plan`, probed once.

        Raises ResourceError or Cancelled.
        """
        finder = ParallelPlans(
            model,
            plan,
            facts=self.facts(self.fitter.target),
            n_threads=self.n_threads,
            n_batch=self._settings.n_batch,
            state=self._env.state,
        )
        if found := finder.stored(n_texts):
            return found
        self._env.progress("checking which parallel passes give equal bits (once)", None)
        return finder.probe(n_texts, cancelled=self._env.cancelled)

    def draft_times(self, path: Path) -> PassTimes | None:
        """Pass times of a draft model, measured once; None where its memory does not go back.

        Raises ModelError, ResourceError or Cancelled.
        """
        timer = self._draft_timer(path)
        if stored := timer.stored():
            return stored
        self._rehearse(path)
        with self._open(path, self.fitter.draft, repack=DEFAULT_KERNELS.repack) as model:
            self._env.progress("measuring what a guess costs here (once)", None)
            settings = ContextSettings(
                n_ctx=2 * max(DRAFT_WIDTHS),
                n_threads=self.n_threads,
                n_batch=max(DRAFT_WIDTHS),
                n_sequences=2,
            )
            with LlamaContext(model, settings, cancelled=self._env.cancelled) as context:
                if model.is_recurrent and not returns(context):
                    return None
                return timer.measure(context)

    def copy_of(self, draft: Header) -> Path | None:
        """A faster copy of a draft model, made once; None where there is none.

        Raises Cancelled.
        """
        if self._env.copies is None or not self._settings.draft_copy or self.fitter.draft.used:
            return None  # a GPU reads its own memory fast enough
        copies = DraftCopies(
            self._env.copies,
            build=library().version,
            state=self._env.state,
            cancelled=self._env.cancelled,
            progress=self._env.progress,
        )
        found = copies.copy_of(draft)
        if isinstance(found, NoCopy):
            _log.info("%s", found.reason)
            return None
        return found.path

    def _rehearse(self, path: Path) -> None:
        """See that a file that was never loaded here does not take this process with it."""
        key = {"build": library().version, **file_identity(path)}
        if not self._env.rehearses or self._env.state.load(REHEARSED, key):
            return
        self._env.progress(f"trying {path.name} (once)", None)
        if rehearse(path, cancelled=self._env.cancelled):
            self._env.state.save(REHEARSED, key, True)

    def _draft_timer(self, path: Path) -> PassTimer:
        return PassTimer(
            path,
            DRAFT_WIDTHS,
            setup=self.facts(self.fitter.draft),
            state=self._env.state,
            clock=self._env.clock,
        )

    def _load(self, path: Path, offload: Offload, *, repack: bool) -> LlamaModel:
        return self._models.enter_context(self._open(path, offload, repack=repack))

    def _open(self, path: Path, offload: Offload, *, repack: bool) -> LlamaModel:
        load = LoadSettings(offload.n_layers, offload.used, repack)

        def report(fraction: float) -> bool:
            self._env.progress(f"loading {path.name}", fraction)
            return not self._env.cancelled()

        return LlamaModel(path, load, progress=report, cancelled=self._env.cancelled)

    def _planner(self, path: Path) -> Planner:
        setup = TargetSetup(
            path=path,
            n_threads=self.n_threads,
            n_gpu_layers=self.fitter.target.n_layers,
            devices=self.fitter.target.names,
            facts=self.facts(self.fitter.target),
            tiled=library().tiled,
        )
        return Planner(
            setup,
            self._settings.exact,
            state=self._env.state,
            clock=self._env.clock,
            cancelled=self._env.cancelled,
            progress=self._env.progress,
        )
