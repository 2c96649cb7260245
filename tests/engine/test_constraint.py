"""The loop under a constraint: plain text whoever drafts, p's distribution, nothing forbidden."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from spec_cli.drafters.chain import ChainDrafter
from spec_cli.drafters.copies import TextCopies
from spec_cli.drafters.model import DraftModel
from spec_cli.drafters.none import NoDrafter
from spec_cli.engine import Decoder
from spec_cli.events import FinishReason
from spec_cli.spec.acceptance import BlockRule, MatchRule, RejectionRule, make_rule
from spec_cli.spec.constraint import ConstrainedText
from spec_cli.spec.interfaces import AcceptanceRule, Drafter
from spec_cli.spec.policy import FixedLength
from spec_cli.spec.rounds import FixedRound
from spec_cli.spec.sampling import NothingAllowed, candidates
from spec_cli.spec.settings import Accept, SamplingSettings
from spec_cli.spec.survival import Survival
from spec_cli.text import Output
from tests.engine.fakes import EOG, ScriptedDrafter, TableLM, ticking_clock
from tests.engine.generation import GREEDY, SAMPLED, Run, check_invariants
from tests.toy_constraint import Tokens, Toy, path
from tests.toy_thinker import PIECES, follows, is_whole, text_of, thinker
from tests.unit.test_distribution import Uniform, outcomes
from tests.unit.test_reasoning import expected

PROMPT = (1, 2, 3, 1, 2, 3, 1)
PENALISED = SamplingSettings(temp=0.9, repeat_penalty=1.4, presence_penalty=0.3, repeat_last_n=5)
PLAIN = SamplingSettings(temp=1.0, top_k=0, top_p=1.0, min_p=0.0)


def rising(tokens: Tokens, x: int) -> bool:
    """Up by one or two, modulo 4 and from 1; the end only after three tokens, or six, ..."""
    if x == EOG:
        return len(tokens) > 0 and len(tokens) % 3 == 0
    return not tokens or (x - tokens[-1]) % 4 in (1, 2)


def toy(n_vocab: int = 5) -> Toy:
    return Toy(rising, n_vocab, end=EOG)


@dataclass(frozen=True)
class Parts:
    """What a drafter is made of."""

    rule: AcceptanceRule
    text: ConstrainedText
    n_vocab: int = 5

    def model(self) -> DraftModel:
        draft = TableLM(seed=4, n_vocab=self.n_vocab)
        return DraftModel(draft, self.rule, Survival(), n_shared=self.n_vocab)

    def chain(self, *, copies: bool, model: bool) -> Drafter:
        return ChainDrafter(
            TextCopies(Survival()) if copies else None,
            self.model() if model else None,
            is_end=lambda token: token == EOG,
            text=self.text,
        )


def wrong(context: Sequence[int], k: int) -> list[int]:
    """Tokens without regard for anything."""
    return [(context[-1] + i * i) % 5 for i in range(1, k + 1)]


DRAFTERS: dict[str, Callable[[Parts], Drafter]] = {
    "model": lambda parts: parts.chain(copies=False, model=True),
    "ngram": lambda parts: parts.chain(copies=True, model=False),
    "chain": lambda parts: parts.chain(copies=True, model=True),
    "scripted": lambda parts: ScriptedDrafter(wrong),
}


def generate(
    rule: AcceptanceRule,
    text: ConstrainedText,
    drafter: Drafter,
    *,
    k: int = 3,
    max_tokens: int = 30,
    seed: int = 1,
    n_vocab: int = 5,
) -> Run:
    target = TableLM(seed=seed, n_vocab=n_vocab)
    decoder = Decoder(target, drafter, rule, FixedLength(k), clock=ticking_clock())
    output = Output(
        lambda token: bytes([97 + token]), lambda token: token == EOG, max_tokens=max_tokens
    )
    run = Run(tuple(decoder.generate(PROMPT, output)))
    check_invariants(run, target, drafter, PROMPT)
    return run


def constrained(
    accept: Accept, settings: SamplingSettings, drafter: str | None, *, k: int = 3, seed: int = 1
) -> Run:
    text = ConstrainedText(toy(), len(PROMPT))
    rule = make_rule(accept, settings, 7, text=text)
    made = DRAFTERS[drafter](Parts(rule, text)) if drafter else NoDrafter()
    return generate(rule, text, made, k=k, seed=seed)


@pytest.mark.parametrize("settings", [GREEDY, SAMPLED, PENALISED], ids=["greedy", "t=1", "pen"])
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("k", [1, 3, 6])
def test_any_drafter_gives_the_text_of_plain_decoding(
    k: int, drafter: str, settings: SamplingSettings
) -> None:
    n_drafted = n_accepted = 0
    for seed in range(8):
        plain = constrained(Accept.COUPLED, settings, None, seed=seed)
        run = constrained(Accept.COUPLED, settings, drafter, k=k, seed=seed)
        assert (run.tokens, run.text) == (plain.tokens, plain.text)
        assert run.finished.reason == plain.finished.reason
        path(toy(), [t for t in run.tokens if t != EOG])  # asserts that each is allowed
        n_drafted += run.finished.stats.n_drafted
        n_accepted += run.finished.stats.n_accepted
    assert n_drafted > n_accepted > 0


@pytest.mark.parametrize("accept", list(Accept))
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_every_rule_ends_where_the_constraint_is_complete_and_nowhere_else(
    drafter: str, accept: Accept
) -> None:
    reasons = set()
    for seed in range(12):
        run = constrained(accept, SAMPLED, drafter, seed=seed)
        *body, last = run.tokens
        path(toy(), body)
        reasons.add(run.finished.reason)
        if run.finished.reason is FinishReason.STOP:
            assert last == EOG and len(body) % 3 == 0
    assert FinishReason.STOP in reasons


@pytest.mark.parametrize("accept", list(Accept))
@pytest.mark.parametrize("has_begun", [True, False])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_reasoning_is_free_and_the_answer_is_not_whoever_drafts(
    drafter: str, has_begun: bool, accept: Accept
) -> None:
    n_vocab = len(PIECES)
    reasoned = answered = 0
    for seed in range(10):
        runs = []
        for name in (None, drafter):
            text = ConstrainedText(thinker(has_begun=has_begun), len(PROMPT))
            rule = make_rule(accept, SAMPLED, 7, text=text)
            made = DRAFTERS[name](Parts(rule, text, n_vocab)) if name else NoDrafter()
            runs.append(generate(rule, text, made, seed=seed, n_vocab=n_vocab))
        plain, run = runs
        if accept is Accept.COUPLED:
            assert run.tokens == plain.tokens
        ended = run.finished.reason is FinishReason.STOP
        said = run.tokens[:-1] if ended else run.tokens
        reasoning, answer = expected(text_of(said), has_begun=has_begun)
        assert is_whole(answer) if ended else follows(answer) or answer in ("<", "<t")
        reasoned, answered = reasoned + bool(reasoning), answered + bool(answer)
    assert reasoned and answered


def two_words(tokens: Tokens, x: int) -> bool:
    """Three tokens of two, of which some sequences are forbidden; no end."""
    return (*tokens, x) not in ((0, 0), (1, 1, 0), (0, 1, 1))


def chances(n: int, settings: SamplingSettings) -> dict[Tokens, float]:
    """The probability of every text of `n` tokens under the masked target."""
    target = TableLM(seed=1, n_vocab=2)

    def chance(text: Tokens) -> float:
        product = 1.0
        for i, token in enumerate(text):
            state = Toy(two_words, 2, text[:i])
            context = [*PROMPT2, *text[:i]]
            masked = state.masked(target.row(context))
            d = candidates(masked, context, settings).distribution()
            product *= float(d.probabilities[d.ids == token].sum())
            if not product:
                break
        return product

    every = {text: chance(text) for text in itertools.product(range(2), repeat=n)}
    return {text: chance for text, chance in every.items() if chance}


PROMPT2 = (1, 0, 1, 1, 0, 1)


def some_text(rule: AcceptanceRule, drafter: Drafter, n: int, k: int) -> Tokens:
    target = TableLM(seed=1, n_vocab=2)
    decoder = Decoder(target, drafter, rule, FixedLength(k), clock=ticking_clock())
    output = Output(lambda token: bytes([97 + token]), lambda _: False, max_tokens=n)
    return Run(tuple(decoder.generate(PROMPT2, output))).tokens


@pytest.mark.parametrize("drafter", ["model", "chain", "ngram", "scripted"])
@pytest.mark.parametrize("make", [RejectionRule, BlockRule])
@pytest.mark.parametrize(
    "settings", [PLAIN, SamplingSettings(temp=0.8, repeat_penalty=1.5)], ids=["plain", "penalised"]
)
def test_a_generation_has_exactly_the_masked_targets_distribution(
    settings: SamplingSettings, make: type[RejectionRule] | type[BlockRule], drafter: str
) -> None:
    def program(uniform: Uniform) -> Tokens:
        text = ConstrainedText(Toy(two_words, 2), len(PROMPT2))
        rule = make(settings, uniform, text=text)
        parts = Parts(rule, text, n_vocab=2)
        model = parts.model() if drafter in ("model", "chain") else None
        copies = TextCopies(Survival()) if drafter in ("ngram", "chain") else None
        made: Drafter = ChainDrafter(copies, model, is_end=lambda _: False, text=text)
        if drafter == "scripted":
            made = ScriptedDrafter(lambda context, k: [0, 0, 1][:k])
        return some_text(rule, made, 4, 3)

    assert outcomes(program) == pytest.approx(chances(4, settings), abs=1e-12)


def test_the_seeds_of_the_coupled_rule_give_the_masked_targets_distribution() -> None:
    n, counts = 4000, dict.fromkeys(chances(2, PLAIN), 0)
    for seed in range(n):
        text = ConstrainedText(Toy(two_words, 2), len(PROMPT2))
        rule = make_rule(Accept.COUPLED, PLAIN, seed, text=text)
        counts[some_text(rule, NoDrafter(), 2, 1)] += 1
    for tokens, chance in chances(2, PLAIN).items():
        assert abs(counts[tokens] - n * chance) < 4 * np.sqrt(n * chance * (1 - chance))


def test_a_copy_is_cut_where_the_constraint_is_broken() -> None:
    text = ConstrainedText(Toy(lambda tokens, x: len(tokens) < 3 or x != 1, 5), len(PROMPT))
    rule = make_rule(Accept.COUPLED, GREEDY, 7, text=text)
    drafter = DRAFTERS["ngram"](Parts(rule, text))
    drafter.begin(PROMPT)
    text.commit([2])
    drafter.commit([*PROMPT, 2])
    assert drafter.propose([*PROMPT, 2], FixedRound(6)).tokens == (3, 1, 2, 3)


def test_the_draft_model_proposes_nothing_that_is_forbidden() -> None:
    for accept in Accept:
        text = ConstrainedText(toy(), len(PROMPT))
        rule = make_rule(accept, SAMPLED, 3, text=text)
        drafter = DRAFTERS["model"](Parts(rule, text))
        drafter.begin(PROMPT)
        tokens = drafter.propose(PROMPT, FixedRound(6)).tokens
        assert len(tokens) == 6 or tokens[-1] == EOG
        path(toy(), [t for t in tokens if t != EOG])


def test_where_only_tokens_of_the_target_are_allowed_nothing_is_guessed() -> None:
    text = ConstrainedText(Toy(lambda tokens, x: x == 4, 5), len(PROMPT))
    rule = make_rule(Accept.COUPLED, GREEDY, 7, text=text)
    model = DraftModel(TableLM(seed=4), rule, Survival(), n_shared=4)
    model.begin(PROMPT)
    assert model.guess(PROMPT, ()) is None


def test_a_constraint_that_allows_nothing_ends_the_run_with_its_reason() -> None:
    text = ConstrainedText(Toy(lambda tokens, x: x != EOG and len(tokens) < 4, 5), len(PROMPT))
    rule = make_rule(Accept.COUPLED, GREEDY, 7, text=text)
    assert isinstance(rule, MatchRule)
    with pytest.raises(NothingAllowed):
        generate(rule, text, NoDrafter())


def test_a_bias_forbids_a_token_at_accepted_positions_too() -> None:
    settings = SamplingSettings(temp=1.0, logit_bias=((EOG, -np.inf), (2, -np.inf)))
    for drafter in DRAFTERS:
        text = ConstrainedText(Toy(lambda tokens, x: True, 5), len(PROMPT))
        rule = make_rule(Accept.COUPLED, settings, 7, text=text)
        run = generate(rule, text, DRAFTERS[drafter](Parts(rule, text)))
        assert len(run.tokens) == 30 and not {EOG, 2} & {*run.tokens}
