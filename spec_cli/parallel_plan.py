"""Which passes over several texts a target is run with: probed once, then kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from spec_cli.llama.model import LlamaModel
from spec_cli.llama.parallel_probe import probe_shapes
from spec_cli.spec.exactness import ExactnessPlan
from spec_cli.spec.shapes import ParallelPlan, shapes_for
from spec_cli.state import PARALLEL_PLANS, StateStore, file_identity

_PROBE_VERSION = 1


class ParallelPlans:
    """The parallel plans of a loaded target; `facts` are what they depend on besides its file."""

    def __init__(
        self,
        model: LlamaModel,
        plan: ExactnessPlan,
        *,
        facts: Mapping[str, Any],
        n_threads: int,
        n_batch: int,
        state: StateStore,
    ) -> None:
        self._model, self._plan = model, plan
        self._facts, self._state = facts, state
        self._n_threads, self._n_batch = n_threads, n_batch

    def stored(self, n_texts: int) -> ParallelPlan | None:
        """The plan of an earlier run; all shapes where bits need not be equal."""
        shapes = shapes_for(n_texts)
        if not self._plan.is_exact:
            return ParallelPlan(shapes, shares_prefixes=True)
        try:
            value: Any = self._state.load(PARALLEL_PLANS, self._key(n_texts))
            good = tuple(shape for shape in shapes if list(shape) in value["shapes"])
            is_whole = len(good) == len(value["shapes"])
            return ParallelPlan(good, value["shares_prefixes"]) if is_whole else None
        except (KeyError, TypeError):  # there is none, or an edit has spoilt it
            return None

    def probe(self, n_texts: int, *, cancelled: Callable[[], bool]) -> ParallelPlan:
        """Probe the target, and keep the plan. Raises ResourceError or Cancelled."""
        found = probe_shapes(
            self._model,
            self._plan,
            shapes_for(n_texts),
            n_threads=self._n_threads,
            n_batch=self._n_batch,
            cancelled=cancelled,
        )
        self._state.save(PARALLEL_PLANS, self._key(n_texts), asdict(found))
        return found

    def _key(self, n_texts: int) -> dict[str, Any]:
        return {
            **self._facts,
            **file_identity(self._model.path),
            "kernels": asdict(self._plan.kernels),
            "widths": list(self._plan.widths or ()),
            "n_batch": self._n_batch,
            "n_texts": n_texts,
            "probe": _PROBE_VERSION,
        }
