"""Which arms there are, in which groups and order they run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from spec_cli.bench.matrix import PLAIN, Arm, Group, Matrix, make_arms
from spec_cli.errors import UsageError
from spec_cli.prompts import NamedPrompt
from spec_cli.settings import DrafterKind
from spec_cli.spec.settings import Accept

PROMPTS = tuple(NamedPrompt(f"p{i}", "own", f"text {i}") for i in range(4))
COUPLED, BLOCK = Accept.COUPLED, Accept.BLOCK
ARMS = make_arms([DrafterKind.AUTO, DrafterKind.NGRAM], [COUPLED, BLOCK], [2, 8, None])
MATRIX = Matrix(PROMPTS, (0.0, 0.8), ARMS, max_tokens=8, n_rounds=3, seed=1)


def test_arms_are_every_combination_that_drafts() -> None:
    assert len(ARMS) == len(set(ARMS)) == 12
    assert make_arms([DrafterKind.AUTO], [COUPLED], [0, 4, 0, 4]) == (Arm(DrafterKind.AUTO, 4),)
    with pytest.raises(UsageError, match="nothing is left to compare"):
        make_arms([DrafterKind.AUTO], [COUPLED], [0])


@pytest.mark.parametrize(
    ("arm", "name", "options"),
    [
        (PLAIN, "plain", "--no-draft"),
        (Arm(DrafterKind.AUTO, 4), "k=4", "-k 4"),
        (Arm(DrafterKind.AUTO, None), "k=auto", "-k auto"),
        (
            Arm(DrafterKind.NGRAM, 3, BLOCK),
            "ngram k=3 block",
            "--drafter ngram -k 3 --accept block",
        ),
    ],
)
def test_an_arm_is_named_and_can_be_typed(arm: Arm, name: str, options: str) -> None:
    assert (arm.name, arm.options) == (name, options)


def test_greedy_arms_that_differ_in_their_rule_only_are_one() -> None:
    assert len(MATRIX.arms_at(0.8)) == 12
    greedy = MATRIX.arms_at(0.0)
    assert len(greedy) == 6 and {arm.accept for arm in greedy} == {COUPLED}


def test_every_group_is_there_once_and_rounds_follow_each_other() -> None:
    groups = MATRIX.groups()
    assert len(set(groups)) == len(groups) == 4 * 2 * 3
    assert [group.round for group in groups] == [0] * 8 + [1] * 8 + [2] * 8
    orders = [[(g.prompt, g.temp) for g in groups[i : i + 8]] for i in (0, 8, 16)]
    assert orders[0] != orders[1] != orders[2]
    assert Counter(orders[0]) == Counter(orders[1]) == Counter(orders[2])
    assert groups == MATRIX.groups() != replace(MATRIX, seed=2).groups()


def test_each_group_has_an_order_of_its_own_that_is_that_of_the_seed() -> None:
    group = Group(PROMPTS[0], 0.8, 0)
    order = MATRIX.order(group, ARMS)
    assert Counter(order) == Counter(ARMS)
    assert order == MATRIX.order(group, ARMS)
    others = [
        replace(group, prompt=PROMPTS[1]),
        replace(group, temp=0.0),
        replace(group, round=1),
        replace(group, attempt=1),
    ]
    assert all(MATRIX.order(other, ARMS) != order for other in others)
    assert replace(MATRIX, seed=2).order(group, ARMS) != order


def test_lengths_that_a_limit_makes_equal_are_measured_once() -> None:
    limited = MATRIX.limited(2)
    assert len(limited.arms) == 8
    assert {arm.draft_tokens for arm in limited.arms} == {2, None}
    assert MATRIX.limited(8) == MATRIX


def test_a_generation_has_the_rule_of_its_arm() -> None:
    generation = MATRIX.generation(0.8, Arm(DrafterKind.AUTO, 4, BLOCK))
    assert (generation.accept, generation.sampling.temp) == (BLOCK, 0.8)
    assert (generation.max_tokens, generation.seed) == (8, 1)


@pytest.mark.parametrize(
    "wrong", [{"max_tokens": 0}, {"n_rounds": 0}, {"temps": (0.8, -1.0)}, {"seed": -1}]
)
def test_a_matrix_that_cannot_be_run_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        replace(MATRIX, **wrong)  # type: ignore[arg-type]
