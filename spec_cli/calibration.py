"""Pass times of a model on this machine: measured once, then kept."""

from __future__ import annotations

import math
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
        return times_from_json(self._state.load(PASS_TIMES, self._key))

    def measure(self, model: LanguageModel) -> PassTimes:
        """Measure now, in about a second for a small model; kept where no width is left out.

        A width is left out that is larger than a batch, or than half a context.
        """
        widest = min(model.n_ctx // 2, model.n_batch)
        widths = [width for width in self._widths if width <= widest]
        times = measure_passes(model, widths, clock=self._clock)
        if len(widths) == len(self._widths):
            self._state.save(PASS_TIMES, self._key, [times.widths, times.seconds])
        return times


def times_from_json(value: Any) -> PassTimes | None:
    """The times that were stored; None where there are none, or an edit has spoilt them."""
    try:
        widths, seconds = value
        return checked_times(widths, seconds)
    except (TypeError, ValueError):
        return None


def checked_times(widths: Sequence[Any], seconds: Sequence[Any]) -> PassTimes:
    """Stored numbers as times. Raises TypeError or ValueError for what can be none."""
    are_widths = all(type(width) is int for width in widths) and min(widths) > 0
    are_seconds = all(0 < s < math.inf for s in seconds) and len(seconds) == len(widths)
    if not (are_widths and are_seconds and list(widths) == sorted(set(widths))):
        raise ValueError("no pass times")
    return PassTimes(tuple(widths), tuple(seconds))
