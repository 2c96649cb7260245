"""Answers of earlier runs are kept for their own vocabulary, the latest only."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from spec_cli.earlier import N_KEPT, EarlierAnswers
from spec_cli.gguf import Vocabulary, read_header
from spec_cli.spec.lookup import BREAK
from spec_cli.state import StateStore
from tests.tiny_gguf import write_tiny_model


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    return read_header(write_tiny_model(path, seed=1)).vocab


@pytest.fixture
def state(tmp_path: Path) -> StateStore:
    return StateStore(tmp_path / "state")


def test_answers_are_kept_in_order_each_with_an_end(
    vocabulary: Vocabulary, state: StateStore
) -> None:
    EarlierAnswers(vocabulary, state=state).add([1, 2])
    EarlierAnswers(vocabulary, state=state).add([])
    EarlierAnswers(vocabulary, state=state).add([3])
    assert EarlierAnswers(vocabulary, state=state).load() == [1, 2, BREAK, 3, BREAK]


def test_only_the_latest_tokens_are_kept(vocabulary: Vocabulary, state: StateStore) -> None:
    answers = EarlierAnswers(vocabulary, state=state)
    answers.add([5] * 10)
    answers.add([7] * (N_KEPT - 3))
    assert answers.load() == [5, BREAK] + [7] * (N_KEPT - 3) + [BREAK]


def test_another_vocabulary_has_answers_of_its_own(
    vocabulary: Vocabulary, state: StateStore
) -> None:
    EarlierAnswers(vocabulary, state=state).add([1, 2])
    other = replace(vocabulary, pre="other")
    assert EarlierAnswers(other, state=state).load() == []


@pytest.mark.parametrize("value", [None, 3, {}, ["x"], [1.5], [-2], [10**9]])
def test_an_edited_file_is_as_good_as_none(
    vocabulary: Vocabulary, state: StateStore, tmp_path: Path, value: object
) -> None:
    answers = EarlierAnswers(vocabulary, state=state)
    answers.add([1, 2])
    (file,) = (tmp_path / "state" / "answers").iterdir()
    file.write_text(json.dumps({**json.loads(file.read_text()), "value": value}))
    assert answers.load() == []
