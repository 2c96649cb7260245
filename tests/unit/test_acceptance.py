"""The acceptance rules by exact enumeration: every draft, every uniform number, no Monte Carlo."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.spec import acceptance
from spec_cli.spec.acceptance import (
    BlockRule,
    MatchRule,
    RejectionRule,
    SamplingRule,
    make_rule,
    prefix_acceptance,
)
from spec_cli.spec.distribution import excess, probability, residual
from spec_cli.spec.interfaces import NO_DRAFT, Distribution, Draft, Drawn, Logits
from spec_cli.spec.sampling import Candidates, candidates
from spec_cli.spec.settings import Accept, SamplingSettings
from tests.unit.test_distribution import Uniform, outcomes, sparse

Tokens = tuple[int, ...]
RuleOf = Callable[[SamplingSettings, Uniform], SamplingRule]
Row = Callable[[Tokens], Logits]  # the logits after some tokens

CONTEXT = (1, 0, 1)
PLAIN = SamplingSettings(temp=1.0, top_k=0, top_p=1.0, min_p=0.0)
FILTERED = SamplingSettings(temp=0.7, top_k=3, top_p=0.9, min_p=0.1)
PENALISED = SamplingSettings(
    temp=1.3, top_k=0, top_p=1.0, min_p=0.0, repeat_penalty=1.8, frequency_penalty=0.4,
    repeat_last_n=3,
)  # fmt: skip
NEVER = -1e4  # a logit of probability 0
RULES = [RejectionRule, BlockRule]


@dataclass(frozen=True)
class Models:
    """A target and a draft model: the logits of each after the same tokens."""

    target: Row
    draft: Row
    n_vocab: int

    def p(self, tokens: Tokens, settings: SamplingSettings) -> Distribution:
        """The target's processed distribution after `tokens`: what plain decoding samples from."""
        return candidates(self.target(tokens), [*CONTEXT, *tokens], settings).distribution()


def random_models(seed: int, *, n_vocab: int = 3, zeros: float = 0.0) -> Models:
    """Two random tables, 3 tokens deep; of each row some entries are impossible, never all."""
    rng = np.random.default_rng(seed)
    sequences = [s for n in range(4) for s in itertools.product(range(n_vocab), repeat=n)]

    def table() -> dict[Tokens, Logits]:
        rows = rng.normal(scale=1.5, size=(len(sequences), n_vocab)).astype(np.float32)
        impossible = rng.random(rows.shape) < zeros
        impossible[np.arange(len(rows)), rng.integers(n_vocab, size=len(rows))] = False
        rows[impossible] = NEVER
        return dict(zip(sequences, rows, strict=True))

    return Models(table().__getitem__, table().__getitem__, n_vocab)


def constant(*probabilities: float) -> Row:
    """The same distribution everywhere."""
    row = np.full(len(probabilities), NEVER, dtype=np.float32)
    positive = np.array(probabilities) > 0
    row[positive] = np.log(np.array(probabilities)[positive])
    return lambda tokens: row


def nearly_equal(to: Models) -> Models:
    """A draft that differs from the target after one token only: elsewhere h is 0 / 0."""

    def draft(tokens: Tokens) -> Logits:
        return to.target(tokens)[::-1].copy() if tokens == (1,) else to.target(tokens)

    return Models(to.target, draft, to.n_vocab)


MODELS = {
    **{f"random {seed}": random_models(seed) for seed in range(4)},
    **{f"with zeros {seed}": random_models(seed, zeros=0.4) for seed in range(4)},
    "four tokens": random_models(9, n_vocab=4, zeros=0.2),
    "p equals q": Models(random_models(1).target, random_models(1).target, 3),
    "q almost p": nearly_equal(random_models(2)),
    "certain q": Models(random_models(3).target, constant(0, 1, 0), 3),
    "certain p": Models(constant(0, 1, 0), random_models(3).draft, 3),
    "disjoint": Models(constant(0.3, 0.7, 0, 0), constant(0, 0, 0.5, 0.5), 4),
    "the paper's": Models(constant(1 / 3, 2 / 3), constant(2 / 3, 1 / 3), 2),
}
some_models = pytest.mark.parametrize("models", MODELS.values(), ids=MODELS)


def drawn(models: Models, rule: SamplingRule, k: int, ends: Sequence[int] = ()) -> Draft:
    """A draft as the draft model makes it: up to `k` tokens, none after one of `ends`."""
    draws: list[Drawn] = []
    while len(draws) < k and not (draws and draws[-1].token in ends):
        tokens = tuple(draw.token for draw in draws)
        at = len(CONTEXT) + len(tokens)
        draws.append(rule.draw(models.draft(tokens), at, [*CONTEXT, *tokens]))
    q = tuple(draw.q for draw in draws if draw.q is not None)
    return Draft(tuple(draw.token for draw in draws), q)


def verified(models: Models, rule: SamplingRule, draft: Draft) -> Tokens:
    rows = np.array([models.target(draft.tokens[:i]) for i in range(len(draft.tokens) + 1)])
    verdict = rule.verify(rows, draft, CONTEXT)
    assert verdict.near_ties == ()
    assert verdict.tokens[:-1] == draft.tokens[: len(verdict.tokens) - 1]
    return verdict.tokens


def committed(
    rule: RuleOf, models: Models, k: int, settings: SamplingSettings, ends: Sequence[int] = ()
) -> dict[Tokens, float]:
    """The exact distribution of what a round with `k` sampled draft tokens commits."""

    def a_round(uniform: Uniform) -> Tokens:
        made = rule(settings, uniform)
        return verified(models, made, drawn(models, made, k, ends))

    return outcomes(a_round)


def copied(rule: RuleOf, models: Models, draft: Tokens) -> dict[Tokens, float]:
    """The exact distribution of what a round with the draft `draft`, without q, commits."""
    return outcomes(lambda uniform: verified(models, rule(PLAIN, uniform), Draft(draft)))


def n_accepted(found: dict[Tokens, float]) -> float:
    """The expected number of accepted draft tokens."""
    return sum((len(tokens) - 1) * chance for tokens, chance in found.items())


def error(
    found: dict[Tokens, float], models: Models, n: int, settings: SamplingSettings = PLAIN
) -> float:
    """How far `found`, extended to `n` tokens by samples of p, is from sampling p alone."""

    def chance(text: Tokens, start: int) -> float:
        """Of sampling the tokens of `text` from `start` on."""
        p = ((models.p(text[:i], settings), text[i]) for i in range(start, n))
        return math.prod(float(d.probabilities[d.ids == token].sum()) for d, token in p)

    assert sum(found.values()) == pytest.approx(1, abs=1e-12)
    errors = []
    for text in itertools.product(range(models.n_vocab), repeat=n):
        reached = sum(found.get(text[:i], 0.0) * chance(text, i) for i in range(1, n + 1))
        errors.append(abs(reached - chance(text, 0)))
    return max(errors)


@some_models
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_text_has_exactly_the_targets_distribution(
    k: int, rule: RuleOf, models: Models
) -> None:
    k = min(k, 2) if models.n_vocab == 4 else k
    assert error(committed(rule, models, k, PLAIN), models, k + 1) < 1e-12


@pytest.mark.parametrize("settings", [FILTERED, PENALISED], ids=["filtered", "penalised"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(3))
def test_filters_and_penalties_see_the_drafted_prefix(
    seed: int, rule: RuleOf, settings: SamplingSettings
) -> None:
    models = random_models(seed, n_vocab=4)
    assert error(committed(rule, models, 2, settings), models, 3, settings) < 1e-12


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(3))
def test_a_draft_that_ends_early_leaves_the_distribution_alone(seed: int, rule: RuleOf) -> None:
    models = random_models(seed)
    found = committed(rule, models, 3, PLAIN, ends=(0,))
    assert error(found, models, 4) < 1e-12


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("draft", list(itertools.product(range(3), repeat=3)))
def test_any_copied_draft_leaves_the_distribution_alone(draft: Tokens, rule: RuleOf) -> None:
    for models in (random_models(0), random_models(0, zeros=0.4)):
        assert error(copied(rule, models, draft), models, 4) < 1e-12


@pytest.mark.parametrize("rule", RULES)
def test_without_a_draft_a_round_samples_p(rule: RuleOf) -> None:
    models = random_models(5, n_vocab=4)
    found = copied(rule, models, ())
    p = models.p((), PLAIN)
    expected = {(token,): chance for token, chance in zip(p.ids, p.probabilities, strict=True)}
    assert found == pytest.approx(expected, abs=1e-15)


class ShortestPrefix(BlockRule):
    """Wrong: keeps the smallest i whose number is below h_i, not the largest."""

    def _judge(
        self, tokens: Sequence[int], p: Callable[[int], Distribution], q: Sequence[Distribution]
    ) -> tuple[int, Distribution]:
        k, s = len(tokens), [1.0]
        for i, token in enumerate(tokens):
            ratio = probability(p(i), token) / probability(q[i], token)
            s.append(min(1.0, s[i] * ratio))
        h = [prefix_acceptance(s[i], excess(p(i), q[i], s[i]).sum()) for i in range(1, k)] + [s[k]]
        n = next((i for i in range(1, k + 1) if self._uniform() < h[i - 1]), 0)
        return n, p(k) if n == k else residual(p(n), q[n], s[n])


def p_itself(p: Distribution, q: Distribution, scale: float = 1.0) -> Distribution:
    return p


def unscaled(p: Distribution, q: Distribution, scale: float = 1.0) -> Distribution:
    return residual(p, q)


def without_s(s: float, z: float) -> float:
    return z / (z + 1)


def s_itself(s: float, z: float) -> float:
    return s


@pytest.mark.parametrize(
    ("rule", "formula", "wrong"),
    [
        (RejectionRule, "residual", p_itself),
        (BlockRule, "residual", p_itself),
        (BlockRule, "residual", unscaled),
        (BlockRule, "prefix_acceptance", without_s),
        (BlockRule, "prefix_acceptance", s_itself),
    ],
)
def test_the_enumeration_finds_a_wrong_formula(
    rule: RuleOf, formula: str, wrong: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = random_models(2)
    monkeypatch.setattr(acceptance, formula, wrong)
    assert error(committed(rule, models, 2, PLAIN), models, 3) > 1e-3


def test_the_enumeration_finds_the_shortest_prefix_wrong() -> None:
    models = random_models(2)
    assert error(committed(ShortestPrefix, models, 2, PLAIN), models, 3) > 1e-3


def test_the_enumeration_finds_a_row_processed_after_the_wrong_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models = random_models(0, n_vocab=4)
    monkeypatch.setattr(acceptance, "candidates", lambda row, _, s, c: candidates(row, CONTEXT, s))
    assert error(committed(RejectionRule, models, 2, PENALISED), models, 3, PENALISED) > 1e-3


@some_models
@pytest.mark.parametrize("k", [2, 3])
def test_block_accepts_no_fewer_tokens_than_rejection(k: int, models: Models) -> None:
    """Sun et al. (2024), theorem 2."""
    k = min(k, 2) if models.n_vocab == 4 else k
    block, rejection = (
        n_accepted(committed(r, models, k, PLAIN)) for r in (BlockRule, RejectionRule)
    )
    assert block >= rejection - 1e-12


def test_the_papers_example_accepts_eleven_ninths_of_a_token_not_ten() -> None:
    """Sun et al. (2024), section 2; the tables are logarithms in single precision."""
    models = MODELS["the paper's"]
    rejection, block = (n_accepted(committed(rule, models, 2, PLAIN)) for rule in RULES)
    assert rejection == pytest.approx(10 / 9, abs=1e-6)
    assert block == pytest.approx(11 / 9, abs=1e-6)


def test_one_token_is_rejected_with_the_total_variation_distance() -> None:
    models = random_models(6)
    p = models.p((), PLAIN).probabilities
    q = candidates(models.draft(()), CONTEXT, PLAIN).distribution().probabilities
    found = n_accepted(committed(RejectionRule, models, 1, PLAIN))
    assert found == pytest.approx(1 - np.abs(p - q).sum() / 2, abs=1e-12)


@pytest.mark.parametrize("draft", list(itertools.product(range(3), repeat=2)))
@pytest.mark.parametrize("rule", RULES)
def test_copied_tokens_are_kept_as_often_as_samples_of_p_would_equal_them(
    rule: RuleOf, draft: Tokens
) -> None:
    """Even by `block`: a certain q leaves it nothing to trade."""
    models = random_models(7)
    first, second = (probability(models.p(draft[:i], PLAIN), draft[i]) for i in range(2))
    found = n_accepted(copied(rule, models, draft))
    assert found == pytest.approx(first + first * second, abs=1e-12)


@pytest.mark.parametrize("name", ["p equals q", "q almost p"])
def test_where_h_would_be_0_by_0_a_longer_prefix_is_kept_for_certain(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(s: float, z: float) -> float:
        assert (s, z) != (1, 0)
        return prefix_acceptance(s, z)

    monkeypatch.setattr(acceptance, "prefix_acceptance", asked)
    committed(BlockRule, MODELS[name], 3, PLAIN)
    assert prefix_acceptance(1.0, 0.0) == 1


rows = st.lists(st.integers(-12, 12).map(lambda i: i / 4), min_size=4, max_size=4).map(
    lambda values: np.array(values, dtype=np.float32)
)
several_rows = st.lists(rows, min_size=1, max_size=5)
sampled = st.sampled_from([PLAIN, FILTERED, PENALISED])
seeds = st.integers(0, 2**64 - 1)
stochastic = st.sampled_from([Accept.REJECTION, Accept.BLOCK])


@given(rows=several_rows, settings=sampled, seed=seeds, accept=stochastic)
def test_a_draft_model_equal_to_the_target_is_always_accepted(
    rows: list[Logits], settings: SamplingSettings, seed: int, accept: Accept
) -> None:
    rule = make_rule(accept, settings, seed)
    tokens: list[int] = []
    q: list[Distribution] = []
    for row in rows[:-1]:
        draw = rule.draw(row, 3 + len(tokens), [*CONTEXT, *tokens])
        assert draw.q is not None
        tokens.append(draw.token)
        q.append(draw.q)
    verdict = rule.verify(np.array(rows), Draft(tuple(tokens), tuple(q)), CONTEXT)
    assert len(verdict.tokens) == len(rows)


@given(row=rows, token=st.integers(0, 3), rule=st.sampled_from(RULES))
def test_a_copied_token_is_accepted_with_its_probability(
    row: Logits, token: int, rule: RuleOf
) -> None:
    models = Models(lambda tokens: row, lambda tokens: row, 4)
    d = models.p((), PLAIN)
    expected = float(d.probabilities[d.ids == token].sum())
    assert n_accepted(copied(rule, models, (token,))) == pytest.approx(expected, abs=1e-12)


@given(rows=st.lists(rows, min_size=2, max_size=2), draft=rows, settings=sampled, seed=seeds)
def test_with_one_draft_token_both_rules_are_the_same(
    rows: list[Logits], draft: Logits, settings: SamplingSettings, seed: int
) -> None:
    verdicts = []
    for accept in (Accept.REJECTION, Accept.BLOCK):
        rule = make_rule(accept, settings, seed)
        draw = rule.draw(draft, 3, CONTEXT)
        assert draw.q is not None
        verdicts.append(rule.verify(np.array(rows), Draft((draw.token,), (draw.q,)), CONTEXT))
    assert verdicts[0] == verdicts[1]


@given(rows=several_rows, settings=sampled, seed=seeds, data=st.data())
def test_a_coupled_choice_depends_neither_on_q_nor_on_the_draft(
    rows: list[Logits], settings: SamplingSettings, seed: int, data: st.DataObject
) -> None:
    tokens = tuple(data.draw(st.integers(0, 3)) for _ in rows[:-1])
    q = tuple(data.draw(st.sampled_from([sparse([1, 0, 0, 3]), sparse([0, 1])])) for _ in tokens)
    rule = make_rule(Accept.COUPLED, settings, seed)
    verdict = rule.verify(np.array(rows), Draft(tokens, q), CONTEXT)
    for i, token in enumerate(verdict.tokens):
        context = [*CONTEXT, *tokens[:i]]
        assert rule.verify(np.array(rows[i : i + 1]), NO_DRAFT, context).tokens == (token,)


@given(rows=several_rows, accept=st.sampled_from(list(Accept)), seed=seeds, data=st.data())
def test_at_temperature_zero_every_rule_is_greedy(
    rows: list[Logits], accept: Accept, seed: int, data: st.DataObject
) -> None:
    rule = make_rule(accept, SamplingSettings(temp=0), seed)
    best = [int(np.argmax(row)) for row in rows]
    tokens = tuple(data.draw(st.integers(0, 3)) for _ in rows[:-1])
    verdict = rule.verify(np.array(rows), Draft(tokens), CONTEXT)
    n = next((i for i, token in enumerate(tokens) if token != best[i]), len(tokens))
    assert verdict.tokens == tuple(best[: n + 1])
    assert rule.draw(rows[0], 3, CONTEXT).token == best[0]


def test_each_rule_has_its_name() -> None:
    made = {accept: type(make_rule(accept, PLAIN, 1)) for accept in Accept}
    assert made == {"coupled": MatchRule, "rejection": RejectionRule, "block": BlockRule}


def test_rejection_looks_at_no_row_after_the_first_rejected_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Tokens] = []

    def recorded(
        row: Logits, history: Sequence[int], settings: SamplingSettings, constraint: None
    ) -> Candidates:
        seen.append(tuple(history))
        return candidates(row, history, settings)

    monkeypatch.setattr(acceptance, "candidates", recorded)
    models = Models(constant(0.5, 0.5, 0), constant(1, 0, 0), 3)
    verified(models, RejectionRule(PLAIN, lambda: 0.25), Draft((0, 1, 2, 0, 0)))
    assert seen == [(), (0,), (0, 1)]


def test_a_seed_decides_everything_and_another_seed_something_else() -> None:
    models = random_models(8)

    def texts(accept: Accept, seed: int) -> list[Tokens]:
        rule = make_rule(accept, PLAIN, seed)
        assert isinstance(rule, SamplingRule)
        return [verified(models, rule, drawn(models, rule, 3)) for _ in range(20)]

    for accept in (Accept.REJECTION, Accept.BLOCK):
        assert texts(accept, 2**64 - 1) == texts(accept, 2**64 - 1)
        assert texts(accept, 1) != texts(accept, 2)


def test_a_rejection_that_only_rounding_can_ask_for_commits_a_token_of_the_target() -> None:
    """A q that is p but for its last bits, and numbers as near to 1 as they come."""
    p = candidates(random_models(1).target(()), CONTEXT, PLAIN).distribution()
    above = Distribution(p.ids, np.nextafter(p.probabilities, 2))
    models = Models(random_models(1).target, random_models(1).draft, 3)
    for rule in RULES:
        made = rule(PLAIN, lambda: 1 - 2**-53)
        assert verified(models, made, Draft((0,), (above,))) == (2,)
