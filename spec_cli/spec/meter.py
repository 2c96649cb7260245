"""What a pass takes now: the measured table, corrected by the passes of this very run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np

from spec_cli.spec.costs import PassTimes, TimesByLength
from spec_cli.spec.interfaces import LanguageModel, Logits, Weights

_N_RECENT = 9  # passes whose median counts
_N_ENOUGH = 3  # passes, of one width or of all, from which on they count


class PassMeter:
    """Seconds of a pass by its width and by the tokens before it.

    Each observed pass is compared with the table. A width that was seen often enough is corrected
    by the median of its own ratios, any other by that of all: a machine that is slower than it
    was, or busy now, is slower at every width. Medians, because single passes are disturbed.
    """

    def __init__(self, table: PassTimes | TimesByLength) -> None:
        self._table = table
        self._of_width: dict[int, deque[float]] = {}
        self._of_all: deque[float] = deque(maxlen=_N_RECENT)
        self.drift = 1.0  # their median: how much longer passes take now than in the table

    def observe(self, width: int, n_past: int, seconds: float) -> None:
        """A pass over `width` rows after `n_past` tokens took so long."""
        if seconds <= 0:
            return  # less than the clock can tell
        ratio = seconds / self._table.at(n_past)(width)
        self._of_width.setdefault(width, deque(maxlen=_N_RECENT)).append(ratio)
        self._of_all.append(ratio)
        if len(self._of_all) >= _N_ENOUGH:
            self.drift = median(self._of_all)

    def seconds(self, width: int, n_past: int) -> float:
        """What a pass over `width` rows after `n_past` tokens takes."""
        return self._table.at(n_past)(width) * self._correction(width)

    def curve(self, widths: Sequence[int], n_past: int) -> Weights:
        """The same for several widths."""
        corrections = [self._correction(width) for width in widths]
        seconds: Weights = self._table.at(n_past).of(widths) * np.array(corrections)
        return seconds

    def _correction(self, width: int) -> float:
        ratios = self._of_width.get(width, ())
        return median(ratios) if len(ratios) >= _N_ENOUGH else self.drift


class MeteredModel:
    """A `LanguageModel` whose passes are timed."""

    def __init__(self, model: LanguageModel, meter: PassMeter, clock: Callable[[], float]) -> None:
        self._model = model
        self._meter = meter
        self._clock = clock

    @property
    def n_vocab(self) -> int:
        """That of the wrapped model."""
        return self._model.n_vocab

    @property
    def n_ctx(self) -> int:
        """That of the wrapped model."""
        return self._model.n_ctx

    @property
    def n_batch(self) -> int:
        """That of the wrapped model."""
        return self._model.n_batch

    @property
    def n_past(self) -> int:
        """That of the wrapped model."""
        return self._model.n_past

    def eval(self, tokens: Sequence[int], n_rows: int | None = None) -> Logits:
        """See `LanguageModel.eval`; passes without logits are not those that are planned with."""
        n_past, started = self._model.n_past, self._clock()
        rows = self._model.eval(tokens, n_rows)
        if n_rows != 0:
            self._meter.observe(len(tokens), n_past, self._clock() - started)
        return rows

    def rollback(self, n_past: int) -> None:
        """Forget every token from position `n_past` on."""
        self._model.rollback(n_past)

    def keep(self, tokens: Sequence[int]) -> int:
        """See `LanguageModel.keep`."""
        return self._model.keep(tokens)
