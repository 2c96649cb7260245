"""The filters against plain definitions, and the coupled choice against the distribution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.errors import UsageError
from spec_cli.spec.coupling import CoupledChooser, GreedyChooser, gumbel, make_chooser, uniform
from spec_cli.spec.interfaces import Logits
from spec_cli.spec.sampling import SamplingSettings, candidates, min_p, penalised, top_k, top_p

rows = st.lists(st.integers(-40, 40).map(lambda i: i / 4), min_size=1, max_size=40).map(
    lambda values: np.array(values, dtype=np.float32)
)
NO_FILTER = SamplingSettings(temp=1.0, top_k=0, top_p=1.0, min_p=0.0)


def ranked(row: Logits) -> list[int]:
    """Ids by falling logit; of equal ones the lower id first."""
    return sorted(range(row.size), key=lambda i: (-row[i], i))


@given(row=rows, k=st.integers(0, 45))
def test_top_k_keeps_the_k_largest_and_of_equals_the_lowest_ids(row: Logits, k: int) -> None:
    expected = ranked(row)[:k] if 0 < k < row.size else range(row.size)
    assert top_k(row, k).tolist() == sorted(expected)


@given(row=rows, p=st.floats(0.01, 0.99))
def test_top_p_keeps_the_shortest_head_with_that_much_probability(row: Logits, p: float) -> None:
    ids = np.arange(row.size)
    weights = np.exp(row.astype(np.float64) - row.max())
    order = ranked(row)
    totals = np.cumsum(weights[order]) / weights.sum()
    kept = top_p(row, ids, p).tolist()
    assert kept == sorted(order[: len(kept)])
    assert totals[len(kept) - 1] >= p - 1e-9
    assert len(kept) == 1 or totals[len(kept) - 2] < p + 1e-9


@given(row=rows, p=st.floats(0, 1))
def test_min_p_keeps_what_is_at_least_p_times_as_likely_as_the_best(row: Logits, p: float) -> None:
    kept = set(min_p(row, np.arange(row.size), p).tolist())
    ratio = np.exp(row.astype(np.float64) - row.max())
    for i in range(row.size):
        if abs(ratio[i] - p) > 1e-9:
            assert (i in kept) == (ratio[i] >= p)


def test_the_filters_see_the_distribution_before_temperature() -> None:
    row = np.log(np.array([0.5, 0.3, 0.15, 0.05], dtype=np.float32))
    for temp in (0.1, 1.0, 5.0):
        kept = candidates(row, [], SamplingSettings(temp=temp, top_k=0, top_p=0.9, min_p=0.0))
        assert kept.ids.tolist() == [0, 1, 2]
    hot = candidates(row, [], SamplingSettings(temp=2.0, top_k=0, top_p=1.0, min_p=0.0))
    expected = np.sqrt([0.5, 0.3, 0.15, 0.05])
    assert hot.distribution().probabilities == pytest.approx(expected / expected.sum())


def test_penalties_follow_the_formula_of_llama_cpp() -> None:
    row = np.array([2.0, -2.0, 1.0, 0.5], dtype=np.float32)
    settings = SamplingSettings(
        repeat_penalty=2.0, presence_penalty=0.25, frequency_penalty=0.5, repeat_last_n=4
    )
    got = penalised(row, [2, 0, 1, 1, 3], settings)
    # The window holds 0, 1, 1, 3: token 2 is too long ago, token 1 counts twice.
    assert got.tolist() == [1.0 - 0.75, -4.0 - 1.25, 1.0, 0.25 - 0.75]


def test_a_penalty_leaves_the_models_own_row_untouched() -> None:
    row = np.ones(4, dtype=np.float32)
    penalised(row, [1], SamplingSettings(repeat_penalty=2.0))
    assert row.tolist() == [1, 1, 1, 1]


def test_greedy_takes_the_lowest_id_of_equal_logits() -> None:
    row = np.array([0, 3, 3, 1], dtype=np.float32)
    chooser = make_chooser(SamplingSettings(temp=0), seed=1)
    assert isinstance(chooser, GreedyChooser)
    assert chooser.choose(row, 5, []) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("temp", -1), ("temp", float("nan")), ("temp", float("inf")), ("top_k", -1), ("top_p", 0),
     ("top_p", 1.5), ("min_p", -0.1), ("min_p", 2), ("repeat_penalty", 0), ("repeat_last_n", -1),
     ("presence_penalty", float("nan")), ("frequency_penalty", float("inf"))],
)  # fmt: skip
def test_a_setting_out_of_range_is_refused_by_its_flag(field: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"--{field.replace('_', '-')} is"):
        SamplingSettings(**{field: value})  # type: ignore[arg-type]


def test_the_noise_is_the_same_everywhere() -> None:
    """Golden values: any change of the hash changes every seed's text."""
    ids = np.array([0, 1, 2, 151935])
    words = (uniform(42, 7, ids) * 2.0**52).astype(np.int64).tolist()
    assert words == [2888266685807010, 582588205526892, 2006146405244226, 3807429532594525]


def test_the_noise_of_a_token_does_not_depend_on_the_other_candidates() -> None:
    everything = gumbel(3, 11, np.arange(1000))
    some = np.array([5, 77, 900])
    assert gumbel(3, 11, some).tolist() == everything[some].tolist()


def test_the_noise_changes_with_seed_position_and_token() -> None:
    seen = {
        float(uniform(seed, position, np.array([token]))[0])
        for seed in range(10)
        for position in range(10)
        for token in range(10)
    }
    assert len(seen) == 1000


def test_the_uniforms_never_reach_an_end_of_the_interval() -> None:
    top = (np.float64(2**52 - 1) + 0.5) * 2.0**-52
    bottom = 0.5 * 2.0**-52
    assert bottom > 0 and top < 1
    assert np.isfinite(-np.log(-np.log(np.array([bottom, top])))).all()


def test_coupled_choices_over_seeds_follow_the_distribution() -> None:
    """Chi-square with 4 degrees of freedom; 18.47 is passed by chance once in a thousand seeds,
    and the seeds are fixed."""
    p = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    row = np.log(p).astype(np.float32)
    n = 20_000
    choices = [CoupledChooser(NO_FILTER, seed).choose(row, 3, []) for seed in range(n)]
    counts = np.bincount(choices, minlength=5)
    chi_square = float((((counts - n * p) ** 2) / (n * p)).sum())
    assert chi_square < 18.47


def test_coupled_choices_over_positions_follow_the_distribution() -> None:
    p = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    chooser, n = CoupledChooser(NO_FILTER, 5), 20_000
    row = np.log(p).astype(np.float32)
    counts = np.bincount([chooser.choose(row, i, []) for i in range(n)], minlength=5)
    assert float((((counts - n * p) ** 2) / (n * p)).sum()) < 18.47


def test_two_similar_distributions_agree_almost_as_often_as_they_can() -> None:
    """The coupling bound: agreement of at least (1 - TV) / (1 + TV), and at most 1 - TV."""
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.3, 0.3])
    tv = 0.5 * np.abs(p - q).sum()
    n = 20_000
    agree = 0
    for seed in range(n):
        chooser = CoupledChooser(NO_FILTER, seed)
        agree += chooser.choose(np.log(p).astype(np.float32), 0, []) == chooser.choose(
            np.log(q).astype(np.float32), 0, []
        )
    slack = 4 * np.sqrt(0.25 / n)
    assert (1 - tv) / (1 + tv) - slack <= agree / n <= 1 - tv + slack
