"""Choosing a token with coupled randomness: one rule for the target, the draft, and plain decoding.

    choose(row, i) = arg max over x of  log p_i(x) + g(seed, i, x)

with g standard Gumbel noise that depends on nothing but the seed, the position and the token.
By the Gumbel-max trick the choice has exactly the distribution p_i. The draft model chooses with
its own q_i and the *same* noise, and a draft token is kept while it equals the target's choice:
so the text for a seed is the same with any drafter, any draft length, or none.

Daliri, Musco, Suresh (2024), "Coupling without communication and drafter-invariant speculative
decoding", arXiv 2408.07978.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from spec_cli.spec.interfaces import Ids, Logits, Weights
from spec_cli.spec.sampling import Candidates, SamplingSettings, candidates, penalised, top_k

_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_MASK = 0xFFFFFFFFFFFFFFFF
_MANY = 4096
_N_LIKELIEST=128
_BLOCK=2**14


class Chooser(Protocol):
    """The one function by which every token, drafted or emitted, is chosen."""

    @property
    def n_history(self) -> int:
        """How many of the last tokens the choice depends on."""

    def choose(self, logits: Logits, position: int, history: Sequence[int]) -> int:
        """The token at `position`, given the logits [n_vocab] there and the tokens before it."""

    def margin(self, logits: Logits, position: int, history: Sequence[int]) -> float:
        """By how much the choice beats the next best token, in logits; inf when there is none."""


class GreedyChooser:
    """The arg max of the row; of equal logits the lowest id."""

    def __init__(self, settings: SamplingSettings) -> None:
        self._settings = settings
        self.n_history = settings.n_history

    def choose(self, logits: Logits, position: int, history: Sequence[int]) -> int:
        """The token at `position`; the position plays no part."""
        return int(np.argmax(penalised(logits, history, self._settings)))

    def margin(self, logits: Logits, position: int, history: Sequence[int]) -> float:
        """The distance of the two largest logits, penalties applied."""
        return _top_two_distance(penalised(logits, history, self._settings))


class CoupledChooser:
    """A sample of the processed distribution, drawn with noise keyed by (seed, position, token)."""

    def __init__(self, settings: SamplingSettings, seed: int) -> None:
        self._settings = settings
        self._seed = seed
        self.n_history = settings.n_history

    def choose(self, logits: Logits, position: int, history: Sequence[int]) -> int:
        """The token at `position`: arg max of log weight + noise over the candidates."""
        found = candidates(logits, history, self._settings)
        if found.ids.size > _MANY:
            found = self._contenders(found, position)
        return int(found.ids[np.argmax(self._scores(found, position))])

    def margin(self, logits: Logits, position: int, history: Sequence[int]) -> float:
        """The distance of the two best scores times the temperature: so many logits."""
        found = candidates(logits, history, self._settings)
        return _top_two_distance(self._scores(found, position)) * self._settings.temp

    def _scores(self, found: Candidates, position: int) -> Weights:
        return found.log_weights + gumbel(self._seed, position, found.ids)

    def _contenders(self, found: Candidates, position: int) -> Candidates:
        """Those of `found` that can win: the likeliest, and of the others those with much noise.

        No other has a larger log weight than the least of the likeliest, so each needs the noise
        that takes it from there to their best score. About n / _N_LIKELIEST of n have it.
        """
        likely = top_k(found.logits, _N_LIKELIEST)
        likeliest = found.take(likely)
        needed = self._scores(likeliest, position).max() - likeliest.log_weights.min()
        lucky = _noisy(float(needed), self._seed, position, found.ids)
        return found.take(np.union1d(likely, lucky))


def make_chooser(settings: SamplingSettings, seed: int) -> Chooser:
    """Greedy at temperature 0, coupled sampling above it."""
    return GreedyChooser(settings) if settings.temp == 0 else CoupledChooser(settings, seed)


def gumbel(seed: int, position: int, ids: Ids) -> Weights:
    """Standard Gumbel noise for each token id, shape [n]: a function of its arguments alone."""
    return -np.log(-np.log(uniform(seed, position, ids)))


def uniform(seed: int, position: int, ids: Ids) -> Weights:
    """Uniform numbers in the open interval (0, 1) for each token id, shape [n].

    Token x gets output x of a SplitMix64 stream (Steele, Lea, Flood 2014) whose state is a hash
    of (seed, position). 52 bits plus a half: neither end can be reached.
    """
    return ((_words(seed, position, ids) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def _noisy(noise: float, seed: int, position: int, ids: Ids) -> Ids:
    """The indices of `ids` with Gumbel noise of `noise` or more, and hardly any other."""
    p = -math.expm1(-math.exp(1e-9 - noise))
    least = np.uint64(max(0, 2**64 - math.ceil(p * 2.0**64) - 2**11))
    found = [
        start + np.flatnonzero(_words(seed, position, ids[start : start + _BLOCK]) >= least)
        for start in range(0, ids.size, _BLOCK)
    ]
    return np.concatenate(found)


def _words(seed: int, position: int, ids: Ids) -> npt.NDArray[np.uint64]:
    state = _mix(_mix(seed & _MASK) + position * _GOLDEN)
    z = ids.astype(np.uint64) * np.uint64(_GOLDEN)
    z += np.uint64((state + _GOLDEN) & _MASK)
    z ^= z >> np.uint64(30)
    z *= np.uint64(_MIX_1)
    z ^= z >> np.uint64(27)
    z *= np.uint64(_MIX_2)
    z ^= z >> np.uint64(31)
    return z


def _top_two_distance(values: Logits | Weights) -> float:
    if values.size < 2:
        return float("inf")
    second, first = np.partition(values, values.size - 2)[-2:]
    return float(first - second)


def _mix(z: int) -> int:
    """SplitMix64's finaliser on a Python integer, modulo 2**64."""
    z &= _MASK
    z = ((z ^ (z >> 30)) * _MIX_1) & _MASK
    z = ((z ^ (z >> 27)) * _MIX_2) & _MASK
    return z ^ (z >> 31)
