"""Classes of widths, their price, and the plan that is made of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.spec.costs import PassTimes
from spec_cli.spec.exactness import (
    DEFAULT_KERNELS,
    MAX_AUTO_PRICE,
    ExactnessPlan,
    Kernels,
    Rollback,
    WidthProbe,
    Widths,
    affordable,
    agree,
    cheapest,
    classes_of,
    fast,
    largest_difference,
    padded,
    price,
    slowdown,
)
from spec_cli.spec.interfaces import Logits

N_VOCAB = 6
ALL = tuple(range(1, 17))
FLAT = PassTimes(ALL, (1.0,) * 16)
LINEAR = PassTimes(ALL, tuple(map(float, ALL)))
SLOWER_BY_ROWS = PassTimes(ALL, tuple(1 + 0.1 * (w - 1) for w in ALL))

tables = st.lists(st.floats(1e-4, 10), min_size=16, max_size=16).map(
    lambda seconds: PassTimes(ALL, tuple(seconds))
)


def rows_of(n: int, *, kernel: int = 0, differs_from: int | None = None) -> Logits:
    """The first `n` rows as one kernel computes them; from `differs_from` on as no other does."""
    rows = np.random.default_rng(7).normal(size=(16, N_VOCAB)).astype(np.float32)
    rows[0 if differs_from is None else differs_from :] += np.float32(kernel) * np.float32(1e-6)
    return rows[:n]


def by_kernel(kernels: Mapping[int, int]) -> dict[int, Logits]:
    """Rows for each width, computed by the kernel it is mapped to."""
    return {width: rows_of(width, kernel=kernel) for width, kernel in kernels.items()}


def probe(
    classes: Sequence[Widths],
    times: PassTimes = FLAT,
    *,
    long: PassTimes | None = None,
    kernels: Kernels = DEFAULT_KERNELS,
    slower: float = 0.0,
) -> WidthProbe:
    return WidthProbe(kernels, times, long or times, tuple(classes), 0.25, slower)


def plan(widths: Widths | None, kernels: Kernels = DEFAULT_KERNELS) -> ExactnessPlan:
    return ExactnessPlan(kernels, widths, 0.0, 0.25, SLOWER_BY_ROWS)


def test_widths_that_all_agree_are_one_ascending_class() -> None:
    assert classes_of(by_kernel(dict.fromkeys((1, 2, 3, 4, 8), 0))) == [(1, 2, 3, 4, 8)]


def test_widths_fall_into_the_classes_of_their_kernels_the_widest_first() -> None:
    kernels = {1: 0, 2: 0, 3: 0, 4: 1, 8: 2, 12: 2, 16: 2}
    assert classes_of(by_kernel(kernels)) == [(8, 12, 16), (4,), (1, 2, 3)]


def test_the_order_in_which_widths_were_tried_plays_no_part() -> None:
    kernels = {8: 2, 1: 0, 16: 2, 4: 1, 2: 0, 12: 2, 3: 0}
    assert classes_of(by_kernel(kernels)) == [(8, 12, 16), (4,), (1, 2, 3)]


def test_a_width_joins_only_a_class_all_of_whose_members_it_agrees_with() -> None:
    """Agreement is not transitive: 2 shows one row only, which it shares with both others."""
    rows = {3: rows_of(3), 2: rows_of(1), 1: rows_of(2, kernel=1, differs_from=1)}
    assert agree(rows[3], rows[2]) and agree(rows[2], rows[1]) and not agree(rows[3], rows[1])
    assert classes_of(rows) == [(2, 3), (1,)]


def test_every_width_is_in_exactly_one_class() -> None:
    kernels = {1: 3, 2: 1, 3: 1, 4: 0, 6: 3, 8: 0, 12: 2, 16: 0}
    found = classes_of(by_kernel(kernels))
    assert sorted(width for members in found for width in members) == sorted(kernels)


@given(kernels=st.dictionaries(st.integers(1, 16), st.integers(0, 3), min_size=1))
def test_two_widths_share_a_class_exactly_when_they_share_a_kernel(kernels: dict[int, int]) -> None:
    found = {width: members for members in classes_of(by_kernel(kernels)) for width in members}
    for a in kernels:
        for b in kernels:
            assert (b in found[a]) == (kernels[a] == kernels[b])


def one_row(*values: float) -> Logits:
    return np.array([values], dtype=np.float32)


def test_agreement_is_about_bits_not_about_values() -> None:
    assert not agree(one_row(0.0, 1.0), one_row(-0.0, 1.0))
    assert agree(one_row(-0.0), one_row(-0.0))
    assert agree(one_row(np.nan, -np.inf), one_row(np.nan, -np.inf))
    other_nan = np.array([[0x7FC00001]], dtype=np.uint32).view(np.float32)
    assert not agree(one_row(np.nan), other_nan)
    assert not agree(one_row(1.0), np.nextafter(one_row(1.0), np.float32(2)))
    assert not agree(one_row(-np.inf), one_row(np.inf))


def test_only_the_rows_that_both_have_are_compared() -> None:
    assert agree(rows_of(3), rows_of(8))
    assert not agree(rows_of(3), rows_of(8, kernel=1, differs_from=2))
    assert agree(rows_of(2), rows_of(8, kernel=1, differs_from=2))


def test_rows_that_are_no_contiguous_memory_can_be_compared() -> None:
    wide = np.concatenate([rows_of(4), rows_of(4)], axis=1)
    assert agree(wide[::2, :N_VOCAB], rows_of(4)[::2])


def test_the_largest_difference_is_over_all_pairs_and_their_common_rows() -> None:
    rows = {1: one_row(1.0, 2.0), 2: one_row(1.5, 2.0), 3: one_row(1.0, 1.25)}
    assert largest_difference(rows) == 0.75
    longer = np.concatenate([one_row(1.0, 2.0), one_row(9.0, 9.0)])
    assert largest_difference({1: one_row(1.0, 2.25), 2: longer}) == 0.25


def test_tokens_suppressed_in_both_rows_do_not_differ() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        suppressed = {1: one_row(-np.inf, 1.0), 2: one_row(-np.inf, 1.5)}
        assert largest_difference(suppressed) == 0.5
        assert largest_difference({1: one_row(-np.inf), 2: one_row(-np.inf)}) == 0.0


def test_one_width_alone_differs_from_nothing() -> None:
    assert largest_difference({1: one_row(3.0)}) == 0.0


@given(times=tables)
def test_where_every_width_is_allowed_nothing_is_lost(times: PassTimes) -> None:
    assert price(ALL, times) == 0.0


@given(times=tables, widths=st.sets(st.integers(1, 16), min_size=1))
def test_no_class_has_a_price_below_nothing(times: PassTimes, widths: set[int]) -> None:
    assert price(tuple(sorted(widths)), times) >= 0


def test_a_class_without_width_1_costs_what_padding_a_plain_step_costs() -> None:
    assert price(ALL[1:], SLOWER_BY_ROWS) == pytest.approx(1.1 - 1)
    assert price((4,), SLOWER_BY_ROWS) == pytest.approx(1.3 - 1)


def test_a_class_without_wide_passes_costs_what_verifying_loses() -> None:
    """On a flat curve the best pass is the widest: 16 rows, all but the first guesses at 0.9."""
    best = sum(0.9**i for i in range(16))
    assert price((1,), FLAT) == pytest.approx(best - 1)
    assert price((1, 2, 3), FLAT) == pytest.approx(best / (1 + 0.9 + 0.81) - 1)
    # Where checking rows costs as much as stepping, plain decoding loses nothing.
    assert price((1,), LINEAR) == 0.0


def test_the_price_is_the_worse_of_both_losses() -> None:
    times = PassTimes((1, 2, 3, 4), (1.0, 1.5, 1.5, 1.5))
    verifying = (1 + 0.9 + 0.81 + 0.729) / (1 + 0.9) - 1
    assert verifying > 0.5
    assert price((2,), times) == pytest.approx(verifying)
    assert price((2, 3, 4), times) == pytest.approx(0.5)


def test_the_cheapest_of_all_classes_of_all_probes_is_chosen() -> None:
    bare = Kernels(repack=False, tiled=False)
    probes = [
        probe([(4,), (1, 2, 3)], SLOWER_BY_ROWS),
        probe([ALL], SLOWER_BY_ROWS, kernels=bare, slower=0.2),
    ]
    found = cheapest(probes)
    assert (found.kernels, found.widths) == (bare, ALL)
    assert found.price == pytest.approx(0.2)
    assert found.times == SLOWER_BY_ROWS
    probes[1] = probe([ALL], SLOWER_BY_ROWS, kernels=bare, slower=2.0)
    assert cheapest(probes).kernels == DEFAULT_KERNELS
    assert cheapest(probes).price == min(price(c, SLOWER_BY_ROWS) for c in probes[0].classes)


def test_the_price_of_a_plan_is_that_of_the_worse_context_and_of_the_kernels() -> None:
    found = cheapest([probe([ALL[1:]], FLAT, long=SLOWER_BY_ROWS, slower=0.5)])
    assert found.price == pytest.approx(1.5 * 1.1 - 1)
    found = cheapest([probe([ALL[1:]], SLOWER_BY_ROWS, long=FLAT, slower=0.5)])
    assert found.price == pytest.approx(1.5 * 1.1 - 1)
    assert found.times == SLOWER_BY_ROWS  # those of the short context


def steps_cost(factor: float) -> PassTimes:
    """A flat curve but for width 1, that costs 1 where all others cost `factor`."""
    return PassTimes(ALL, (1.0, *(factor,) * 15))


def test_a_plan_is_affordable_up_to_the_price_that_auto_gives_and_not_beyond() -> None:
    for over in (0.0, 0.99, 1.01):
        probes = [probe([ALL[1:]], steps_cost(1 + over * MAX_AUTO_PRICE))]
        assert (affordable(probes) is not None) == (over < 1)
    for slower in (0.99, 1.01):
        probes = [probe([ALL], slower=slower * MAX_AUTO_PRICE)]
        assert (affordable(probes) is not None) == (slower < 1)


def test_the_affordable_plan_is_the_cheapest_of_all() -> None:
    steady = Kernels(k_type="bf16")
    probes = [
        probe([ALL[1:], (1,)], steps_cost(1.02)),
        probe([ALL], kernels=steady, slower=0.01),
    ]
    found = affordable(probes)
    assert found is not None and (found.kernels, found.widths) == (steady, ALL)
    assert found.price == pytest.approx(0.01)
    found = affordable([probe([ALL], kernels=steady, slower=0.025), probes[0]])
    assert found is not None and found.widths == ALL[1:]


def test_a_class_that_leaves_no_room_for_drafts_is_no_affordable_plan() -> None:
    """Where checking never pays, width 1 costs nothing; yet it is not what was asked for."""
    assert price((1,), LINEAR) == 0
    assert affordable([probe([(1,), (2, 3)], LINEAR)]) is None
    one_more = affordable([probe([(1,), (2, 3)], LINEAR), probe([ALL], LINEAR, slower=0.01)])
    assert one_more is not None and one_more.widths == ALL


def test_a_model_that_knows_one_width_alone_gets_it() -> None:
    found = affordable([probe([(1,)], PassTimes((1,), (1.0,)))])
    assert found is not None and found.widths == (1,) and found.price == 0


def scaled(times: PassTimes, factor: float) -> PassTimes:
    return PassTimes(times.widths, tuple(factor * s for s in times.seconds))


@given(times=tables, factor=st.floats(1, 5))
def test_kernels_that_are_slower_throughout_are_slower_by_just_that(
    times: PassTimes, factor: float
) -> None:
    ours, theirs = probe([ALL], scaled(times, factor)), probe([ALL], times)
    assert slowdown(ours, theirs) == pytest.approx(factor - 1, abs=1e-9)
    assert slowdown(theirs, ours) == 0.0


def test_the_slowdown_is_that_of_the_worst_context_and_of_the_worst_kind_of_pass() -> None:
    default = probe([ALL], FLAT)
    assert slowdown(probe([ALL], FLAT, long=scaled(FLAT, 1.5)), default) == pytest.approx(0.5)
    assert slowdown(probe([ALL], scaled(FLAT, 1.5), long=FLAT), default) == pytest.approx(0.5)
    slow_steps = PassTimes(ALL, (1.4, *FLAT.seconds[1:]))
    assert slowdown(probe([ALL], slow_steps), default) == pytest.approx(0.4)
    slow_checks = PassTimes(ALL, (1.0, *(2.0,) * 15))
    assert slowdown(probe([ALL], slow_checks), default) == pytest.approx(1.0)


def test_the_fast_plan_allows_every_width_at_the_times_measured() -> None:
    found = fast(probe([(1,), (2, 3)], SLOWER_BY_ROWS))
    assert not found.is_exact and found.widths is None and found.max_width is None
    assert (found.price, found.max_difference, found.times) == (0.0, 0.25, SLOWER_BY_ROWS)
    assert not found.pads_plain_steps
    assert [found.padded(n) for n in (1, 5, 64)] == [1, 5, 64]
    assert found.padded_times() is found.times


@pytest.mark.parametrize("rollback", [r for r in Rollback if r is not Rollback.ANY])
def test_the_widest_pass_of_a_recurrent_memory_is_the_widest_that_was_tried(
    rollback: Rollback,
) -> None:
    widths = (1, 2, 3) if rollback.works else (1,)
    found = replace(probe([widths], PassTimes(widths, (1.0,) * len(widths))), rollback=rollback)
    plan = fast(found)
    assert not plan.is_exact and plan.max_width == widths[-1]
    assert cheapest([found]).rollback is plan.rollback is rollback


def test_a_pass_is_padded_to_the_smallest_width_that_holds_it() -> None:
    found = plan((4, 8, 12, 16))
    assert [found.padded(n) for n in (1, 4, 5, 8, 9, 13, 16)] == [4, 4, 8, 8, 12, 16, 16]
    assert found.pads_plain_steps and found.is_exact and found.max_width == 16
    assert not plan((1, 2, 3)).pads_plain_steps
    with pytest.raises(ValueError):
        found.padded(17)


@given(widths=st.sets(st.integers(1, 16), min_size=1), data=st.data())
def test_padding_stays_in_the_class_and_adds_as_few_rows_as_it_can(
    widths: set[int], data: st.DataObject
) -> None:
    members = tuple(sorted(widths))
    n = data.draw(st.integers(1, members[-1]))
    width = padded(members, n)
    assert width in widths and width >= n
    assert not widths & set(range(n, width))
    assert padded(members, width) == width


def test_padded_times_name_the_cost_of_every_number_of_rows_that_is_allowed() -> None:
    times = PassTimes((1, 2, 4, 8, 16), (1.0, 2.0, 4.0, 5.0, 9.0))
    found = ExactnessPlan(DEFAULT_KERNELS, (2, 4, 8), 0.0, 0.0, times).padded_times()
    assert found.widths == (1, 2, 3, 4, 5, 6, 7, 8)
    assert found.seconds == (2.0, 2.0, 4.0, 4.0, 5.0, 5.0, 5.0, 5.0)


@pytest.mark.parametrize(
    ("widths", "kernels", "expected"),
    [
        (
            ALL,
            Kernels(k_type="bf16"),
            "bit-exact: widths 1-16, KV cache bf16/f16",
        ),
        (ALL, DEFAULT_KERNELS, "bit-exact: widths 1-16"),
        (ALL[1:], DEFAULT_KERNELS, "bit-exact: widths 2-16, plain steps padded"),
        ((4,), DEFAULT_KERNELS, "bit-exact: width 4, plain steps padded"),
        ((1,), DEFAULT_KERNELS, "bit-exact: width 1"),
        (
            ALL,
            Kernels(repack=False, tiled=False),
            "bit-exact: widths 1-16, weights not repacked, no tiled products",
        ),
        (
            (4, 8),
            Kernels(v_type="q8_0", repack=False),
            "bit-exact: widths 4-8, plain steps padded, KV cache f16/q8_0, weights not repacked",
        ),
        (None, DEFAULT_KERNELS, "fast: kernels differ by width"),
    ],
)
def test_a_plan_says_its_widths_and_what_they_took(
    widths: Widths | None, kernels: Kernels, expected: str
) -> None:
    assert plan(widths, kernels).describe() == expected


def test_kernels_that_were_not_seen_to_differ_are_not_said_to() -> None:
    """As with `--exact off` where every width gives the same bits."""
    found = ExactnessPlan(DEFAULT_KERNELS, None, 0.0, 0.0, FLAT)
    assert found.describe() == "fast: passes of any width"


@pytest.mark.parametrize(("n", "ties"), [(0, "0 near-ties"), (1, "1 near-tie"), (2, "2 near-ties")])
def test_a_fast_plan_says_how_many_choices_were_near_ties(n: int, ties: str) -> None:
    assert plan(None).describe(n) == f"fast: kernels differ by width, {ties}"
    assert plan(ALL).describe(n) == "bit-exact: widths 1-16"  # nothing to count
