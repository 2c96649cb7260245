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

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from spec_cli.spec.interfaces import Ids, Logits, Weights
from spec_cli.spec.sampling import SamplingSettings, candidates, penalised

_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_MASK = 0xFFFFFFFFFFFFFFFF


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
        ids, scores = self._scores(logits, position, history)
        return int(ids[np.argmax(scores)])

    def margin(self, logits: Logits, position: int, history: Sequence[int]) -> float:
        """The distance of the two best scores times the temperature: so many logits."""
        return _top_two_distance(self._scores(logits, position, history)[1]) * self._settings.temp

    def _scores(self, logits: Logits, position: int, history: Sequence[int]) -> tuple[Ids, Weights]:
        found = candidates(logits, history, self._settings)
        return found.ids, found.log_weights + gumbel(self._seed, position, found.ids)


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
    state = _mix(_mix(seed & _MASK) + position * _GOLDEN)
    z = np.uint64(state) + (ids.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_MIX_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_MIX_2)
    z ^= z >> np.uint64(31)
    return ((z >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


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
