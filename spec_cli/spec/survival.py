"""How likely a guess is to be accepted, learned from what became of others like it.

Guesses are sorted into levels: those of the draft model by the probability it gives to them, copies
by the length of the match and the vote on what follows it. For each level the acceptance given
that the guess before was accepted is a Beta mean with fading counts, so it follows the text; its
prior is what was measured on the default pair (docs/performance.md), or what a pair has shown in
earlier runs: how well two models agree lasts, what copies are worth is the text's own.

How sure a model is of its next guess depends on how sure it was of the last, so the levels of a
draft are modelled as a Markov chain, learned in the same way.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spec_cli.spec.interfaces import Evidence, Source, Weights
from spec_cli.spec.lookup import Copy

CONFIDENCES = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99)  # where the next level of a model guess begins
LENGTHS = (3, 4, 6, 9, 16)  # where the next level of a match begins
N_MODEL_LEVELS = len(CONFIDENCES) + 1
N_VOTES = 3  # split, undisputed, unanimous
N_COPY_LEVELS = N_VOTES * (len(LENGTHS) + 1)

_MEMORY = 128.0  # guesses of one level after which older ones fade
_PRIOR_WEIGHT = 8.0
_COPY_PRIOR = (
    *(0.20, 0.45, 0.80),
    *(0.20, 0.57, 0.85),
    *(0.25, 0.72, 0.90),
    *(0.25, 0.80, 0.93),
    *(0.35, 0.90, 0.95),
    *(0.50, 0.95, 0.97),
)
_FOLLOWING_WEIGHT = 16.0
_DEFAULT_WEIGHT = 32.0  # guesses of a level that the measured prior counts for against a tally


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of guesses of a draft model, each counted once.

    `judged` and `accepted` count them by level, shape [N_MODEL_LEVELS]; `following` counts the
    levels by that of the guess before, shape [N_MODEL_LEVELS + 1, N_MODEL_LEVELS], the last row
    where there is none.
    """

    judged: Weights
    accepted: Weights
    following: Weights

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.judged + other.judged,
            self.accepted + other.accepted,
            self.following + other.following,
        )

    def __mul__(self, share: float) -> Tally:
        return Tally(share * self.judged, share * self.accepted, share * self.following)


def no_tally() -> Tally:
    """The tally of no guesses."""
    n = N_MODEL_LEVELS
    return Tally(np.zeros(n), np.zeros(n), np.zeros((n + 1, n)))


@dataclass(frozen=True, slots=True)
class Prior:
    """What is known of model guesses before the first one: their acceptance by level, and in
    percent the level of a guess by that of the one before; the last row: where there is none."""

    acceptance: tuple[float, ...]
    following: tuple[tuple[float, ...], ...]

    def after(self, tally: Tally) -> Prior:
        """This prior, as the outcomes of `tally` correct it."""
        accepted = _DEFAULT_WEIGHT * np.array(self.acceptance) + tally.accepted
        shares = np.array(self.following)
        follows = 2 * _DEFAULT_WEIGHT * shares / shares.sum(axis=1, keepdims=True) + tally.following
        percent = 100 * follows / follows.sum(axis=1, keepdims=True)
        return Prior(
            tuple((accepted / (_DEFAULT_WEIGHT + tally.judged)).tolist()),
            tuple(tuple(row) for row in percent.tolist()),
        )


GREEDY = Prior(
    acceptance=(0.26, 0.49, 0.67, 0.81, 0.90, 0.95, 0.985, 0.998),
    following=(
        (25, 21, 21, 7, 7, 3, 8, 8),
        (13, 22, 21, 8, 10, 5, 9, 12),
        (10, 16, 18, 9, 10, 9, 12, 16),
        (6, 12, 16, 6, 13, 7, 14, 26),
        (8, 13, 16, 5, 11, 7, 14, 26),
        (6, 10, 15, 7, 10, 5, 15, 32),
        (4, 8, 10, 5, 7, 5, 16, 45),
        (2, 3, 5, 3, 4, 4, 11, 68),
        (14, 19, 18, 7, 10, 7, 11, 14),
    ),
)
SAMPLED = Prior(  # the filters leave many a token alone: confidence 1, though the target's may not
    acceptance=(0.38, 0.53, 0.60, 0.73, 0.73, 0.82, 0.87, 0.985),
    following=(
        (36, 13, 9, 8, 3, 6, 2, 23),
        (27, 8, 6, 7, 6, 3, 3, 40),
        (17, 12, 10, 4, 10, 4, 4, 39),
        (23, 6, 6, 6, 13, 4, 3, 39),
        (17, 7, 7, 5, 6, 6, 3, 49),
        (19, 9, 11, 2, 9, 3, 3, 44),
        (14, 6, 12, 4, 3, 2, 4, 55),
        (5, 4, 4, 3, 4, 3, 1, 76),
        (27, 11, 12, 5, 6, 5, 4, 30),
    ),
)


def model_evidence(confidence: float) -> Evidence:
    """The evidence for a guess that the draft model gives this probability."""
    return Evidence(Source.MODEL, bisect_right(CONFIDENCES, confidence))


def copy_evidence(copy: Copy) -> Evidence:
    """The evidence for a copied token."""
    is_split = copy.n_votes < copy.n_matches
    votes = 0 if is_split else min(copy.n_matches, N_VOTES - 1)
    return Evidence(Source.COPY, N_VOTES * bisect_right(LENGTHS, copy.length) + votes)


def copy_prior(evidence: Evidence) -> float:
    """The acceptance of a copied token before anything was learned."""
    return _COPY_PRIOR[evidence.level]


class Survival:
    """Acceptance by evidence, and how the levels of a draft follow each other."""

    def __init__(self, prior: Prior = GREEDY) -> None:
        self._accepted: dict[Source, Weights] = {}
        self._judged: dict[Source, Weights] = {}
        for source, share in ((Source.MODEL, prior.acceptance), (Source.COPY, _COPY_PRIOR)):
            self._judged[source] = np.full(len(share), _PRIOR_WEIGHT)
            self._accepted[source] = _PRIOR_WEIGHT * np.array(share)
        self._follows = _FOLLOWING_WEIGHT / 100 * np.array(prior.following, dtype=np.float64)
        self.tally = no_tally()  # of this run

    def acceptance(self, evidence: Evidence) -> float:
        """The estimated acceptance probability of a guess, given that the one before held."""
        source, level = evidence.source, evidence.level
        return float(self._accepted[source][level] / self._judged[source][level])

    def model_acceptance(self) -> Weights:
        """The acceptance of each level of model guesses, shape [N_MODEL_LEVELS]."""
        return self._accepted[Source.MODEL] / self._judged[Source.MODEL]

    def following(self) -> Weights:
        """The probability of a model guess's level by that of the guess before.

        Shape [N_MODEL_LEVELS + 1, N_MODEL_LEVELS]; the last row is for the first of a draft.
        """
        shares: Weights = self._follows / self._follows.sum(axis=1, keepdims=True)
        return shares

    def learn(self, evidence: Evidence, *, accepted: bool) -> None:
        """A guess was judged, after one that held."""
        source, level = evidence.source, evidence.level
        fade = 1 - 1 / _MEMORY
        self._judged[source][level] = self._judged[source][level] * fade + 1
        self._accepted[source][level] = self._accepted[source][level] * fade + accepted
        if source is Source.MODEL:
            self.tally.judged[level] += 1
            self.tally.accepted[level] += accepted

    def learn_levels(self, evidence: Sequence[Evidence], before: int = N_MODEL_LEVELS) -> None:
        """The guesses of one draft, as far as they were judged; those of the model count.

        `before` is the level of the guess before them, where that held.
        """
        for guess in evidence:
            if guess.source is Source.MODEL:
                self._follows[before] *= 1 - 1 / _MEMORY
                self._follows[before, guess.level] += 1
                self.tally.following[before, guess.level] += 1
                before = guess.level
            else:
                before = N_MODEL_LEVELS
