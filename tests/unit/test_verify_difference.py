"""A difference is a near-tie only where the two rows explain it and differ by rounding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spec_cli.settings import GenerationSettings
from spec_cli.spec.acceptance import MatchRule, make_rule
from spec_cli.spec.costs import PassTimes
from spec_cli.spec.exactness import DEFAULT_KERNELS, ExactnessPlan
from spec_cli.spec.interfaces import NO_DRAFT, Draft, Drawn, Logits, Verdict
from spec_cli.spec.settings import SamplingSettings
from spec_cli.verify.difference import Difference, Judge, end_difference, largest_difference
from spec_cli.verify.recorder import Departure, Recorder

FAST = ExactnessPlan(DEFAULT_KERNELS, None, 0.0, 0.25, PassTimes((1,), (1.0,)))
EXACT = replace(FAST, widths=(1, 2, 4))
GREEDY = GenerationSettings(0, SamplingSettings(temp=0))
SAMPLED = GenerationSettings(5, SamplingSettings(temp=0.8, top_k=0, top_p=1, min_p=0))
N_CONTEXT, AT = 30, 7

PLAIN_ROW = np.array([0.0, 2.0, 1.75, -np.inf], dtype=np.float32)
OTHER_ROW = np.array([0.25, 1.75, 2.0, -np.inf], dtype=np.float32)


def judged(
    plain_row: Logits = PLAIN_ROW,
    row: Logits = OTHER_ROW,
    *,
    known: int = 1,
    token: int = 2,
    plan: ExactnessPlan = FAST,
    generation: GenerationSettings = GREEDY,
) -> Difference:
    judge = Judge(generation, plan, N_CONTEXT)
    return judge.difference(known, Departure(AT, token, row), Departure(AT, known, plain_row))


def test_rows_that_differ_by_rounding_and_explain_both_tokens_are_a_near_tie() -> None:
    found = judged()
    assert found.is_near_tie
    assert (found.position, found.plain, found.speculative) == (AT, 1, 2)
    assert (found.margin, found.row_difference) == (0.25, 0.25)


def test_in_exact_mode_no_difference_is_a_near_tie() -> None:
    found = judged(plan=EXACT)
    assert not found.is_near_tie
    assert "found to give equal bits" in found.reason
    assert found.row_difference == 0.25


@pytest.mark.parametrize(("shift", "is_near_tie"), [(0.5, True), (0.501, False)])
def test_the_bound_is_twice_what_the_probe_saw(shift: float, is_near_tie: bool) -> None:
    found = judged(row=PLAIN_ROW + np.array([0, 0, shift, 0], np.float32))
    assert found.is_near_tie is is_near_tie
    assert is_near_tie or "differ by more than 0.5" in found.reason


def test_a_token_that_its_row_does_not_give_is_not_explained() -> None:
    assert judged(row=PLAIN_ROW).reason.startswith(
        "the rule, applied to the row of the speculative"
    )
    assert judged(token=0).reason.startswith("the rule, applied to the row of the speculative")
    assert judged(OTHER_ROW, OTHER_ROW).reason.startswith("the rule, applied to the row of plain")
    assert not judged(row=PLAIN_ROW).is_near_tie


def test_a_token_that_only_one_row_forbids_is_no_near_tie_and_has_no_figure() -> None:
    row = OTHER_ROW.copy()
    row[0] = -np.inf
    found = judged(row=row)
    assert not found.is_near_tie
    assert found.row_difference is None


@pytest.mark.parametrize(
    "again", [None, Departure(AT - 1, 1, PLAIN_ROW), Departure(AT, 0, PLAIN_ROW)]
)
def test_plain_decoding_that_does_not_repeat_itself_is_no_near_tie(
    again: Departure | None,
) -> None:
    judge = Judge(GREEDY, FAST, N_CONTEXT)
    found = judge.difference(1, Departure(AT, 2, OTHER_ROW), again)
    assert not found.is_near_tie and "run again" in found.reason
    assert (found.margin, found.row_difference) == (None, None)


def choice(row: Logits, generation: GenerationSettings = SAMPLED) -> int:
    rule = make_rule(generation.accept, generation.sampling, generation.seed)
    return rule.verify(row[np.newaxis], NO_DRAFT, range(N_CONTEXT)).tokens[0]


def tie(n: int = 6) -> tuple[Logits, Logits, int, int, float]:
    """Two rows of which the second is the first with the runner-up raised until it wins."""
    row = np.random.default_rng(3).normal(size=n).astype(np.float32)
    first = choice(row)
    for step in np.arange(0.01, 3, 0.01, dtype=np.float32):
        for other in set(range(n)) - {first}:
            raised = row.copy()
            raised[other] += step
            if choice(raised) == other:
                return row, raised, first, other, float(step)
    raise AssertionError("no token wins")


def test_the_margin_of_a_sampled_choice_is_in_logits() -> None:
    row, raised, first, other, step = tie()
    plan = replace(FAST, max_difference=step)
    found = judged(row, raised, known=first, token=other, plan=plan, generation=SAMPLED)
    assert found.is_near_tie
    assert found.margin is not None and step - 0.0101 < found.margin <= step


def test_a_token_that_the_filters_drop_has_no_margin() -> None:
    row, raised, _, other, _ = tie()
    low = row.copy()
    low[other] = -20  # below min-p of plain's row
    filtered = replace(SAMPLED, sampling=SamplingSettings(temp=0.8))
    found = judged(low, raised, known=choice(low, filtered), token=other, generation=filtered)
    assert found.margin is None


def test_rows_are_compared_where_they_differ() -> None:
    assert largest_difference(PLAIN_ROW, PLAIN_ROW) == 0
    assert largest_difference(PLAIN_ROW, OTHER_ROW) == 0.25
    assert largest_difference(PLAIN_ROW, np.zeros(4, np.float32)) == np.inf
    assert np.isnan(largest_difference(PLAIN_ROW, np.full(4, np.nan, np.float32)))


def test_a_text_that_ends_early_differs_where_it_ends() -> None:
    longer = end_difference((4, 5, 6), (4, 5))
    assert (longer.position, longer.plain, longer.speculative) == (2, 6, None)
    shorter = end_difference((4,), (4, 5))
    assert (shorter.position, shorter.plain, shorter.speculative) == (1, None, 5)
    same = end_difference((4, 5), (4, 5))
    assert (same.position, same.plain, same.speculative) == (2, None, None)
    assert not (longer.is_near_tie or shorter.is_near_tie or same.is_near_tie)
    assert longer.reason != same.reason


class _Verdicts:
    """A rule that says what it is told to."""

    n_history = 3
    samples_drafts = False

    def __init__(self, *verdicts: tuple[int, ...]) -> None:
        self._verdicts = iter(verdicts)

    def draw(self, logits: Logits, position: int, history: object) -> Drawn:
        return Drawn(position, 0.5)

    def verify(self, rows: Logits, draft: Draft, context: object) -> Verdict:
        return Verdict(next(self._verdicts))


def test_the_recorder_copies_the_row_where_a_verdict_first_departs() -> None:
    recorder = Recorder(_Verdicts((7,), (8, 9), (1, 1)), n_prompt=2, known=(7, 8, 4, 5))
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert recorder.n_history == 3
    assert recorder.draw(rows[0], 11, ()) == Drawn(11, 0.5)
    assert recorder.verify(rows[:1], NO_DRAFT, [0, 0]) == Verdict((7,))
    assert recorder.departure is None
    assert recorder.verify(rows, NO_DRAFT, [0, 0, 7]) == Verdict((8, 9))
    found = recorder.departure
    rows[:] = 0  # as the next pass overwrites them
    assert found is not None and (found.position, found.token) == (2, 9)
    np.testing.assert_array_equal(found.row, [4, 5, 6, 7])
    recorder.verify(rows, NO_DRAFT, [0, 0, 7, 8, 9])
    assert recorder.departure is found


def test_tokens_beyond_the_known_text_are_no_departure() -> None:
    recorder = Recorder(_Verdicts((7, 8, 9)), n_prompt=1, known=(7, 8))
    recorder.verify(np.zeros((3, 4), np.float32), NO_DRAFT, [0])
    assert recorder.departure is None


def test_the_rule_that_judges_is_the_rule_that_decodes() -> None:
    rule = make_rule(SAMPLED.accept, SAMPLED.sampling, SAMPLED.seed)
    assert isinstance(rule, MatchRule)
    row = np.random.default_rng(1).normal(size=50).astype(np.float32)
    assert rule.verify(row[np.newaxis], NO_DRAFT, [0] * N_CONTEXT).tokens == (choice(row),)
