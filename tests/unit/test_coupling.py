"""The noise, and choices made with it, against plain formulas and against their distributions.

The seeds of the statistical tests are fixed: they fail after a change, never by chance. Their
limit of 4 sigma is one that a right program keeps for all but one seed in 15,000.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.errors import ModelError
from spec_cli.spec.coupling import CoupledChooser, GreedyChooser, make_chooser
from spec_cli.spec.interfaces import Ids, Logits, Place, Weights
from spec_cli.spec.noise import gumbel, noise_at_least, uniform
from spec_cli.spec.settings import SamplingSettings
from tests.unit.test_sampling import LONG, NO_FILTER, long_row

SIGMAS = 4.0


def chi_square(counts: Ids, expected: Weights | float) -> float:
    """In standard deviations, by the transformation of Wilson and Hilferty (1931)."""
    n_free = counts.size - 1
    statistic = float(((counts - expected) ** 2 / expected).sum())
    variance = 2 / (9 * n_free)
    return float(((statistic / n_free) ** (1 / 3) - (1 - variance)) / np.sqrt(variance))


def mix(z: int) -> int:
    """The finaliser of SplitMix64, as published."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def splitmix64(state: int, n: int) -> list[int]:
    """The first `n` outputs of the generator."""
    return [mix((state + i * 0x9E3779B97F4A7C15) % 2**64) for i in range(1, n + 1)]


def plain_scores(row: Logits, position: int, temp: float, seed: int) -> Weights:
    """log weight + noise of every token, by the formula."""
    values = row.astype(np.float64)
    with np.errstate(over="ignore"):
        scores: Weights = (values - values.max()) / temp
    return scores + gumbel(seed, position, np.arange(row.size))


@pytest.mark.parametrize(
    ("seed", "position", "expected"),
    [
        (0, 0, [0.8833108082136426, 0.4315279970485101, 0.97853470291373]),
        (0, 4095, [0.9432245368012909, 0.8247716423551675, 0.08387920115706893]),
        (1, 0, [0.2558852031320079, 0.08832385701148338, 0.2538938131723175]),
        (42, 7, [0.6413240351681472, 0.1293605679302018, 0.845419186344848]),
        (2**64 - 1, 0, [0.040152895465942584, 0.39365996192329356, 0.474145194048191]),
        (2**64 - 1, 2**31 - 1, [0.31751862562288913, 0.16019040398711748, 0.7018320378630786]),
    ],
)
def test_the_noise_is_the_same_everywhere(seed: int, position: int, expected: list[float]) -> None:
    """Golden values: any change of the hash changes every seed's text."""
    assert uniform(seed, position, np.array([0, 1, 151935])).tolist() == expected


def test_the_plain_generator_gives_the_published_numbers() -> None:
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert splitmix64(1234567, 3) == expected


@given(seed=st.integers(0, 2**64 - 1), position=st.integers(0, 2**40))
def test_the_noise_of_a_token_is_that_output_of_the_generator(seed: int, position: int) -> None:
    state = mix((mix(seed) + position * 0x9E3779B97F4A7C15) % 2**64)
    expected = [((output >> 12) + 0.5) * 2.0**-52 for output in splitmix64(state, 5)]
    assert uniform(seed, position, np.arange(5)).tolist() == expected


def test_the_noise_of_a_token_does_not_depend_on_the_other_candidates() -> None:
    everything = gumbel(3, 11, np.arange(1000))
    some = np.array([5, 77, 900])
    assert gumbel(3, 11, some).tolist() == everything[some].tolist()


def test_the_uniforms_never_reach_an_end_of_the_interval() -> None:
    top = (np.float64(2**52 - 1) + 0.5) * 2.0**-52
    bottom = 0.5 * 2.0**-52
    assert bottom > 0 and top < 1
    assert np.isfinite(-np.log(-np.log(np.array([bottom, top])))).all()


N = 50_000


@cache
def series(over: str) -> Weights:
    """N uniform numbers: of many tokens, or of one token at many positions or with many seeds."""
    ids, one = np.arange(N), np.array([77])
    match over:
        case "positions":
            return np.concatenate([uniform(9, i, one) for i in range(N)])
        case "seeds":
            return np.concatenate([uniform(i, 4, one) for i in range(N)])
        case "the next token":
            return uniform(9, 4, ids + 1)
        case "the next position":
            return uniform(9, 5, ids)
        case "the next seed":
            return uniform(10, 4, ids)
    return uniform(9, 4, ids)


@pytest.mark.parametrize("over", ["tokens", "positions", "seeds"])
def test_the_noise_is_uniform_in_its_high_and_its_low_bits(over: str) -> None:
    words = (series(over) * 2.0**52).astype(np.int64)
    for bits in (words >> 44, words & 255):
        assert chi_square(np.bincount(bits, minlength=256), N / 256) < SIGMAS


def dependence(one: Weights, two: Weights) -> float:
    """The larger of what their correlation and their joint counts show, in standard deviations."""
    correlation = abs(float(np.corrcoef(one, two)[0, 1])) * math.sqrt(one.size)
    cells = (one * 16).astype(np.int64) * 16 + (two * 16).astype(np.int64)
    counts = np.bincount(cells, minlength=256)
    return max(correlation, chi_square(counts, one.size / 256))


@pytest.mark.parametrize("other", ["the next token", "the next position", "the next seed"])
def test_the_noise_of_neighbours_is_independent(other: str) -> None:
    assert dependence(series("tokens"), series(other)) < SIGMAS


@pytest.mark.parametrize("over", ["positions", "seeds"])
def test_successive_noise_of_one_token_is_independent(over: str) -> None:
    assert dependence(series(over)[::2], series(over)[1::2]) < SIGMAS


@pytest.mark.parametrize("rank", [0, 1, 100, 25_000, 49_999])
def test_no_token_with_enough_noise_is_missed(rank: int) -> None:
    noise = gumbel(8, 2, np.arange(50_000))
    least = float(np.sort(noise)[::-1][rank])
    found = noise_at_least(least, 8, 2, np.arange(50_000))
    assert set(np.flatnonzero(noise >= least)) <= set(found)
    assert (noise[found] >= least - 1e-6).all()
    assert found.tolist() == sorted(found)


def test_no_token_has_more_noise_than_there_is_and_each_the_least() -> None:
    assert noise_at_least(np.inf, 8, 2, np.arange(50_000)).size == 0
    assert noise_at_least(-3.7, 8, 2, np.arange(50_000)).size == 50_000


@pytest.mark.parametrize("n", [4097, 20_000, 151_936])
@pytest.mark.parametrize("kind", LONG)
def test_a_choice_among_many_tokens_is_that_of_the_plain_formula(kind: str, n: int) -> None:
    row = long_row(kind, n)
    for temp in (1e-310, 0.1, 1.0, 3.0, 1e6):
        chooser = CoupledChooser(replace(NO_FILTER, temp=temp), 6)
        for position in range(2 if n > 100_000 else 20):
            expected = plain_scores(row, position, temp, 6).argmax()
            assert chooser.choose(row, Place(position)) == expected


@pytest.mark.parametrize("position", range(10))
def test_a_token_that_wins_by_a_hair_from_the_lowest_place_is_found(position: int) -> None:
    n = 20_000
    noise = gumbel(6, position, np.arange(n))
    winner = noise.argmax()
    needed = np.float32(noise[:63].max() - noise[winner])
    row = np.where(np.arange(n) < 63, 0, np.nextafter(needed, np.float32(0)))
    scores = np.sort(plain_scores(row, position, 1.0, 6))
    assert winner > 63 and scores[-1] - scores[-2] < 1e-6
    assert CoupledChooser(NO_FILTER, 6).choose(row, Place(position)) == winner


def test_the_least_temperature_is_greedy_and_overflows_nothing() -> None:
    row = np.random.default_rng(1).normal(size=6000).astype(np.float32)
    with np.errstate(all="raise"):
        assert (
            CoupledChooser(replace(NO_FILTER, temp=5e-324), 6).choose(row, Place(0)) == row.argmax()
        )


def test_the_margin_is_the_distance_of_the_two_best_scores() -> None:
    row = np.random.default_rng(1).normal(size=6000).astype(np.float32)
    chooser = CoupledChooser(replace(NO_FILTER, temp=2.0), 6)
    for position in range(20):
        second, first = np.sort(plain_scores(row, position, 2.0, 6))[-2:]
        assert chooser.margin(row, Place(position)) == (first - second) * 2.0


def test_a_single_candidate_wins_by_an_infinite_margin() -> None:
    row = np.array([0, 3, 1], dtype=np.float32)
    assert CoupledChooser(SamplingSettings(top_k=1), 1).margin(row, Place(0)) == float("inf")
    assert GreedyChooser(SamplingSettings(temp=0)).margin(row[:1], Place(0)) == float("inf")


def test_greedy_takes_the_lowest_id_of_equal_logits() -> None:
    row = np.array([0, 3, 3, 1], dtype=np.float32)
    chooser = make_chooser(SamplingSettings(temp=0), seed=1)
    assert isinstance(chooser, GreedyChooser)
    assert chooser.choose(row, Place(5)) == 1


@pytest.mark.parametrize("settings", [SamplingSettings(temp=0), SamplingSettings(), NO_FILTER])
@pytest.mark.parametrize("bad", [[0, np.nan, 1], [-np.inf] * 3, [0, np.inf, 1]])
def test_no_token_is_chosen_from_unusable_logits(
    settings: SamplingSettings, bad: list[float]
) -> None:
    with pytest.raises(ModelError, match="logits cannot be used"):
        make_chooser(settings, seed=1).choose(np.array(bad, dtype=np.float32), Place(0))


@pytest.mark.parametrize("settings", [SamplingSettings(temp=0), NO_FILTER])
def test_a_forbidden_token_is_never_chosen(settings: SamplingSettings) -> None:
    row = np.array([-np.inf, 0, -np.inf], dtype=np.float32)
    assert {make_chooser(settings, seed).choose(row, Place(0)) for seed in range(200)} == {1}


@pytest.mark.parametrize("over", ["seeds", "positions"])
def test_coupled_choices_follow_the_distribution(over: str) -> None:
    p = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    row, n = np.log(p).astype(np.float32), 20_000
    keys = [(i, 3) if over == "seeds" else (5, i) for i in range(n)]
    choices = [CoupledChooser(NO_FILTER, seed).choose(row, Place(at)) for seed, at in keys]
    assert chi_square(np.bincount(choices, minlength=5), n * p) < SIGMAS


@pytest.mark.parametrize("n_vocab", [2000, 5000])
def test_choices_from_a_real_shaped_row_follow_its_distribution(n_vocab: int) -> None:
    """Both ways of choosing: 2,000 tokens are all scored, of 5,000 only those that can win."""
    n = 20_000
    row = (-1.1 * np.log(np.random.default_rng(3).permutation(n_vocab) + 1)).astype(np.float32)
    p = np.exp(row.astype(np.float64))
    p /= p.sum()
    chooser = CoupledChooser(NO_FILTER, 12)
    counts = np.bincount([chooser.choose(row, Place(i)) for i in range(n)], minlength=n_vocab)
    likely = n * p >= 10  # the others are counted together
    counts = np.append(counts[likely], counts[~likely].sum())
    assert chi_square(counts, n * np.append(p[likely], p[~likely].sum())) < SIGMAS


def test_two_similar_distributions_agree_almost_as_often_as_they_can() -> None:
    """The coupling bound: agreement of at least (1 - TV) / (1 + TV), and at most 1 - TV."""
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.3, 0.3])
    tv = 0.5 * np.abs(p - q).sum()
    n = 20_000
    agree = 0
    for seed in range(n):
        chooser = CoupledChooser(NO_FILTER, seed)
        agree += chooser.choose(np.log(p).astype(np.float32), Place(0)) == chooser.choose(
            np.log(q).astype(np.float32), Place(0)
        )
    slack = 4 * np.sqrt(0.25 / n)
    assert (1 - tv) / (1 + tv) - slack <= agree / n <= 1 - tv + slack
