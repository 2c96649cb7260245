"""Grammars, biases and log-probabilities on a tiny real pair: the same with and without drafts."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spec_cli.errors import UsageError
from spec_cli.events import (
    Event,
    Finished,
    FinishReason,
    Notice,
    ReasoningDelta,
    ScoredToken,
    TextDelta,
    TokensScored,
)
from spec_cli.grammar.json_schema import schema_to_gbnf
from spec_cli.llama.model import LlamaModel, LoadSettings
from spec_cli.llama.probe import Prober
from spec_cli.loader import Loader
from spec_cli.reasoning import find_format
from spec_cli.session import NO_ANSWER, Session
from spec_cli.settings import DrafterKind, GenerationSettings
from spec_cli.spec.costs import TARGET_WIDTHS
from spec_cli.spec.exactness import DEFAULT_KERNELS
from spec_cli.spec.settings import Accept, Exact, SamplingSettings
from spec_cli.text import Opening
from tests.contract.test_exact_session import plan
from tests.contract.test_session import Desk, desk, run, settings, tokens_of  # noqa: F401
from tests.tiny_gguf import bpe_vocab, write_tiny_model

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "kind": {"enum": ["hello", "there"]},
        "counts": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 4},
    },
    "required": ["name", "kind", "counts"],
}
OBJECT = schema_to_gbnf(json.dumps(SCHEMA))
GREEDY = GenerationSettings(
    seed=1, sampling=SamplingSettings(temp=0), max_tokens=200, grammar=OBJECT
)
SAMPLED = replace(GREEDY, seed=5, sampling=SamplingSettings(temp=1.2))
WIDE = replace(
    GREEDY, seed=3, sampling=SamplingSettings(temp=1.0, top_k=0, min_p=0.0, repeat_penalty=1.2)
)
DRAFTERS = [DrafterKind.MODEL, DrafterKind.NGRAM, DrafterKind.CHAIN]


def text_of(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def scores_of(events: Sequence[Event]) -> list[ScoredToken]:
    rounds = [event.tokens for event in events if isinstance(event, TokensScored)]
    return [score for scores in rounds for score in scores]


def end_of(events: Sequence[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


def satisfies(text: str) -> bool:
    value = json.loads(text)
    return (
        list(value) == ["name", "kind", "counts"]
        and len(value["name"]) <= 12
        and value["kind"] in ("hello", "there")
        and 1 <= len(value["counts"]) <= 4
        and all(isinstance(n, int) for n in value["counts"])
    )


@pytest.mark.parametrize("generation", [GREEDY, SAMPLED, WIDE], ids=["greedy", "sampled", "wide"])
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("k", [1, 4, 9])
def test_constrained_text_is_that_of_plain_decoding_and_valid(
    desk: Desk,  # noqa: F811
    tiny_target: Path,
    tiny_draft: Path,
    generation: GenerationSettings,
    drafter: DrafterKind,
    k: int,
) -> None:
    off, env = settings(drafter=DrafterKind.NONE), desk.environment
    with Session(tiny_target, None, off, env) as session:
        plain = run(session, generation)
    with Session(
        tiny_target, tiny_draft, settings(drafter=drafter, draft_tokens=k), env
    ) as session:
        events = run(session, generation)
        last = tokens_of(events)[-1]
        assert session.model.is_end(last)
    assert tokens_of(events) == tokens_of(plain)
    assert end_of(events).reason is end_of(plain).reason is FinishReason.STOP
    assert satisfies(text_of(events))
    if drafter is not DrafterKind.NGRAM:
        assert end_of(events).stats.n_accepted > 0


@pytest.mark.parametrize("accept", [Accept.REJECTION, Accept.BLOCK])
def test_the_sampling_rules_keep_to_the_grammar_too(
    desk: Desk,  # noqa: F811
    tiny_target: Path,
    tiny_draft: Path,
    accept: Accept,
) -> None:
    with Session(tiny_target, tiny_draft, settings(draft_tokens=4), desk.environment) as session:
        for seed in range(6):
            events = run(session, replace(SAMPLED, seed=seed, accept=accept))
            assert satisfies(text_of(events))
            assert end_of(events).stats.n_drafted > 0


def test_a_cut_answer_is_a_beginning_and_says_so(
    desk: Desk,  # noqa: F811
    tiny_target: Path,
) -> None:
    with Session(tiny_target, None, settings(), desk.environment) as session:
        events = run(session, replace(GREEDY, max_tokens=6))
        whole = text_of(run(session, GREEDY))
    (notice,) = [event for event in events if isinstance(event, Notice)]
    assert "cut after 6 tokens" in notice.message and notice.level == "warning"
    assert end_of(events).reason is FinishReason.LENGTH
    assert whole.startswith(text_of(events))


def test_a_complete_answer_says_nothing(desk: Desk, tiny_target: Path) -> None:  # noqa: F811
    with Session(tiny_target, None, settings(), desk.environment) as session:
        events = run(session, replace(GREEDY, grammar='root ::= "hello"', max_tokens=5))
        assert not [event for event in events if isinstance(event, Notice)]
        n_needed = len(tokens_of(events))
        events = run(session, replace(GREEDY, grammar='root ::= "hello"', max_tokens=n_needed - 1))
    assert text_of(events) == "hello"
    assert end_of(events).reason is FinishReason.LENGTH
    assert not [event for event in events if isinstance(event, Notice)]


@pytest.fixture(scope="module")
def thinkers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A pair that has one token for the end of its reasoning, and says it often enough."""
    directory = tmp_path_factory.mktemp("thinkers")
    vocab = bpe_vocab(renamed={ord("e"): "</think>", ord("q"): "<think>"})
    target = write_tiny_model(directory / "target.gguf", vocab=vocab)
    return target, write_tiny_model(directory / "draft.gguf", n_layer=1, noise=0.1, vocab=vocab)


def opening_of(session: Session, *, has_begun: bool, given: str = "") -> Opening:
    reasoning = find_format(session.model, "</think>", "<think>\n" if has_begun else "")
    assert reasoning is not None
    return Opening(given, reasoning)


@pytest.mark.parametrize("temp", [0.0, 1.5])
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("has_begun", [True, False])
def test_reasoning_is_free_and_the_answer_after_it_is_that_of_plain_decoding_and_valid(
    desk: Desk,  # noqa: F811
    thinkers: tuple[Path, Path],
    has_begun: bool,
    drafter: DrafterKind,
    temp: float,
) -> None:
    # This model repeats itself, unless it may not, and hardly ever begins to reason.
    bias = ((ord("e"), 2.0), (ord("q"), 0.0 if has_begun else 30.0))
    sampling = SamplingSettings(temp=temp, logit_bias=bias, presence_penalty=50.0)
    generation = replace(GREEDY, sampling=sampling, grammar='root ::= "[" [0-9]{2,9} "]"')
    found = []
    for kind in (DrafterKind.NONE, drafter):
        asked = settings(drafter=kind, draft_tokens=4 if kind is drafter else None)
        with Session(*thinkers, asked, desk.environment) as session:
            opening = opening_of(session, has_begun=has_begun)
            found.append(run(session, generation, opening=opening))
    plain, events = found
    assert tokens_of(events) == tokens_of(plain)
    assert end_of(events).reason is FinishReason.STOP
    assert re.fullmatch(r"\[\d{2,9}\]", text_of(events))
    reasoning = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    assert reasoning and not re.search(r"\[\d", reasoning)


def test_reasoning_that_is_cut_is_told_once(
    desk: Desk,  # noqa: F811
    thinkers: tuple[Path, Path],
) -> None:
    sampling = SamplingSettings(logit_bias=((ord("e"), -np.inf),))
    with Session(*thinkers, settings(), desk.environment) as session:
        generation = replace(GREEDY, sampling=sampling, max_tokens=9, ignore_eos=False)
        events = run(session, generation, opening=opening_of(session, has_begun=True))
    assert [event for event in events if isinstance(event, Notice)] == [NO_ANSWER]


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_a_prefill_counts_as_the_beginning_of_what_the_grammar_allows(
    desk: Desk,  # noqa: F811
    tiny_target: Path,
    tiny_draft: Path,
    drafter: DrafterKind,
) -> None:
    opening = Opening('{"name": "Ada é", "ki')
    found = []
    for kind in (DrafterKind.NONE, drafter):
        asked = settings(drafter=kind, draft_tokens=4 if kind is drafter else None)
        with Session(tiny_target, tiny_draft, asked, desk.environment) as session:
            found.append(run(session, SAMPLED, opening=opening))
    plain, events = found
    assert tokens_of(events) == tokens_of(plain)
    assert text_of(events).startswith(opening.given) and satisfies(text_of(events))


def test_a_prefill_may_begin_with_the_reasoning(
    desk: Desk,  # noqa: F811
    thinkers: tuple[Path, Path],
) -> None:
    generation = replace(SAMPLED, grammar='root ::= "ok" [0-9]')
    with Session(*thinkers, settings(), desk.environment) as session:
        for given, has_begun in (("<think>x</think> o", False), ("x</think>ok", True)):
            opening = opening_of(session, has_begun=has_begun, given=given)
            events = run(session, generation, opening=opening)
            assert re.fullmatch("ok[0-9]", text_of(events))


@pytest.mark.parametrize(
    ("given", "where"),
    [("{x", "'x' cannot come after '{'"), ("Sure: {", "'S' cannot be first")],
)
def test_a_prefill_that_breaks_the_grammar_is_refused_with_the_place(
    desk: Desk,  # noqa: F811
    tiny_target: Path,
    given: str,
    where: str,
) -> None:
    with (
        Session(tiny_target, None, settings(), desk.environment) as session,
        pytest.raises(UsageError, match=re.escape(where)),
    ):
        run(session, GREEDY, opening=Opening(given))


def test_another_grammar_in_the_same_session(desk: Desk, tiny_target: Path) -> None:  # noqa: F811
    with Session(tiny_target, None, settings(), desk.environment) as session:
        texts = [
            text_of(run(session, replace(SAMPLED, grammar=grammar)))
            for grammar in ('root ::= "a" [0-9]', OBJECT, 'root ::= "a" [0-9]')
        ]
    assert texts[0] == texts[2] and texts[0][0] == "a" and satisfies(texts[1])


FREE = replace(SAMPLED, grammar=None, max_tokens=30)


def test_an_ignored_end_does_not_come(
    desk: Desk,  # noqa: F811
    tiny_target: Path,
    tiny_draft: Path,
) -> None:
    with Session(tiny_target, tiny_draft, settings(draft_tokens=3), desk.environment) as session:
        biased = tuple((end, 50.0) for end in session.model.ends)
        eager = replace(FREE, sampling=replace(FREE.sampling, logit_bias=biased))
        assert end_of(run(session, eager)).reason is FinishReason.STOP
        events = run(session, replace(eager, ignore_eos=True))
        assert end_of(events).reason is FinishReason.LENGTH
        assert not any(session.model.is_end(token) for token in tokens_of(events))


def test_a_bias_counts_with_drafts_as_without(
    desk: Desk,  # noqa: F811
    tiny_target: Path,
    tiny_draft: Path,
) -> None:
    env = desk.environment
    with Session(tiny_target, None, settings(drafter=DrafterKind.NONE), env) as session:
        first = tokens_of(run(session, FREE))
        common = max(set(first), key=first.count)
        bias = ((common, -np.inf), (first[-1] + 1, 2.0))
        biased = replace(FREE, sampling=replace(FREE.sampling, logit_bias=bias))
        plain = tokens_of(run(session, biased))
    assert common not in plain
    with Session(tiny_target, tiny_draft, settings(draft_tokens=4), env) as session:
        assert tokens_of(run(session, biased)) == plain


def test_a_bias_for_a_token_that_is_not_there_is_refused(
    desk: Desk,  # noqa: F811
    tiny_target: Path,
) -> None:
    sampling = SamplingSettings(logit_bias=((320, 1.0),))
    with (
        Session(tiny_target, None, settings(), desk.environment) as session,
        pytest.raises(UsageError, match="token 320, but the ids of this model end at 319"),
    ):
        run(session, replace(FREE, sampling=sampling))


@pytest.mark.parametrize("generation", [FREE, GREEDY], ids=["sampled", "grammar"])
def test_log_probabilities_are_those_of_the_targets_own_rows(
    desk: Desk,  # noqa: F811
    tiny_target: Path,
    tiny_draft: Path,
    generation: GenerationSettings,
) -> None:
    generation = replace(generation, n_logprobs=4)
    chosen = settings(drafter=DrafterKind.MODEL, draft_tokens=3, exact=Exact.ON)
    with LlamaModel(tiny_target, LoadSettings()) as model:
        prober = Prober(
            model, TARGET_WIDTHS, n_threads=1, clock=desk.clock, cancelled=lambda: False
        )
        found = plan(prober.probe(DEFAULT_KERNELS).classes[0])
    Loader(chosen, desk.environment)._planner(tiny_target)._keep(found)
    with Session(tiny_target, tiny_draft, chosen, desk.environment) as session:
        assert session.plan == found
        events = run(session, generation)
        assert end_of(events).stats.n_accepted > 0
        tokens = session.model.tokenize("hello there, hello", special=False, bos=False)
        arm = session.arm(generation, None, DrafterKind.NONE, n_prompt=len(tokens))
        plain = list(session.generate(tokens, generation, arm))
        scores = scores_of(events)
        assert scores == scores_of(plain)  # to the last bit
        assert [score.chosen.token for score in scores] == list(tokens_of(events))
        target = session.target
        target.rollback(0)
        target.eval(tokens[:-1], n_rows=0)
        for last, score in zip([tokens[-1], *tokens_of(events)], scores, strict=False):
            row = target.eval([last])[0].astype(np.float64)
            expected = row - row.max() - np.log(np.exp(row - row.max()).sum())
            assert score.chosen.logprob == pytest.approx(expected[score.chosen.token], abs=1e-9)
            order = np.argsort(-expected, kind="stable")[:4]
            assert [likely.token for likely in score.likeliest] == order.tolist()
            assert [likely.logprob for likely in score.likeliest] == pytest.approx(
                expected[order].tolist(), abs=1e-9
            )
            piece = session.model.piece(score.chosen.token)
            assert score.chosen.piece == (piece or None)


def test_no_scores_come_where_none_are_asked_for(desk: Desk, tiny_target: Path) -> None:  # noqa: F811
    with Session(tiny_target, None, settings(), desk.environment) as session:
        assert not scores_of(run(session, FREE))
        scores = scores_of(run(session, replace(FREE, n_logprobs=0)))
        assert {len(score.likeliest) for score in scores} == {0}
