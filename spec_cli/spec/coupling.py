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

from typing import Protocol

import numpy as np

from spec_cli.spec.distribution import probability
from spec_cli.spec.interfaces import Drawn, Logits, Place, Weights
from spec_cli.spec.noise import gumbel, noise_at_least
from spec_cli.spec.sampling import Candidates, allowed_head, candidates, require_finite, shaped
from spec_cli.spec.selection import top_k
from spec_cli.spec.settings import SamplingSettings

_MANY = 4096  # candidates from which on it pays not to score them all
_N_LIKELIEST = 64


class Chooser(Protocol):
    """The one function by which every token, drafted or emitted, is chosen.

    Each method takes the logits [n_vocab] of the place.
    """

    @property
    def n_history(self) -> int:
        """How many of the last tokens the choice depends on."""

    def choose(self, logits: Logits, place: Place) -> int:
        """The token at `place`."""

    def draw(self, logits: Logits, place: Place) -> Drawn:
        """The same choice, and the probability that it has without noise."""

    def margin(self, logits: Logits, place: Place) -> float:
        """By how much the choice beats the next best token, in logits; inf when there is none."""


class GreedyChooser:
    """The arg max of the row, or of what is allowed of it; of equal logits the lowest id."""

    def __init__(self, settings: SamplingSettings) -> None:
        self._settings = settings
        self._weights: Logits | None = None
        self.n_history = settings.n_history

    def choose(self, logits: Logits, place: Place) -> int:
        """The token at `place`; its position plays no part."""
        row = shaped(logits, place.history, self._settings)
        token = int(row.argmax())
        if place.constraint is not None and not place.constraint.allows(np.array([token]))[0]:
            ids = allowed_head(row, 1, place.constraint)
            token = int(ids[row[ids].argmax()])
        require_finite(row[token])
        return token

    def draw(self, logits: Logits, place: Place) -> Drawn:
        """The choice, and its probability at temperature 1, among the likeliest allowed ones."""
        row = shaped(logits, place.history, self._settings)
        ids = None if place.constraint is None else allowed_head(row, 1, place.constraint)
        token = int(row.argmax() if ids is None else ids[row[ids].argmax()])
        require_finite(row[token])
        return Drawn(token, 1 / self._weight_of_all(row if ids is None else row[ids], row[token]))

    def _weight_of_all(self, row: Logits, maximum: np.floating) -> float:
        """The sum of exp(logit - maximum); in place, since a fresh row costs as much as the sum."""
        if self._weights is None or self._weights.size != row.size:
            self._weights = np.empty_like(row)
        np.subtract(row, maximum, out=self._weights)
        np.exp(self._weights, out=self._weights)
        return float(self._weights.sum())

    def margin(self, logits: Logits, place: Place) -> float:
        """The distance of the two largest logits, penalties applied."""
        row = shaped(logits, place.history, self._settings)
        if place.constraint is not None:
            row = row[allowed_head(row, 2, place.constraint)]
        return _top_two_distance(row)


class CoupledChooser:
    """A sample of the processed distribution, drawn with noise keyed by (seed, position, token)."""

    def __init__(self, settings: SamplingSettings, seed: int) -> None:
        self._settings = settings
        self._seed = seed
        self.n_history = settings.n_history

    def choose(self, logits: Logits, place: Place) -> int:
        """The token at `place`: arg max of log weight + noise, of equal ones the lowest id."""
        return self._best(self._candidates(logits, place), place.position)

    def draw(self, logits: Logits, place: Place) -> Drawn:
        """The choice, and the probability that it has in the processed distribution."""
        found = self._candidates(logits, place)
        token = self._best(found, place.position)
        return Drawn(token, probability(found.distribution(), token))

    def margin(self, logits: Logits, place: Place) -> float:
        """The distance of the two best scores times the temperature: so many logits."""
        found = self._candidates(logits, place)
        return _top_two_distance(self._scores(found, place.position)) * self._settings.temp

    def _candidates(self, logits: Logits, place: Place) -> Candidates:
        return candidates(logits, place.history, self._settings, place.constraint)

    def _best(self, found: Candidates, position: int) -> int:
        if found.ids.size > _MANY:
            found = self._contenders(found, position)
        return int(found.ids[self._scores(found, position).argmax()])

    def _scores(self, found: Candidates, position: int) -> Weights:
        return found.log_weights + gumbel(self._seed, position, found.ids)

    def _contenders(self, found: Candidates, position: int) -> Candidates:
        """Those of `found` that can have the best score, ascending; some may be there twice.

        They are the likeliest, and of the rest those with enough noise to reach the best score of
        the likeliest from the lowest log weight among these: n / _N_LIKELIEST or so, in any row.
        """
        likeliest = top_k(found.logits, _N_LIKELIEST)
        among = found.take(likeliest)
        enough = self._scores(among, position).max() - among.log_weights.min()
        noisy = noise_at_least(float(enough), self._seed, position, found.ids)
        return found.take(np.sort(np.concatenate((likeliest, noisy))))


def make_chooser(settings: SamplingSettings, seed: int) -> Chooser:
    """Greedy at temperature 0, coupled sampling above it."""
    return GreedyChooser(settings) if settings.temp == 0 else CoupledChooser(settings, seed)


def _top_two_distance(values: Logits | Weights) -> float:
    if values.size < 2:
        return float("inf")
    second, first = np.partition(values, values.size - 2)[-2:]
    return float(first - second)
