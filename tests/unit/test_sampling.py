"""The filters against plain definitions, one after the other and together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.errors import ModelError, UsageError
from spec_cli.spec.interfaces import Logits, Weights
from spec_cli.spec.sampling import candidates, penalised
from spec_cli.spec.selection import min_p, top_k, top_p
from spec_cli.spec.settings import SamplingSettings

rows = st.lists(st.integers(-40, 40).map(lambda i: i / 4), min_size=1, max_size=40).map(
    lambda values: np.array(values, dtype=np.float32)
)
NO_FILTER = SamplingSettings(temp=1.0, top_k=0, top_p=1.0, min_p=0.0)
LONG: dict[str, Callable[[np.random.Generator, int], Weights]] = {
    "normal": lambda rng, n: 4 * rng.normal(size=n),
    "wide": lambda rng, n: 50 * rng.normal(size=n),
    "tied": lambda rng, n: np.round(2 * rng.normal(size=n)),
    "flat": lambda rng, n: np.zeros(n),
    "nearly flat": lambda rng, n: 1e-3 * rng.normal(size=n),
    "zipf": lambda rng, n: -np.log(rng.permutation(n) + 1),
    "one likely": lambda rng, n: np.where(np.arange(n) == n - 1, 12.0, 0.0),
    "64 likely": lambda rng, n: np.where(np.arange(n) % (n // 63) == 0, 6.0, 0.0),
    "half forbidden": lambda rng, n: np.where(rng.random(n) < 0.5, -np.inf, rng.normal(size=n)),
    "three allowed": lambda rng, n: np.where(np.arange(n) < n - 3, -np.inf, 0.0),
}


def long_row(kind: str, n: int) -> Logits:
    """A row of n logits, the same each time."""
    return LONG[kind](np.random.default_rng(n), n).astype(np.float32)


long_rows = pytest.mark.parametrize(
    "row",
    [
        pytest.param(long_row(kind, n), id=f"{kind}-{n}")
        for kind in LONG
        for n in (63, 4095, 4096, 4097, 12_345)
    ],
)


def ranked(row: Logits) -> list[int]:
    """Ids by falling logit; of equal ones the lower id first."""
    order: list[int] = np.argsort(-row, kind="stable").tolist()
    return order


def nucleus(row: Logits, p: float) -> list[int]:
    """The ids that top-p keeps, by sorting all of them."""
    weights = np.exp(row.astype(np.float64) - row.max())
    order = ranked(row)
    n = np.searchsorted(np.cumsum(weights[order]), p * weights.sum()) + 1
    return sorted(order[:n])


@given(row=rows, k=st.integers(1, 40))
def test_top_k_keeps_the_k_largest_and_of_equals_the_lowest_ids(row: Logits, k: int) -> None:
    k = min(k, row.size)
    assert top_k(row, k).tolist() == sorted(ranked(row)[:k])


@long_rows
@pytest.mark.parametrize("k", [1, 40, 4096, 5000])
def test_top_k_of_a_long_row_is_the_head_of_the_sorted_row(row: Logits, k: int) -> None:
    k = min(k, row.size)
    assert top_k(row, k).tolist() == sorted(ranked(row)[:k])


@pytest.mark.parametrize("k", [0, 3, 7])
def test_top_k_of_0_or_of_all_tokens_keeps_all(k: int) -> None:
    row = np.array([2, 1, 0], dtype=np.float32)
    assert candidates(row, [], replace(NO_FILTER, top_k=k)).ids.tolist() == [0, 1, 2]


@given(row=rows, p=st.floats(0.01, 0.99))
def test_top_p_keeps_the_shortest_head_with_that_much_probability(row: Logits, p: float) -> None:
    weights = np.exp(row.astype(np.float64) - row.max())
    order = ranked(row)
    totals = np.cumsum(weights[order]) / weights.sum()
    kept = top_p(row, p).tolist()
    assert kept == sorted(order[: len(kept)])
    assert totals[len(kept) - 1] >= p - 1e-9
    assert len(kept) == 1 or totals[len(kept) - 2] < p + 1e-9


@long_rows
@pytest.mark.parametrize("p", [0.01, 0.5, 0.95, 0.9999, 1 - 1e-12])
def test_top_p_of_a_long_row_is_what_a_sort_of_the_row_gives(row: Logits, p: float) -> None:
    assert top_p(row, p).tolist() == nucleus(row, p)


@pytest.mark.parametrize("n", range(100, 120))
def test_top_p_keeps_all_where_rounded_sums_fall_short_of_the_mass(n: int) -> None:
    row = np.linspace(0, 1, n, dtype=np.float32)
    p = float(np.nextafter(1, 0))
    assert top_p(row, p).tolist() == nucleus(row, p)


@given(row=rows, p=st.floats(0.001, 1))
def test_min_p_keeps_what_is_at_least_p_times_as_likely_as_the_best(row: Logits, p: float) -> None:
    kept = set(min_p(row, p).tolist())
    ratio = np.exp(row.astype(np.float64) - row.max())
    for i in range(row.size):
        if abs(ratio[i] - p) > 1e-9:
            assert (i in kept) == (ratio[i] >= p)


@given(row=rows, k=st.integers(1, 40), p=st.floats(0.01, 0.99), m=st.floats(0.001, 0.999))
def test_each_filter_sees_what_the_ones_before_it_left(
    row: Logits, k: int, p: float, m: float
) -> None:
    kept = np.sort(ranked(row)[:k])
    kept = kept[nucleus(row[kept], p)]
    kept = kept[row[kept].astype(np.float64) >= row.max() + np.log(np.float64(m))]
    found = candidates(row, [], SamplingSettings(temp=0.5, top_k=k, top_p=p, min_p=m))
    assert found.ids.tolist() == kept.tolist()
    values = row[kept].astype(np.float64)
    assert found.log_weights.tolist() == ((values - values.max()) / 0.5).tolist()


@pytest.mark.parametrize("at", [0, 5000, 9999])
@pytest.mark.parametrize("settings", [SamplingSettings(), NO_FILTER, replace(NO_FILTER, top_p=0.9)])
def test_a_logit_that_is_not_a_number_is_refused(settings: SamplingSettings, at: int) -> None:
    row = np.arange(10_000, dtype=np.float32)
    row[at] = np.nan
    with pytest.raises(ModelError, match="the largest is nan"):
        candidates(row, [], settings)


@pytest.mark.parametrize("value", [-np.inf, np.inf])
@pytest.mark.parametrize("settings", [SamplingSettings(), NO_FILTER])
def test_a_row_without_a_finite_maximum_is_refused(
    settings: SamplingSettings, value: float
) -> None:
    with pytest.raises(ModelError, match=f"the largest is {value}"):
        candidates(np.full(10_000, value, dtype=np.float32), [], settings)


def test_a_forbidden_token_has_no_probability() -> None:
    row = np.array([0, -np.inf, 1], dtype=np.float32)
    assert candidates(row, [], NO_FILTER).distribution().ids.tolist() == [0, 2]


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


@pytest.mark.parametrize(
    ("field", "value"),
    [("temp", -1), ("temp", float("nan")), ("temp", float("inf")), ("temp", 10**400),
     ("top_k", -1), ("top_k", 2**31), ("repeat_last_n", 2**31), ("top_p", 0),
     ("top_p", 1.5), ("min_p", -0.1), ("min_p", 2), ("repeat_penalty", 0), ("repeat_last_n", -1),
     ("presence_penalty", float("nan")), ("frequency_penalty", float("inf"))],
)  # fmt: skip
def test_a_setting_out_of_range_is_refused_by_its_flag(field: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"--{field.replace('_', '-')} is"):
        SamplingSettings(**{field: value})  # type: ignore[arg-type]
