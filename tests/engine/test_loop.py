"""The loop on tables: speculative decoding emits what plain decoding emits, whatever is drafted."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.errors import UsageError
from spec_cli.events import DraftingOff, FinishReason, Origin, PromptProgress, TextDelta
from spec_cli.spec.acceptance import make_rule
from spec_cli.spec.costs import PassTimes
from spec_cli.spec.interfaces import Budget, Draft, Drafter, Source
from spec_cli.spec.meter import PassMeter
from spec_cli.spec.policy import CostAware
from spec_cli.spec.rounds import FixedRound
from spec_cli.spec.settings import Accept, SamplingSettings
from spec_cli.spec.survival import Survival
from tests.engine.fakes import EOG, ScriptedDrafter, TableLM
from tests.engine.generation import (
    GREEDY,
    SAMPLED,
    Run,
    chain_drafter,
    generate,
    model_drafter,
    ngram_drafter,
)

PENALISED = SamplingSettings(temp=0.9, repeat_penalty=1.4, presence_penalty=0.3, repeat_last_n=5)


def endless(seed: int = 0, **kwargs: int) -> TableLM:
    """A table that never chooses the end-of-generation token."""
    model = TableLM(seed=seed, **kwargs)
    model._table[..., EOG] = -1e9
    return model


def oracle_with_errors(plain: Sequence[int], n_prompt: int, wrong: Sequence[bool]) -> Drafter:
    """Drafts plain decoding's own tokens, but a wrong one wherever `wrong` says so."""

    def script(context: Sequence[int], k: int) -> list[int]:
        at = len(context) - n_prompt
        return [
            (token + 1) % 5 if wrong[i % len(wrong)] else token
            for i, token in enumerate(plain[at : at + k], start=at)
        ]

    return ScriptedDrafter(script)


@pytest.mark.parametrize("settings", [GREEDY, SAMPLED, PENALISED])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_every_pattern_of_accepted_and_rejected_drafts_leaves_the_tokens_unchanged(
    settings: SamplingSettings, k: int
) -> None:
    plain = generate(endless(), settings=settings, max_tokens=9).tokens
    for wrong in itertools.product([False, True], repeat=6):
        drafter = oracle_with_errors(plain, 2, wrong)
        run = generate(endless(), drafter, k=k, settings=settings, max_tokens=9)
        assert run.tokens == plain


@pytest.mark.parametrize("k", range(1, 7))
@pytest.mark.parametrize("max_tokens", range(0, 14))
def test_every_value_of_max_tokens_gives_exactly_that_many(k: int, max_tokens: int) -> None:
    plain = generate(endless(), max_tokens=14).tokens
    drafter = oracle_with_errors(plain, 2, [False])
    run = generate(endless(), drafter, k=k, max_tokens=max_tokens)
    assert run.tokens == plain[:max_tokens]
    assert run.finished.reason is FinishReason.LENGTH


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("end_at", range(9))
def test_an_end_of_generation_token_at_any_place_ends_the_text_there(k: int, end_at: int) -> None:
    plain = list(generate(endless(), max_tokens=9).tokens)
    scripted = [*plain[:end_at], EOG, *plain[end_at:]]
    target = endless()

    class EndsAt(TableLM):
        """Follows `endless`, but chooses the end at one position and would go on after it."""

        def row(self, context: Sequence[int]):  # type: ignore[no-untyped-def]
            row = target.row(context).copy()
            if len(context) - 2 == end_at:
                row[EOG] = 1e9
            return row

    for drafter in (None, oracle_with_errors(scripted, 2, [False])):
        run = generate(EndsAt(), drafter, k=k, max_tokens=30)
        assert list(run.tokens) == [*plain[:end_at], EOG]
        assert run.finished.reason is FinishReason.STOP
        assert run.text == "".join(chr(97 + t) for t in plain[:end_at])


@pytest.mark.parametrize("k", [1, 3, 7])
@pytest.mark.parametrize("n_ctx", range(4, 12))
def test_a_full_context_ends_the_text_where_plain_decoding_ends(k: int, n_ctx: int) -> None:
    plain = generate(endless(n_ctx=n_ctx), max_tokens=99)
    drafter = oracle_with_errors(plain.tokens, 2, [False])
    run = generate(endless(n_ctx=n_ctx), drafter, k=k, max_tokens=99)
    assert run.tokens == plain.tokens
    assert len(run.tokens) == n_ctx + 1 - 2
    assert run.finished.reason is FinishReason.LENGTH


@pytest.mark.parametrize("settings", [GREEDY, SAMPLED])
@pytest.mark.parametrize("k", [1, 2, 4, 7])
def test_a_stop_string_cuts_the_text_where_plain_decoding_cuts_it(
    settings: SamplingSettings, k: int
) -> None:
    whole = generate(endless(3), settings=settings, max_tokens=14)
    stops = {whole.text[i:j] for i in range(14) for j in range(i + 1, min(i + 4, 15))}
    for stop in stops:
        plain = generate(endless(3), settings=settings, max_tokens=14, stop=[stop])
        drafter = oracle_with_errors(whole.tokens, 2, [False])
        run = generate(endless(3), drafter, k=k, settings=settings, max_tokens=14, stop=[stop])
        assert run.text == plain.text == whole.text[: whole.text.index(stop)]
        assert run.tokens == plain.tokens
        assert run.finished.reason is FinishReason.STOP_STRING
        assert run.finished.stop == stop


@pytest.mark.parametrize("k", [1, 2, 4, 7])
def test_choices_beyond_a_stop_string_are_no_near_ties_of_the_text(k: int) -> None:
    """The margin is so wide that every choice is one."""
    whole = generate(endless(3), max_tokens=14)
    for i in range(14):
        drafter = oracle_with_errors(whole.tokens, 2, [False])
        run = generate(endless(3), drafter, k=k, stop=[whole.text[i]], tie_margin=1e6)
        assert run.finished.stats.n_near_ties == len(run.tokens)


def model_run(
    draft: TableLM, *, k: int, settings: SamplingSettings, max_tokens: int, **kwargs: int
) -> Run:
    rule = make_rule(Accept.COUPLED, settings, 7)
    drafter = model_drafter(draft, rule, n_shared=min(draft.n_vocab, 5))
    run = generate(endless(1, **kwargs), drafter, k=k, settings=settings, max_tokens=max_tokens)
    context = [1, 2, *run.tokens]
    assert draft.kv == context[: len(draft.kv)]  # I2
    return run


@given(
    draft_seed=st.integers(0, 50),
    k=st.integers(1, 7),
    settings=st.sampled_from([GREEDY, SAMPLED, PENALISED]),
    max_tokens=st.integers(1, 25),
)
def test_a_draft_model_changes_nothing_but_the_number_of_passes(
    draft_seed: int, k: int, settings: SamplingSettings, max_tokens: int
) -> None:
    plain = generate(endless(1), settings=settings, max_tokens=max_tokens)
    run = model_run(TableLM(seed=draft_seed), k=k, settings=settings, max_tokens=max_tokens)
    assert run.tokens == plain.tokens
    assert len(run.rounds) <= len(plain.rounds)


@pytest.mark.parametrize("settings", [GREEDY, SAMPLED])
def test_a_draft_equal_to_the_target_is_always_accepted(settings: SamplingSettings) -> None:
    run = model_run(endless(1), k=3, settings=settings, max_tokens=21)
    assert run.finished.stats.acceptance_rate == 1
    assert [r.n_emitted for r in run.rounds] == [1, 4, 4, 4, 4, 4]


@pytest.mark.parametrize("draft_seed", range(6))
def test_no_token_is_evaluated_twice_by_the_draft_model(draft_seed: int) -> None:
    draft = TableLM(seed=draft_seed)
    run = model_run(draft, k=3, settings=SAMPLED, max_tokens=20)
    # Each kept token once, and once each rejected draft token but a round's last, never evaluated.
    n_rejected_and_evaluated = sum(
        max(0, r.n_drafted - 1 - r.n_accepted) for r in run.rounds if r.n_drafted
    )
    assert draft.n_evaluated == len(draft.kv) + n_rejected_and_evaluated


@pytest.mark.parametrize("n_ctx", [3, 5, 9])
def test_a_draft_with_a_smaller_context_stops_drafting_and_the_text_goes_on(n_ctx: int) -> None:
    plain = generate(endless(1), max_tokens=20)
    run = model_run(endless(1, n_ctx=n_ctx), k=3, settings=GREEDY, max_tokens=20)
    assert run.tokens == plain.tokens


def test_a_correction_that_repeats_the_rejected_token_is_evaluated_like_any_other() -> None:
    """The sampling rules can come to it, by rounding."""
    draft = TableLM(seed=1)
    rule = make_rule(Accept.COUPLED, GREEDY, 7)
    drafter = model_drafter(draft, rule, is_end=lambda t: False)
    context = [1, 2]
    drafter.begin(context)
    first = drafter.propose(context, FixedRound(3)).tokens
    context.append(first[0])
    drafter.commit(context)
    assert drafter.propose(context, FixedRound(2)).tokens == first[1:]
    assert draft.kv == [*context, first[1]]


def test_token_ids_that_only_the_target_knows_never_reach_the_draft() -> None:
    draft = TableLM(seed=1, n_vocab=3)
    drafter = model_drafter(draft, make_rule(Accept.COUPLED, GREEDY, 7), n_shared=3)
    target = endless(1)
    plain = generate(endless(1), max_tokens=20)
    assert max(plain.tokens) >= 3
    assert generate(target, drafter, max_tokens=20).tokens == plain.tokens


def test_token_ids_that_only_the_draft_knows_are_never_proposed() -> None:
    draft = TableLM(seed=1, n_vocab=9)
    draft._table[..., 5:] = 1e9
    run = model_run(draft, k=3, settings=GREEDY, max_tokens=20)
    assert run.tokens == generate(endless(1), max_tokens=20).tokens
    assert run.finished.stats.n_drafted > 0


@given(seed=st.integers(0, 30), k=st.integers(1, 7), settings=st.sampled_from([GREEDY, SAMPLED]))
def test_an_ngram_drafter_changes_nothing_but_the_number_of_passes(
    seed: int, k: int, settings: SamplingSettings
) -> None:
    plain = generate(endless(seed), settings=settings, max_tokens=40)
    run = generate(endless(seed), ngram_drafter(), k=k, settings=settings, max_tokens=40)
    assert run.tokens == plain.tokens


def watched(drafter: Drafter, see: Callable[[Draft], None]) -> Drafter:
    """The same drafter; `see` is shown every draft."""
    propose = drafter.propose

    def seen(context: Sequence[int], budget: Budget) -> Draft:
        draft = propose(context, budget)
        see(draft)
        return draft

    drafter.propose = seen  # type: ignore[method-assign]
    return drafter


@given(
    seeds=st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30)),
    k=st.integers(1, 7),
    settings=st.sampled_from([GREEDY, SAMPLED, PENALISED]),
)
def test_a_chain_of_copies_and_guesses_changes_nothing_but_the_number_of_passes(
    seeds: tuple[int, int, int], k: int, settings: SamplingSettings
) -> None:
    target_seed, draft_seed, seed = seeds
    draft = TableLM(seed=draft_seed)
    drafter = chain_drafter(draft, make_rule(Accept.COUPLED, settings, seed))
    plain = generate(endless(target_seed), settings=settings, seed=seed, max_tokens=40)
    run = generate(endless(target_seed), drafter, k=k, settings=settings, seed=seed, max_tokens=40)
    assert run.tokens == plain.tokens
    assert len(run.rounds) <= len(plain.rounds)
    assert draft.kv == [1, 2, *run.tokens][: len(draft.kv)]  # I2


seconds = st.floats(0.01, 10.0)


@given(
    seeds=st.tuples(st.integers(0, 30), st.integers(0, 30)),
    settings=st.sampled_from([GREEDY, SAMPLED, PENALISED]),
    pass_s=st.lists(seconds, min_size=8, max_size=8),
    guess_s=st.one_of(st.just(0.0), seconds),
    widths=st.lists(st.integers(1, 8), min_size=1, max_size=8).map(sorted),
)
def test_no_costs_make_a_policy_change_the_text(
    seeds: tuple[int, int],
    settings: SamplingSettings,
    pass_s: list[float],
    guess_s: float,
    widths: list[int],
) -> None:
    target_seed, draft_seed = seeds
    draft, survival = TableLM(seed=draft_seed), Survival()
    drafter = chain_drafter(draft, make_rule(Accept.COUPLED, settings, 7), survival)
    policy = CostAware(
        PassMeter(PassTimes(tuple(range(1, 9)), tuple(pass_s))),
        PassMeter(PassTimes((1, 8), (guess_s, guess_s))),
        survival,
        widths=widths,
    )
    plain = generate(endless(target_seed), settings=settings, max_tokens=40)
    run = generate(endless(target_seed), drafter, policy=policy, settings=settings, max_tokens=40)
    assert run.tokens == plain.tokens
    assert max(r.n_drafted for r in run.rounds) < len(widths)
    assert draft.kv == [1, 2, *run.tokens][: len(draft.kv)]  # I2


def test_a_chain_goes_on_with_a_guess_after_copies_and_with_copies_after_a_guess() -> None:
    changes: set[tuple[Source, Source]] = set()

    def see(draft: Draft) -> None:
        sources = [evidence.source for evidence in draft.evidence]
        assert len(sources) == len(draft.tokens)
        changes.update(itertools.pairwise(sources))

    for seed in range(8):
        rule = make_rule(Accept.COUPLED, SAMPLED, seed)
        drafter = watched(chain_drafter(TableLM(seed=seed), rule), see)
        generate(endless(seed), drafter, k=7, settings=SAMPLED, seed=seed, max_tokens=60)
    assert changes >= {(Source.MODEL, Source.COPY), (Source.COPY, Source.MODEL)}


def test_where_the_model_has_no_guess_copies_that_are_not_sure_are_taken() -> None:
    """Two matches that disagree: with a model at hand, its guess goes first."""
    prompt = [1, 2, 3, 4, 2, 1, 2, 4, 4, 2, 1, 2]
    rule = make_rule(Accept.COUPLED, GREEDY, 1)
    sources = []
    for n_ctx in (len(prompt), len(prompt) - 1):
        drafter = chain_drafter(endless(n_ctx=n_ctx), rule)
        drafter.begin(prompt)
        sources.append([known.source for known in drafter.propose(prompt, FixedRound(3)).evidence])
    assert sources[0][0] is Source.MODEL
    assert sources[1] == [Source.COPY] * 3


def test_nothing_is_copied_beyond_an_end_of_generation_token() -> None:
    prompt = [1, 2, 3, 4, 1, 2, 3, EOG, 4, 4, 1, 2, 3, 4, 1, 2, 3]
    for drafter in (
        ngram_drafter(),
        chain_drafter(TableLM(), make_rule(Accept.COUPLED, GREEDY, 1)),
    ):
        drafter.begin(prompt)
        assert drafter.propose(prompt, FixedRound(6)).tokens == (EOG,)


def test_greedy_text_that_repeats_is_copied_by_the_ngram_drafter() -> None:
    run = generate(endless(4), ngram_drafter(), k=5, max_tokens=50)
    assert (run.finished.stats.acceptance_length or 0) > 2


def test_a_drafter_that_stops_at_once_gives_plain_rounds() -> None:
    run = generate(endless(), ScriptedDrafter(lambda context, k: ()), max_tokens=6)
    assert run.tokens == generate(endless(), max_tokens=6).tokens
    assert run.finished.stats.acceptance_rate is None


def test_the_prompt_is_evaluated_in_chunks_and_its_progress_reported() -> None:
    prompt = [1 + i % 4 for i in range(20)]
    run = generate(endless(), prompt=prompt, max_tokens=3)
    progress = [(e.done, e.total) for e in run.events if isinstance(e, PromptProgress)]
    assert progress == [(8, 20), (16, 20), (19, 20)]


def test_a_prompt_that_fills_the_context_still_yields_one_token() -> None:
    prompt = [1 + i % 4 for i in range(64)]
    assert len(generate(endless(), prompt=prompt, max_tokens=5).tokens) == 1


def test_a_prompt_longer_than_the_context_is_refused_with_both_numbers() -> None:
    with pytest.raises(UsageError, match=r"65 tokens.*holds 64") as caught:
        generate(endless(), prompt=[1] * 65)
    assert caught.value.exit_code == 2


def test_the_first_round_waits_for_no_drafter() -> None:
    run = model_run(endless(1), k=3, settings=GREEDY, max_tokens=8)
    assert run.rounds[0].n_drafted == 0


def test_each_token_is_labelled_with_its_origin() -> None:
    plain = generate(endless(), max_tokens=8).tokens
    drafter = oracle_with_errors(plain, 2, [False, False, False, False, False, True, False])
    run = generate(endless(), drafter, k=3, max_tokens=8)
    origins = [e.origin for e in run.events if isinstance(e, TextDelta)]
    d, c, b = Origin.DRAFT, Origin.CORRECTION, Origin.BONUS
    assert origins == [Origin.PLAIN, d, d, d, b, c, d, b]


def test_nothing_is_drafted_after_an_end_of_generation_token() -> None:
    draft = TableLM(seed=1)
    draft._table[..., EOG] = 1e9
    run = model_run(draft, k=5, settings=GREEDY, max_tokens=6)
    assert {r.n_drafted for r in run.rounds[1:-1]} == {1}


def test_a_run_in_which_nothing_was_worth_drafting_says_so_before_it_ends() -> None:
    widths = tuple(range(1, 17))
    linear = PassMeter(PassTimes(widths, tuple(map(float, widths))))
    policy = CostAware(linear, None, Survival(), widths=widths)
    run = generate(endless(), ngram_drafter(), policy=policy, max_tokens=8)
    assert run.finished.stats.n_drafted == 0
    (off,) = [e for e in run.events if isinstance(e, DraftingOff)]
    assert "checking a guess takes 1.00 of a plain step" in off.reason


def test_a_run_in_which_there_was_no_guess_says_so_before_it_ends() -> None:
    no_guess = ScriptedDrafter(lambda context, k: ())
    run = generate(endless(), no_guess, k=3, max_tokens=8)
    (off,) = [e for e in run.events if isinstance(e, DraftingOff)]
    # The first round waits for no drafter, and the last has no room for a guess.
    assert off.reason == "the drafter had no guess in 6 rounds"
    for drafter, k in ((no_guess, 0), (oracle_with_errors([1] * 9, 2, [False]), 3)):
        run = generate(endless(), drafter, k=k, max_tokens=8)
        assert not [e for e in run.events if isinstance(e, DraftingOff)]
