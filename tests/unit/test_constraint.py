"""Choosing under a constraint is choosing from a masked row; states are found where they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.errors import UsageError
from spec_cli.spec.constraint import N_KEPT, ConstrainedText
from spec_cli.spec.coupling import make_chooser
from spec_cli.spec.interfaces import Logits, Place
from spec_cli.spec.sampling import NothingAllowed, allowed_head, candidates
from spec_cli.spec.settings import SamplingSettings
from tests.toy_constraint import Tokens, Toy

NO_FILTER = SamplingSettings(temp=1.0, top_k=0, top_p=1.0, min_p=0.0)
SETTINGS = [
    SamplingSettings(temp=0),
    SamplingSettings(temp=0, repeat_penalty=1.5, presence_penalty=0.5),
    SamplingSettings(),
    SamplingSettings(top_k=3, temp=1.7),
    SamplingSettings(top_k=700, top_p=0.99, min_p=0.0),
    SamplingSettings(repeat_penalty=1.3, frequency_penalty=0.3, logit_bias=((1, 4.0), (2, -3.0))),
    NO_FILTER,
    replace(NO_FILTER, top_p=0.9),
    replace(NO_FILTER, min_p=0.1),
]


def a_row(seed: int, n: int, *, ties: bool) -> Logits:
    values = 3 * np.random.default_rng(seed).normal(size=n)
    return (np.round(values) if ties else values).astype(np.float32)


def a_toy(seed: int, n: int, share: float) -> Toy:
    """Allows a share of the ids, one at least."""
    rng = np.random.default_rng(seed + 1)
    allowed = {*np.flatnonzero(rng.random(n) < share).tolist(), int(rng.integers(n))}
    return Toy(lambda tokens, x: x in allowed, n)


@given(
    seed=st.integers(0, 10**6),
    n=st.sampled_from([3, 60, 500, 3000]),
    share=st.sampled_from([0.0, 0.001, 0.02, 0.3, 0.9, 1.0]),
    ties=st.booleans(),
    settings=st.sampled_from(SETTINGS),
    position=st.integers(0, 5),
)
def test_a_choice_under_a_constraint_is_that_from_a_masked_row(
    seed: int, n: int, share: float, ties: bool, settings: SamplingSettings, position: int
) -> None:
    row, toy, history = a_row(seed, n, ties=ties), a_toy(seed, n, share), [1, 2, 1]
    before = row.copy()
    chooser = make_chooser(settings, seed)
    masked = toy.masked(row)
    token = chooser.choose(masked, Place(position, history))
    assert chooser.choose(row, Place(position, history, toy)) == token
    assert chooser.draw(row, Place(position, history, toy)).token == token
    if settings.temp:
        found = candidates(row, history, settings, toy).distribution()
        expected = candidates(masked, history, settings).distribution()
        assert found.ids.tolist() == expected.ids.tolist()
        assert found.probabilities == pytest.approx(expected.probabilities, rel=1e-12)
    margin = chooser.margin(masked, Place(position, history))
    assert chooser.margin(row, Place(position, history, toy)) == pytest.approx(margin, rel=1e-9)
    assert (row == before).all()


@given(
    seed=st.integers(0, 10**6),
    share=st.sampled_from([0.0, 0.02, 0.5]),
    k=st.sampled_from([0, 1, 40, 700, 5000]),
)
def test_the_head_holds_the_largest_allowed_logits(seed: int, share: float, k: int) -> None:
    row, toy = a_row(seed, 3000, ties=True), a_toy(seed, 3000, share)
    allowed = toy.allowed()
    ranked = allowed[np.argsort(-row[allowed], kind="stable")]
    head = allowed_head(row, k, toy).tolist()
    assert head == sorted(set(head))
    assert {*ranked[: k or None].tolist()} <= {*head} <= {*allowed.tolist()}


@pytest.mark.parametrize("settings", [SamplingSettings(temp=0), SamplingSettings()])
def test_few_tokens_are_judged_where_the_model_wants_what_is_allowed(
    settings: SamplingSettings,
) -> None:
    row = a_row(1, 100_000, ties=False)
    toy = Toy(lambda tokens, x: x != 5, row.size)
    make_chooser(settings, 1).choose(row, Place(0, constraint=toy))
    assert toy.asked["judged"] <= 80
    assert toy.asked["listed"] == 0


@pytest.mark.parametrize(("k", "n_judged"), [(0, 0), (1, 64 + 1024), (700, 1400), (2**31 - 1, 0)])
def test_no_head_is_judged_twice_and_none_that_is_the_whole_row(k: int, n_judged: int) -> None:
    toy = Toy(lambda tokens, x: False, 3000)
    with pytest.raises(NothingAllowed):
        allowed_head(a_row(1, 3000, ties=False), k, toy)
    assert (toy.asked["judged"], toy.asked["listed"]) == (n_judged, 1)


def test_a_greedy_choice_that_is_allowed_asks_for_nothing_else() -> None:
    row = a_row(1, 1000, ties=False)
    toy = Toy(lambda tokens, x: True, row.size)
    make_chooser(SamplingSettings(temp=0), 1).choose(row, Place(0, constraint=toy))
    assert toy.asked == {"judged": 1}


@pytest.mark.parametrize("settings", [SamplingSettings(temp=0), SamplingSettings(), NO_FILTER])
def test_where_nothing_is_allowed_that_is_said(settings: SamplingSettings) -> None:
    row = a_row(1, 100, ties=False)
    chooser = make_chooser(settings, 1)
    with pytest.raises(NothingAllowed, match="no token of this model"):
        chooser.choose(row, Place(0, constraint=Toy(lambda tokens, x: False, 100)))
    forbidden = make_chooser(replace(settings, logit_bias=((7, -np.inf),)), 1)
    with pytest.raises(NothingAllowed):
        forbidden.choose(row, Place(0, constraint=Toy(lambda tokens, x: x == 7, 100)))


def test_ids_beyond_the_row_of_a_smaller_draft_model_are_left_out() -> None:
    toy = Toy(lambda tokens, x: x >= 6, 10)
    row = np.zeros(8, dtype=np.float32)
    assert allowed_head(row, 0, toy).tolist() == [6, 7]
    with pytest.raises(NothingAllowed):
        allowed_head(row[:6], 1, toy)


def after_each_other(n_vocab: int = 5) -> Toy:
    """No token twice in a row."""
    return Toy(lambda tokens, x: not tokens or tokens[-1] != x, n_vocab)


def led_to(text: ConstrainedText, position: int, history: Sequence[int]) -> Tokens:
    """The generated tokens that the state at a place has seen."""
    state = text.at(position, history)
    assert isinstance(state, Toy)
    return state.tokens


def test_the_state_of_each_place_is_found_before_and_after_a_commit() -> None:
    text = ConstrainedText(after_each_other(), n_prompt=10)
    assert text.at(10, []) is text.at(10, [4, 4])  # the prompt is not looked at
    assert led_to(text, 12, [9, 1, 2]) == (1, 2)
    text.commit([1, 3])
    assert led_to(text, 12, [1, 3]) == (1, 3)
    assert led_to(text, 11, [1]) == (1,)
    assert led_to(text, 10, []) == ()
    assert led_to(text, 13, [4]) == (1, 3, 4)


def test_a_state_is_made_once_and_a_rejected_draft_leaves_none() -> None:
    toy = after_each_other()
    text = ConstrainedText(toy, n_prompt=3)
    assert text.n_allowed([1], [2, 3, 3, 4]) == 2
    assert toy.asked["advanced"] == 3
    text.at(5, [1, 2])
    assert toy.asked["advanced"] == 3
    text.commit([1, 4])
    assert toy.asked["advanced"] == 4
    assert text.n_allowed([], [4]) == 0
    assert text.n_allowed([2], []) == 0


def test_a_long_text_keeps_a_bounded_number_of_states() -> None:
    text = ConstrainedText(after_each_other(), n_prompt=0)
    for i in range(3 * N_KEPT):
        text.commit([1 + i % 2])
    assert len(led_to(text, 3 * N_KEPT, [])) == 3 * N_KEPT
    assert len(led_to(text, 2 * N_KEPT + 1, [])) == 2 * N_KEPT + 1
    with pytest.raises(IndexError):
        text.at(2 * N_KEPT, [])


def test_a_bias_is_added_before_everything_else() -> None:
    row = np.array([0, 1, 2, 3], dtype=np.float32)
    settings = replace(NO_FILTER, top_k=2, logit_bias=((0, 5.0), (3, -np.inf), (99, 1.0)))
    found = candidates(row, [], settings)
    assert found.ids.tolist() == [0, 2] and found.logits.tolist() == [5, 2]
    assert row.tolist() == [0, 1, 2, 3]
    penalised = replace(settings, repeat_penalty=2.0)
    assert candidates(row, [0], penalised).logits.tolist() == [2.5, 2]
    assert make_chooser(replace(settings, temp=0), 1).choose(row, Place(0)) == 0


@pytest.mark.parametrize("bias", [float("inf"), float("nan")])
def test_a_bias_that_would_decide_everything_is_refused(bias: float) -> None:
    with pytest.raises(UsageError, match="--logit-bias gives token 3"):
        SamplingSettings(logit_bias=((3, bias),))
