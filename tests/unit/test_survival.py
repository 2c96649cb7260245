"""Acceptance by evidence: priors, learning, and the order of the levels."""

from __future__ import annotations

import numpy as np
import pytest

from spec_cli.spec.interfaces import Evidence, Source
from spec_cli.spec.lookup import Copy
from spec_cli.spec.survival import (
    CONFIDENCES,
    N_COPY_LEVELS,
    N_MODEL_LEVELS,
    Survival,
    copy_evidence,
    model_evidence,
)

SURE = model_evidence(0.97)


def test_each_confidence_has_its_level() -> None:
    levels = [model_evidence(c).level for c in (0.0, *CONFIDENCES, 1.0)]
    assert levels == [0, 1, 2, 3, 4, 5, 6, 7, 7]


def test_longer_and_undisputed_matches_have_higher_levels() -> None:
    levels = [
        copy_evidence(Copy(0, length, *votes)).level
        for length in (2, 3, 4, 6, 9, 16)
        for votes in ((1, 2), (1, 1), (2, 2))
    ]
    assert levels == list(range(N_COPY_LEVELS))


@pytest.mark.parametrize(("source", "n"), [(Source.MODEL, N_MODEL_LEVELS), (Source.COPY, 18)])
def test_every_level_has_a_prior_that_is_a_probability(source: Source, n: int) -> None:
    found = [Survival().acceptance(Evidence(source, level)) for level in range(n)]
    assert all(0 < a < 1 for a in found)


def test_what_became_of_guesses_moves_their_level_and_no_other() -> None:
    survival, fresh = Survival(), Survival()
    for _ in range(40):
        survival.learn(SURE, accepted=False)
    assert survival.acceptance(SURE) < 0.2
    for level in range(N_MODEL_LEVELS):
        other = Evidence(Source.MODEL, level)
        if other != SURE:
            assert survival.acceptance(other) == fresh.acceptance(other)


def test_old_outcomes_fade() -> None:
    survival = Survival()
    for accepted in [False] * 1000 + [True] * 300:
        survival.learn(SURE, accepted=accepted)
    assert survival.acceptance(SURE) > 0.85


def test_the_levels_of_a_draft_are_learned_as_a_chain() -> None:
    survival = Survival()
    low, high = model_evidence(0.1), model_evidence(0.999)
    for _ in range(200):
        survival.learn_levels([high, high, low])
    follows = survival.following()
    assert follows.shape == (N_MODEL_LEVELS + 1, N_MODEL_LEVELS)
    assert np.allclose(follows.sum(axis=1), 1)
    assert follows[N_MODEL_LEVELS].argmax() == high.level
    assert follows[high.level, high.level] == pytest.approx(0.5, abs=0.1)
    assert follows[high.level, low.level] == pytest.approx(0.5, abs=0.1)


def test_after_a_copy_the_model_starts_anew() -> None:
    survival = Survival()
    copy, high = Evidence(Source.COPY, 4), model_evidence(0.999)
    for _ in range(200):
        survival.learn_levels([copy, high])
    assert survival.following()[N_MODEL_LEVELS, high.level] > 0.8
