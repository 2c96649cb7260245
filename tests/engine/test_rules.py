"""The whole loop under `rejection` and `block`: exactly the target's distribution, not its seed.

Small generations are integrated exactly; longer ones are sampled over fixed seeds and judged by
chi-square at a threshold that random seeds would pass by chance once in a million.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from spec_cli.drafters.none import NoDrafter
from spec_cli.engine import Decoder
from spec_cli.spec import acceptance
from spec_cli.spec.acceptance import BlockRule, RejectionRule, SamplingRule, make_rule
from spec_cli.spec.interfaces import AcceptanceRule, Distribution, Drafter, Evidence, Source
from spec_cli.spec.policy import FixedLength, Policy
from spec_cli.spec.rounds import FixedRound
from spec_cli.spec.sampling import candidates
from spec_cli.spec.settings import Accept, SamplingSettings
from spec_cli.text import Output
from tests.engine.fakes import ScriptedDrafter, TableLM, ticking_clock
from tests.engine.generation import GREEDY, Run, chain_drafter, check_invariants, ngram_drafter
from tests.engine.generation import model_drafter as table_drafter
from tests.unit.test_distribution import Uniform, outcomes

Tokens = tuple[int, ...]
DrafterOf = Callable[[AcceptanceRule], Drafter]

PROMPT = (1, 0)
PLAIN = SamplingSettings(temp=1.0, top_k=0, top_p=1.0, min_p=0.0)
PENALISED = SamplingSettings(
    temp=0.8, top_k=3, top_p=0.95, min_p=0.05, repeat_penalty=1.5, presence_penalty=0.2
)
STOCHASTIC = [Accept.REJECTION, Accept.BLOCK]


def model_drafter(n_vocab: int) -> DrafterOf:
    """Drafts from a table of its own."""

    def drafter(rule: AcceptanceRule) -> Drafter:
        draft = TableLM(seed=4, n_vocab=n_vocab)
        return table_drafter(draft, rule, n_shared=n_vocab, is_end=lambda _: False)

    return drafter


def chained_drafter(n_vocab: int) -> DrafterOf:
    """Drafts from a table of its own, and copies."""

    def drafter(rule: AcceptanceRule) -> Drafter:
        draft = TableLM(seed=4, n_vocab=n_vocab)
        return chain_drafter(draft, rule, n_shared=n_vocab, is_end=lambda _: False)

    return drafter


def wrong_drafter(n_vocab: int) -> DrafterOf:
    """Copies tokens that have nothing to do with the target; None is their q."""

    def script(context: Sequence[int], k: int) -> list[int]:
        return [(context[-1] + i) % n_vocab for i in range(1, k + 1)]

    return lambda rule: ScriptedDrafter(script)


DRAFTERS = {"model": model_drafter, "chain": chained_drafter, "scripted": wrong_drafter}


def generate(
    rule: AcceptanceRule,
    drafter_of: DrafterOf,
    *,
    n_vocab: int,
    max_tokens: int,
    k: int,
    prompt: Sequence[int] = PROMPT,
    policy: Policy | None = None,
) -> Run:
    """A generation that nothing but `max_tokens` ends."""
    target, drafter = TableLM(seed=1, n_vocab=n_vocab), drafter_of(rule)
    decoder = Decoder(target, drafter, rule, policy or FixedLength(k), clock=ticking_clock())
    output = Output(lambda token: bytes([97 + token]), lambda _: False, max_tokens=max_tokens)
    run = Run(tuple(decoder.generate(prompt, output)))
    check_invariants(run, target, drafter, prompt)
    return run


def chances(
    n_vocab: int, n: int, settings: SamplingSettings, prompt: Sequence[int] = PROMPT
) -> dict[Tokens, float]:
    """The target's probability of every text of `n` tokens, straight from its table."""
    target = TableLM(seed=1, n_vocab=n_vocab)

    def chance(text: Tokens) -> float:
        product = 1.0
        for i, token in enumerate(text):
            context = [*prompt, *text[:i]]
            d = candidates(target.row(context), context, settings).distribution()
            product *= float(d.probabilities[d.ids == token].sum())
        return product

    every = {text: chance(text) for text in itertools.product(range(n_vocab), repeat=n)}
    return {text: chance for text, chance in every.items() if chance}


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("rule", [RejectionRule, BlockRule])
@pytest.mark.parametrize("settings", [PLAIN, PENALISED], ids=["plain", "penalised"])
def test_a_whole_generation_has_exactly_the_targets_distribution(
    settings: SamplingSettings,
    rule: Callable[[SamplingSettings, Uniform], SamplingRule],
    drafter: str,
) -> None:
    drafter_of = DRAFTERS[drafter](2)

    def program(uniform: Uniform) -> Tokens:
        made = rule(settings, uniform)
        return generate(made, drafter_of, n_vocab=2, max_tokens=4, k=2).tokens

    assert outcomes(program) == pytest.approx(chances(2, 4, settings), abs=1e-12)


class InTurns(FixedRound):
    """Takes a copy if there is one, then a guess, and so on, however unsure they are."""

    def __init__(self, k: int, *, guess_first: bool) -> None:
        super().__init__(k)
        self.sources: list[Source] = []
        self._guess_first = guess_first

    def take(self, copies: Sequence[Evidence], *, or_model: bool = False) -> int:
        if self.sources[-1] is Source.COPY if self.sources else self._guess_first:
            return 0
        self.sources.append(Source.COPY)
        self.room -= 1
        return 1

    def add(self, evidence: Evidence) -> None:
        self.sources.append(Source.MODEL)
        super().add(evidence)


class PlansInTurns(FixedLength):
    """Which source comes first depends on the place. Remembers the rounds."""

    def __init__(self) -> None:
        super().__init__(3)
        self.rounds: list[InTurns] = []

    def plan(self, room: int, n_past: int, n_behind: int) -> InTurns | None:
        if room < 1:
            return None
        self.rounds.append(InTurns(min(3, room), guess_first=n_past % 2 == 1))
        return self.rounds[-1]


REPEATING = (1, 0, 1, 1, 0, 1)


def chained_texts(
    rule: Callable[[SamplingSettings, Uniform], SamplingRule],
    settings: SamplingSettings,
    policy: PlansInTurns,
) -> dict[Tokens, float]:
    """The distribution of texts of five tokens, copies and guesses being drafted in turns."""

    def program(uniform: Uniform) -> Tokens:
        return generate(
            rule(settings, uniform),
            chained_drafter(2),
            n_vocab=2,
            max_tokens=5,
            k=3,
            prompt=REPEATING,
            policy=policy,
        ).tokens

    return outcomes(program)


@pytest.mark.parametrize("rule", [RejectionRule, BlockRule])
@pytest.mark.parametrize("settings", [PLAIN, PENALISED], ids=["plain", "penalised"])
def test_copies_among_guesses_leave_exactly_the_targets_distribution(
    settings: SamplingSettings, rule: Callable[[SamplingSettings, Uniform], SamplingRule]
) -> None:
    policy = PlansInTurns()
    expected = chances(2, 5, settings, REPEATING)
    assert chained_texts(rule, settings, policy) == pytest.approx(expected, abs=1e-12)
    mixtures = {tuple(made.sources) for made in policy.rounds}
    assert (Source.COPY, Source.MODEL) in mixtures
    assert (Source.MODEL, Source.COPY, Source.MODEL) in mixtures


@pytest.mark.parametrize("rule", [RejectionRule, BlockRule])
def test_a_copy_that_is_not_counted_as_certain_shows_in_the_distribution(
    rule: Callable[[SamplingSettings, Uniform], SamplingRule], monkeypatch: pytest.MonkeyPatch
) -> None:
    either = Distribution(np.array([0, 1]), np.array([0.5, 0.5]))
    monkeypatch.setattr("spec_cli.drafters.chain.certain", lambda token: either)
    found = chained_texts(rule, PLAIN, PlansInTurns())
    assert found != pytest.approx(chances(2, 5, PLAIN, REPEATING), abs=1e-3)


N_SEEDS = 1000
N_TOKENS = 4


def sampled_texts(accept: Accept, drafter_of: DrafterOf, *, k: int) -> Counter[Tokens]:
    """How often each text came from the seeds 0, 1, 2, ..."""
    rules = (make_rule(accept, PENALISED, seed) for seed in range(N_SEEDS))
    return Counter(
        generate(rule, drafter_of, n_vocab=3, max_tokens=N_TOKENS, k=k).tokens for rule in rules
    )


def chi_square_excess(counts: Counter[Tokens], expected: dict[Tokens, float]) -> float:
    """Chi-square over the value that chance exceeds once in a million: above 1 is a finding.

    Texts expected fewer than five times are one class. Wilson and Hilferty's approximation.
    """
    n = counts.total()
    common = [text for text, chance in expected.items() if n * chance >= 5]
    cells = [(counts[text], n * expected[text]) for text in common]
    cells.append((n - sum(c for c, _ in cells), n - sum(e for _, e in cells)))
    chi_square = sum((c - e) ** 2 / e for c, e in cells)
    spread = 2 / (9 * (len(cells) - 1))
    return chi_square / ((len(cells) - 1) * (1 - spread + 4.7534 * math.sqrt(spread)) ** 3)


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("accept", STOCHASTIC)
def test_texts_over_many_seeds_follow_the_targets_distribution(
    accept: Accept, drafter: str
) -> None:
    counts = sampled_texts(accept, DRAFTERS[drafter](3), k=3)
    assert chi_square_excess(counts, chances(3, N_TOKENS, PENALISED)) < 1


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("accept", STOCHASTIC)
def test_the_chi_square_finds_a_residual_that_is_p(
    accept: Accept, drafter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unchanged(p: Distribution, q: Distribution, scale: float = 1.0) -> Distribution:
        return p

    monkeypatch.setattr(acceptance, "residual", unchanged)
    counts = sampled_texts(accept, DRAFTERS[drafter](3), k=1)
    assert chi_square_excess(counts, chances(3, N_TOKENS, PENALISED)) > 1


@pytest.mark.parametrize("accept", STOCHASTIC)
def test_the_chi_square_finds_a_drafter_that_draws_the_loops_numbers_again(accept: Accept) -> None:
    """Why the drafter and the loop share one rule."""
    drafter_of = model_drafter(3)
    seeds = itertools.count()

    def drafter(rule: AcceptanceRule) -> Drafter:
        return drafter_of(make_rule(accept, PENALISED, next(seeds)))

    counts = sampled_texts(accept, drafter, k=3)
    assert chi_square_excess(counts, chances(3, N_TOKENS, PENALISED)) > 1


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("accept", STOCHASTIC)
@pytest.mark.parametrize("k", [1, 2, 5])
def test_a_seed_and_a_draft_length_give_the_same_text_again(
    k: int, accept: Accept, drafter: str
) -> None:
    def text(seed: int) -> Tokens:
        rule = make_rule(accept, PENALISED, seed)
        return generate(rule, DRAFTERS[drafter](5), n_vocab=5, max_tokens=20, k=k).tokens

    assert text(3) == text(3)
    assert len({text(seed) for seed in range(5)}) == 5


@pytest.mark.parametrize("accept", STOCHASTIC)
def test_a_draft_model_equal_to_the_target_is_always_accepted(accept: Accept) -> None:
    def drafter(rule: AcceptanceRule) -> Drafter:
        return table_drafter(TableLM(seed=1), rule, n_shared=5, is_end=lambda _: False)

    rule = make_rule(accept, PENALISED, 7)
    run = generate(rule, drafter, n_vocab=5, max_tokens=21, k=3)
    assert run.finished.stats.acceptance_rate == 1
    assert [r.n_emitted for r in run.rounds] == [1, 4, 4, 4, 4, 4]


@pytest.mark.parametrize("accept", list(Accept))
@pytest.mark.parametrize("k", [1, 3, 7])
def test_at_temperature_zero_every_rule_gives_the_text_of_plain_greedy(
    k: int, accept: Accept
) -> None:
    drafters = [*(make(5) for make in DRAFTERS.values()), lambda _: ngram_drafter()]
    plain = generate(
        make_rule(Accept.COUPLED, GREEDY, 0), lambda _: NoDrafter(), n_vocab=5, max_tokens=30, k=k
    ).tokens
    for drafter_of in drafters:
        rule = make_rule(accept, GREEDY, 7)
        run = generate(rule, drafter_of, n_vocab=5, max_tokens=30, k=k)
        assert run.tokens == plain
        assert run.finished.stats.n_drafted > 0
    target = TableLM(seed=1)
    for i, token in enumerate(plain):
        assert token == np.argmax(target.row([*PROMPT, *plain[:i]]))
