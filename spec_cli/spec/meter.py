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
_N_LASTING = 24  # passes after which one counts no more


class PassMeter:
    """Seconds of a pass by its width and by the tokens before it.

    Each observed pass is compared with the table. A width that was seen often enough is corrected
    by the median of its own ratios, any other by that of all: a machine that is slower than it
    was, or busy now, is slower at every width. Medians, because single passes are disturbed; and
    old passes are forgotten, because a model that seemed too slow to be asked shows no new ones.
    """

    def __init__(
        self, table: PassTimes | TimesByLength, *, beside: PassMeter | None = None
    ) -> None:
        """`beside` meters another model of the machine: its drift counts while there is no own, and
        its passes make those of this one old.
        """
        self._table = table
        self._beside = beside
        self._n_observed = 0
        self._of_width: dict[int, _Ratios] = {}
        self._of_all = _Ratios()

    @property
    def n_passes(self) -> int:
        """How many passes were observed, also of the model beside."""
        return self._n_observed + (self._beside.n_passes if self._beside else 0)

    @property
    def drift(self) -> float:
        """How much longer passes take now than in the table."""
        own = self._of_all.median(self.n_passes)
        if own is not None:
            return own
        return self._beside.drift if self._beside else 1.0

    def observe(self, width: int, n_past: int, seconds: float) -> None:
        """A pass over `width` rows after `n_past` tokens took so long."""
        if seconds <= 0:
            return  # less than the clock can tell
        self._n_observed += 1
        ratio, now = seconds / self._table.at(n_past)(width), self.n_passes
        self._of_width.setdefault(width, _Ratios()).add(ratio, now)
        self._of_all.add(ratio, now)

    def seconds(self, width: int, n_past: int) -> float:
        """What a pass over `width` rows after `n_past` tokens takes."""
        return self._table.at(n_past)(width) * self._correction(width)

    def curve(self, widths: Sequence[int], n_past: int) -> Weights:
        """The same for several widths."""
        corrections = [self._correction(width) for width in widths]
        seconds: Weights = self._table.at(n_past).of(widths) * np.array(corrections)
        return seconds

    def _correction(self, width: int) -> float:
        ratios = self._of_width.get(width)
        own = ratios.median(self.n_passes) if ratios else None
        return self.drift if own is None else own


class _Ratios:
    """What the last passes took against the table, and when they were: after how many passes."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, float]] = deque(maxlen=_N_RECENT)

    def add(self, ratio: float, now: int) -> None:
        self._seen.append((now, ratio))

    def median(self, now: int) -> float | None:
        """Of those that still count; None where they are too few."""
        while self._seen and now - self._seen[0][0] >= _N_LASTING:
            self._seen.popleft()
        if len(self._seen) < _N_ENOUGH:
            return None
        return median(ratio for _, ratio in self._seen)


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
