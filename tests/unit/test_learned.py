"""What a pair has shown in earlier runs corrects the prior, and decides nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from spec_cli.learned import LearnedAcceptance
from spec_cli.spec.interfaces import Evidence, Source
from spec_cli.spec.survival import GREEDY, N_MODEL_LEVELS, Survival, model_evidence
from spec_cli.state import StateStore

SURE = model_evidence(0.999)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "target.gguf", tmp_path / "draft.gguf"
    for path in paths:
        path.write_bytes(b"weights")
    return paths


@pytest.fixture
def learned(files: tuple[Path, Path], tmp_path: Path) -> LearnedAcceptance:
    return LearnedAcceptance(*files, state=StateStore(tmp_path / "state"))


def shown(n_held: int, n_wrong: int) -> Survival:
    survival = Survival()
    for i in range(n_held + n_wrong):
        survival.learn(SURE, accepted=i < n_held)
        survival.learn_levels([SURE])
    return survival


def test_without_earlier_runs_the_prior_is_the_measured_one(learned: LearnedAcceptance) -> None:
    found = learned.prior(GREEDY, "greedy")
    assert np.allclose(found.acceptance, GREEDY.acceptance)
    shares = np.array(GREEDY.following, dtype=float)
    assert np.allclose(found.following, 100 * shares / shares.sum(axis=1, keepdims=True))


def test_a_level_that_failed_before_starts_lower_and_no_other_does(
    learned: LearnedAcceptance,
) -> None:
    learned.add(shown(0, 96).tally, "greedy")
    found = learned.prior(GREEDY, "greedy").acceptance
    assert found[SURE.level] == pytest.approx(32 * GREEDY.acceptance[SURE.level] / 128)
    assert np.allclose(found[: SURE.level], GREEDY.acceptance[: SURE.level])


def test_runs_add_up(learned: LearnedAcceptance, files: tuple[Path, Path], tmp_path: Path) -> None:
    learned.add(shown(10, 0).tally, "greedy")
    again = LearnedAcceptance(*files, state=StateStore(tmp_path / "state"))
    again.add(shown(0, 10).tally, "greedy")
    at_once = shown(10, 10).tally
    assert again.prior(GREEDY, "greedy") == GREEDY.after(at_once)


def test_a_prior_is_made_of_probabilities_whatever_was_shown(learned: LearnedAcceptance) -> None:
    for _ in range(30):
        learned.add(shown(500, 0).tally, "greedy")
    found = learned.prior(GREEDY, "greedy")
    assert all(0 < a < 1 for a in found.acceptance)
    following = np.array(found.following)
    assert following.shape == (N_MODEL_LEVELS + 1, N_MODEL_LEVELS)
    assert np.allclose(following.sum(axis=1), 100)
    assert Survival(found).acceptance(SURE) > 0.99


def test_what_was_shown_long_ago_fades(learned: LearnedAcceptance) -> None:
    learned.add(shown(0, 4000).tally, "greedy")
    for _ in range(8):
        learned.add(shown(4000, 0).tally, "greedy")
    assert learned.prior(GREEDY, "greedy").acceptance[SURE.level] > 0.95


def test_rules_and_files_have_each_their_own(
    learned: LearnedAcceptance, files: tuple[Path, Path], tmp_path: Path
) -> None:
    learned.add(shown(0, 96).tally, "greedy")
    untouched = learned.prior(GREEDY, "coupled")
    assert np.allclose(untouched.acceptance, GREEDY.acceptance)
    files[1].write_bytes(b"other weights")
    other = LearnedAcceptance(*files, state=StateStore(tmp_path / "state"))
    assert np.allclose(other.prior(GREEDY, "greedy").acceptance, GREEDY.acceptance)


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        3,
        {"judged": [1], "accepted": [1], "following": [[1]]},
        {"judged": [1] * 8, "accepted": [2] * 8, "following": [[0] * 8] * 9},
        {"judged": [-1] * 8, "accepted": [-2] * 8, "following": [[0] * 8] * 9},
        {"judged": [float("nan")] * 8, "accepted": [0] * 8, "following": [[0] * 8] * 9},
        {"judged": ["x"] * 8, "accepted": [0] * 8, "following": [[0] * 8] * 9},
        {"judged": [10**400] * 8, "accepted": [0] * 8, "following": [[0] * 8] * 9},
        {"judged": [1e308] * 8, "accepted": [0] * 8, "following": [[1e308] * 8] * 9},
    ],
)
def test_an_edited_file_is_as_good_as_none(
    learned: LearnedAcceptance, tmp_path: Path, value: object
) -> None:
    learned.add(shown(0, 96).tally, "greedy")
    (file,) = (tmp_path / "state" / "acceptance").iterdir()
    entry = json.loads(file.read_text())
    file.write_text(json.dumps({**entry, "value": value}))
    assert np.allclose(learned.prior(GREEDY, "greedy").acceptance, GREEDY.acceptance)


def test_copies_are_the_text_s_own_and_are_not_tallied() -> None:
    survival = Survival()
    survival.learn(Evidence(Source.COPY, 4), accepted=True)
    survival.learn_levels([Evidence(Source.COPY, 4)])
    assert not survival.tally.judged.any() and not survival.tally.following.any()
