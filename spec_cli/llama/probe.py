"""The width probe: do the logits of a row depend on how many rows are in the pass, here?

A KV cache of f16 makes llama.cpp's flash attention sum a single row in another order than several
rows once the cache has 512 cells (ggml-cpu/ops.cpp); one whose keys are bf16 does not, at the same
speed. So that cache is tried, too.

The same tokens are evaluated at every width, at a short and at a long context, and the rows are
compared bit for bit. The widest pass of a class is also tried one token later, so that each row
meets the next index and other neighbours. The times of the passes are kept, too.

A recurrent memory must prove first that it goes back to its snapshots (see `rolling_back`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from spec_cli.llama.context import LlamaContext
from spec_cli.llama.memory import N_SNAPSHOTS
from spec_cli.llama.model import LlamaModel
from spec_cli.llama.native import ContextSettings
from spec_cli.llama.rolling_back import N_TOKENS, any_tokens, rolls_back
from spec_cli.spec.costs import PassTimes
from spec_cli.spec.exactness import (
    MAX_AUTO_PRICE,
    N_LONG,
    Kernels,
    Rollback,
    Rows,
    WidthProbe,
    Widths,
    affordable,
    agree,
    classes_of,
    largest_difference,
)
from spec_cli.spec.interfaces import Logits

STEADY_K_TYPE = "bf16"

_N_PREFIX = 16
_N_COPIES = N_LONG // _N_PREFIX - 1  # of the prefix: the long context is made of them
_N_SINGLE = 2  # steps of width 1: the second attends to what the first one wrote
_N_SEVERAL = 8  # rows that stand for "several" where speeds are compared
_N_CHUNK = 32  # tokens of a prompt pass
_N_PROMPT, _N_STEPS = 512, 256  # tokens of the run whose speed is compared
_MAX_ROUNDS = 10  # of comparing them
_TOO_DEAR = 0.15  # share of the speed: no noise to be measured away


@dataclass(frozen=True, slots=True)
class _Sweep:
    """The same tokens after the same context, at every width."""

    rows: Rows
    times: PassTimes


class Prober:
    """Probes one loaded model. `kernels` always say how it was loaded, besides the KV types.

    Raises ResourceError when memory is short, and Cancelled.
    """

    def __init__(
        self,
        model: LlamaModel,
        widths: Sequence[int],
        *,
        n_threads: int,
        clock: Callable[[], float],
        cancelled: Callable[[], bool],
    ) -> None:
        """`widths` are ascending from 1."""
        self._model = model
        self._widths = [w for w in widths if not model.is_recurrent or w <= N_SNAPSHOTS + 1]
        self._n_threads = n_threads
        self._clock = clock
        self._cancelled = cancelled
        tokens = any_tokens(model.n_vocab, _N_PREFIX + widths[-1] + 1)
        self._prefix, self._tail = tokens[:_N_PREFIX], tokens[_N_PREFIX:]
        self._chunk = any_tokens(model.n_vocab, _N_CHUNK)

    def survey(self, kernels: Kernels) -> list[WidthProbe]:
        """Probe with the KV caches that are worth it; slowdowns are against that of `kernels`.

        That is the steady cache alone where it is affordable, else both.
        """
        if not self._rollback.works:
            return [self._probe_plain(kernels)]
        steady = self._probe(replace(kernels, k_type=STEADY_K_TYPE), against=kernels)
        return [steady] if affordable([steady]) else [self._probe(kernels), steady]

    def probe(self, kernels: Kernels) -> WidthProbe:
        """Try every width with `kernels`."""
        return self._probe(kernels) if self._rollback.works else self._probe_plain(kernels)

    @cached_property
    def _rollback(self) -> Rollback:
        """How the memory forgets, tried once."""
        if not self._model.is_recurrent:
            return Rollback.ANY
        settings = ContextSettings(
            n_ctx=N_TOKENS,
            n_threads=self._n_threads,
            n_batch=N_SNAPSHOTS + 1,
            n_rows=N_SNAPSHOTS + 1,
            n_snapshots=N_SNAPSHOTS,
        )
        with LlamaContext(self._model, settings, cancelled=self._cancelled) as context:
            if not context.n_snapshots:
                return Rollback.NONE
            return Rollback.SNAPSHOTS if rolls_back(context) else Rollback.UNPROVED

    def _probe(self, kernels: Kernels, *, against: Kernels | None = None) -> WidthProbe:
        """About two passes of each width, and some more to compare speeds with `against`."""
        n_snapshots = N_SNAPSHOTS if self._model.is_recurrent else 0
        with self._context(kernels, n_snapshots=n_snapshots) as context:
            short = self._sweep(context, self._widths)
            classes = [self._invariant(context, c, short.rows) for c in classes_of(short.rows)]
            short = self._settle_padding(context, short, classes)
            context.repeat(_N_COPIES)
            long = self._sweep(context, self._widths)
            classes = [
                self._invariant(context, c, long.rows)
                for members in classes
                for c in classes_of({width: long.rows[width] for width in members})
            ]
            long = self._settle_padding(context, long, classes)
        slowdown = 0.0 if against is None else self._slowdown(kernels, against)
        difference = max(largest_difference(short.rows), largest_difference(long.rows))
        return WidthProbe(
            kernels,
            short.times,
            long.times,
            tuple(filter(None, classes)),
            difference,
            slowdown,
            self._rollback,
        )

    def _settle_padding(
        self, context: LlamaContext, found: _Sweep, classes: Sequence[Widths]
    ) -> _Sweep:
        """`found`; where noise may decide whether a padded plain step is worth it, timed again.

        It is compared with a step that is not, in turns, by the shortest times of both.
        """
        times, step = found.times, min(classes[0], default=1)
        for _ in range(_MAX_ROUNDS):
            if not MAX_AUTO_PRICE < times(step) / times(1) - 1 < _TOO_DEAR:
                break
            times = times.shortest(self._sweep(context, (1, step)).times)
        return replace(found, times=times)

    def _slowdown(self, kernels: Kernels, against: Kernels) -> float:
        """The share of the speed that a long context with `kernels` loses against another.

        The worst of one row, of several, and of a whole run with its prompt, by the shortest times
        of passes taken in turns. What seems to cost more than `auto` gives is measured again, a
        few times.
        """
        best = np.full((2, 3), np.inf)
        with self._context(kernels) as ours, self._context(against) as theirs:
            ours.repeat(_N_COPIES)
            theirs.repeat(_N_COPIES)
            for _ in range(_MAX_ROUNDS):
                best = np.minimum(best, [self._speed(context) for context in (ours, theirs)])
                run = best @ (_N_STEPS, 0, _N_PROMPT / _N_CHUNK)
                slowdown = max(0.0, *(best[0] / best[1])[:2] - 1, run[0] / run[1] - 1)
                if slowdown <= MAX_AUTO_PRICE:
                    break
        return float(slowdown)

    def _speed(self, context: LlamaContext) -> tuple[float, float, float]:
        """Seconds of a pass of one row, of several, and of a piece of a prompt without logits."""
        widths = (1, max(width for width in self._widths if width <= _N_SEVERAL))
        single, several = self._sweep(context, widths).times.seconds
        with _kept(context):
            started = self._clock()
            context.eval(self._chunk, n_rows=0)
            return single, several, self._clock() - started

    def _probe_plain(self, kernels: Kernels) -> WidthProbe:
        """A model whose memory cannot drop a tail is decoded by passes of one row, and no other."""
        with self._context(kernels) as context:
            started = self._clock()
            context.eval(self._tail[:1])
            times = PassTimes((1,), (self._clock() - started,))
        return WidthProbe(kernels, times, times, ((1,),), 0.0, rollback=self._rollback)

    @contextmanager
    def _context(self, kernels: Kernels, *, n_snapshots: int = 0) -> Iterator[LlamaContext]:
        """A context that holds the prefix, with room for its copies and the widest pass."""
        settings = ContextSettings(
            n_ctx=_N_PREFIX * (_N_COPIES + 1) + max(len(self._tail), _N_CHUNK),
            n_threads=self._n_threads,
            n_batch=max(_N_PREFIX, self._widths[-1], _N_CHUNK),
            n_rows=self._widths[-1],
            k_type=kernels.k_type,
            v_type=kernels.v_type,
            n_sequences=2,
            n_snapshots=n_snapshots,
        )
        with LlamaContext(self._model, settings, cancelled=self._cancelled) as context:
            context.eval(self._prefix, n_rows=0)
            yield context

    def _sweep(self, context: LlamaContext, widths: Sequence[int]) -> _Sweep:
        """One pass of each width; of width 1 two, one after the other, timed by the faster."""
        rows: dict[int, Logits] = {}
        seconds = []
        for width in widths:
            steps = [self._tail[i : i + 1] for i in range(_N_SINGLE)]
            passes = steps if width == 1 else [self._tail[:width]]
            timed = []
            with _kept(context):
                for tokens in passes:
                    started = self._clock()
                    evaluated = context.eval(tokens)
                    timed.append((self._clock() - started, evaluated.copy()))
            rows[width] = np.concatenate([found for _, found in timed])
            seconds.append(min(elapsed for elapsed, _ in timed))
        return _Sweep(rows, PassTimes(tuple(widths), tuple(seconds)))

    def _invariant(self, context: LlamaContext, members: Widths, rows: Rows) -> Widths:
        """`members` up to the widest whose rows do not depend on their index and neighbours.

        Such a pass is tried one token later; that token is evaluated by the narrowest of them.
        """
        for n in range(len(members), 0, -1):
            width = members[n - 1]
            if width == 1:
                return members[:1]
            with _kept(context):
                context.eval(self._tail[: members[0]])
                context.rollback(context.n_past - members[0] + 1)
                one_later = context.eval(self._tail[1 : width + 1])
                if agree(rows[width][1:], one_later[:-1]):
                    return members[:n]
        return ()


@contextmanager
def _kept(context: LlamaContext) -> Iterator[None]:
    """Drop what is evaluated inside."""
    tokens = context.evaluated
    context.keep(tokens)  # where a recurrent memory can go back to
    yield
    context.keep(tokens)
