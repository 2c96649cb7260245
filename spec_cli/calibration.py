"""Pass times of a model on this machine: measured once, then kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spec_cli.spec.costs import PassTimes, measure_passes
from spec_cli.spec.interfaces import LanguageModel
from spec_cli.state import StateStore, file_identity

PASS_TIMES = "pass-times"


class PassTimer:
    """Measures how long passes of one model file take, and remembers it per set-up.

    `setup` is everything besides the file that the times depend on: build, devices, threads.
    """

    def __init__(
        self,
        path: Path,
        widths: Sequence[int],
        *,
        setup: Mapping[str, Any],
        state: StateStore,
        clock: Callable[[], float],
    ) -> None:
        self._widths = widths
        self._key = {**setup, **file_identity(path), "widths": list(widths)}
        self._state = state
        self._clock = clock

    def stored(self) -> PassTimes | None:
        """The times measured in an earlier run with this set-up."""
        value = self._state.load(PASS_TIMES, self._key)
        return times_from_json(value) if value else None

    def measure(self, model: LanguageModel) -> PassTimes:
        """Measure now, about a second for a small model, and keep the times if none is missing.

        A batch smaller than a width, or a context smaller than twice of it, leaves it out.
        """
        widest = min(model.n_ctx // 2, model.n_batch)
        widths = [width for width in self._widths if width <= widest]
        times = measure_passes(model, widths, clock=self._clock)
        if len(widths) == len(self._widths):
            self._state.save(PASS_TIMES, self._key, [times.widths, times.seconds])
        return times


def times_from_json(value: Sequence[Sequence[Any]]) -> PassTimes:
    """The times of a stored value."""
    return PassTimes(tuple(value[0]), tuple(value[1]))
