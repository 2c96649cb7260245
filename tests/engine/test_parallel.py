"""Several texts at once: each is the text that the loop for one gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_cli.drafters.none import NoDrafter
from spec_cli.errors import Cancelled, CheckError
from spec_cli.events import FinishReason
from spec_cli.parallel import ParallelDecoder, Text
from spec_cli.spec.acceptance import make_rule
from spec_cli.spec.costs import PassTimes
from spec_cli.spec.interfaces import Budget, Draft, Drafter, Logits, Verdict
from spec_cli.spec.meter import PassMeter
from spec_cli.spec.settings import Accept, SamplingSettings
from spec_cli.spec.shapes import ParallelPlan, best_width, shapes_for
from spec_cli.spec.survival import Survival
from spec_cli.text import Output
from tests.engine.fakes import EOG, ScriptedDrafter, TableLM
from tests.engine.generation import GREEDY, SAMPLED, generate, ngram_drafter

CHEAP_ROWS = PassTimes((1, 16), (1.0, 1.1))
DEAR_ROWS = PassTimes((1, 16), (1.0, 16.0))


class TableSequences:
    """A `TableLM` for each sequence, all of one table; checks what a pass may look like."""

    def __init__(self, n: int, *, seed: int = 0, n_ctx: int = 96, n_batch: int = 16) -> None:
        self.n_batch, self.n_sequences = n_batch, n
        self.of = [TableLM(seed=seed, n_ctx=n_ctx, n_batch=n_batch) for _ in range(n)]
        self.shapes: list[tuple[int, int]] = []
        self.n_read = 0
        self.n_copied = 0

    def read(self, sequence: int, tokens: Sequence[int]) -> None:
        self.n_read += len(tokens)
        self.of[sequence].eval(tokens, n_rows=0)

    def eval(self, tokens: Sequence[Sequence[int]]) -> Logits:
        assert len({len(own) for own in tokens}) == 1, "as many rows for each"
        assert len(tokens) * len(tokens[0]) <= self.n_batch
        self.shapes.append((len(tokens), len(tokens[0])))
        return np.stack([lm.eval(own) for lm, own in zip(self.of, tokens, strict=False)])

    def rollback(self, sequence: int, n_past: int) -> None:
        self.of[sequence].rollback(n_past)

    def copy(self, source: int, target: int) -> None:
        self.n_copied += 1
        self.of[target].kv = list(self.of[source].kv)


@dataclass
class Ask:
    """A text to generate."""

    prompt: Sequence[int] = (1, 2)
    max_tokens: int = 12
    sampling: SamplingSettings = GREEDY
    seed: int = 7
    stop: Sequence[str] = ()
    drafter: Drafter = field(default_factory=NoDrafter)

    def text(self) -> Text:
        output = Output(
            lambda token: bytes([97 + token]),
            lambda token: token == EOG,
            stop=self.stop,
            max_tokens=self.max_tokens,
        )
        rule = make_rule(Accept.COUPLED, self.sampling, self.seed)
        return Text(list(self.prompt), output, rule, self.drafter, Survival())

    def alone(self, seed: int = 0) -> tuple[tuple[int, ...], FinishReason]:
        """What the loop for one text gives."""
        run = generate(
            TableLM(seed=seed, n_batch=16),
            prompt=self.prompt,
            settings=self.sampling,
            seed=self.seed,
            max_tokens=self.max_tokens,
            stop=self.stop,
        )
        return run.tokens, run.finished.reason


def decoder(
    target: TableSequences,
    *,
    k: int | None = None,
    times: PassTimes = CHEAP_ROWS,
    plan: ParallelPlan | None = None,
) -> ParallelDecoder:
    plan = plan or ParallelPlan(shapes_for(target.n_sequences), shares_prefixes=True)
    meter = PassMeter(times)
    return ParallelDecoder(target, plan, meter, draft_tokens=k, clock=lambda: 0.0)


def run(parallel: ParallelDecoder, n_places: int, asks: Sequence[Ask]) -> list[Text]:
    """Generate all, each as soon as a place is free."""
    texts = [ask.text() for ask in asks]
    waiting = list(texts)
    while waiting or parallel.n_texts:
        while waiting and parallel.n_texts < n_places:
            parallel.join(waiting.pop(0))
        n_before = parallel.n_texts
        rounds = parallel.round()
        assert len(rounds) == n_before
        n_ended = sum(text.output.finish_reason is not None for text, _ in rounds)
        assert parallel.n_texts == n_before - n_ended
    return texts


def outcome(text: Text) -> tuple[tuple[int, ...], FinishReason]:
    assert text.output.finish_reason is not None
    return tuple(text.output.tokens), text.output.finish_reason


ASKS = st.builds(
    Ask,
    prompt=st.lists(st.integers(1, 4), min_size=1, max_size=20),
    max_tokens=st.integers(1, 30),
    sampling=st.sampled_from([GREEDY, SAMPLED]),
    seed=st.integers(0, 3),
    stop=st.sampled_from([(), ("bc",), ("d",)]),
    drafter=st.one_of(
        st.builds(NoDrafter),
        st.builds(ngram_drafter),
        st.integers(0, 9).map(
            lambda s: ScriptedDrafter(
                lambda context, k: np.random.default_rng((s, len(context))).integers(1, 5, k)
            )
        ),
    ),
)


@settings(max_examples=150, deadline=None)
@given(
    asks=st.lists(ASKS, min_size=1, max_size=7),
    n=st.integers(1, 5),
    k=st.sampled_from([None, 0, 1, 3]),
    table=st.integers(0, 3),
    shares=st.booleans(),
    times=st.sampled_from([CHEAP_ROWS, DEAR_ROWS]),
)
def test_each_text_is_the_one_that_it_is_alone(
    asks: list[Ask], n: int, k: int | None, table: int, shares: bool, times: PassTimes
) -> None:
    target = TableSequences(n, seed=table)
    plan = ParallelPlan(shapes_for(n), shares)
    parallel = decoder(target, k=k, times=times, plan=plan)
    texts = run(parallel, n, asks)
    for ask, text in zip(asks, texts, strict=True):
        assert outcome(text) == ask.alone(table)
        assert text.context == [*ask.prompt, *text.output.tokens]
        stats = text.stats
        assert stats.n_emitted == len(text.output.tokens) <= stats.n_rounds + stats.n_accepted
        assert stats.n_prompt == len(ask.prompt)
    assert set(target.shapes) <= set(plan.shapes)


def perfect(ask: Ask) -> ScriptedDrafter:
    """Guesses what comes."""
    tokens, _ = ask.alone()
    n = len(ask.prompt)
    return ScriptedDrafter(lambda context, k: tokens[len(context) - n :][:k])


def test_texts_share_passes() -> None:
    target = TableSequences(4)
    asks = [Ask(prompt=(i + 1, 2), sampling=SAMPLED, seed=i) for i in range(4)]
    run(decoder(target), 4, asks)
    longest = max(len(ask.alone()[0]) for ask in asks)
    assert len(target.shapes) == longest
    assert set(target.shapes) <= {(1, 1), (2, 1), (4, 1)}


def test_guesses_that_hold_save_passes() -> None:
    asks = [Ask(prompt=(3, i + 1), sampling=SAMPLED, seed=i) for i in range(2)]
    for ask in asks:
        ask.drafter = perfect(ask)
    target = TableSequences(2)
    texts = run(decoder(target, k=3), 2, asks)
    assert len(target.shapes) < max(len(text.output.tokens) for text in texts)
    assert {width for _, width in target.shapes} <= {1, 2, 3, 4}


def test_a_place_that_is_free_again_is_taken_by_the_next_text() -> None:
    target = TableSequences(2)
    asks = [Ask(max_tokens=n, sampling=SAMPLED, seed=n) for n in (3, 9, 5, 4)]
    texts = run(decoder(target), 2, asks)
    assert [outcome(text) for text in texts] == [ask.alone() for ask in asks]
    assert max(n for n, _ in target.shapes) == 2


LONG = [1 + i * i % 4 for i in range(50)]


@pytest.mark.parametrize(("shares", "n_read"), [(True, 49 + 2), (False, 49 + 3)])
def test_a_prefix_of_two_prompts_is_read_once(shares: bool, n_read: int) -> None:
    target = TableSequences(2)
    plan = ParallelPlan(shapes_for(2), shares)
    asks = [Ask(prompt=LONG), Ask(prompt=[*LONG[:49], 1, 2, 3])]
    texts = run(decoder(target, plan=plan), 2, asks)
    assert [outcome(text) for text in texts] == [ask.alone() for ask in asks]
    assert (target.n_read, target.n_copied) == (n_read, 1)


def test_a_short_prefix_is_not_worth_a_copy() -> None:
    target = TableSequences(2)
    run(decoder(target), 2, [Ask(prompt=(1, 2, 3, 4)), Ask(prompt=(1, 2, 3, 1))])
    assert target.n_copied == 0


def test_a_place_keeps_what_it_has_read_for_the_next_prompt() -> None:
    target = TableSequences(1)
    run(decoder(target), 1, [Ask(prompt=(1, 2, 3, 4)), Ask(prompt=(1, 2, 3, 1))])
    assert (target.n_read, target.n_copied) == (3, 0)


def test_a_prompt_whose_reading_was_stopped_is_not_taken_for_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = TableSequences(1)
    parallel = decoder(target)
    run(parallel, 1, [Ask(prompt=LONG)])
    read, n_passes = target.read, iter(range(99))

    def stopped(sequence: int, tokens: Sequence[int]) -> None:
        if next(n_passes):
            raise Cancelled
        read(sequence, tokens)

    with monkeypatch.context() as patch:
        patch.setattr(target, "read", stopped)
        with pytest.raises(Cancelled):
            parallel.join(Ask(prompt=[4, *LONG]).text())
    again = Ask(prompt=[*LONG, 2])
    assert [outcome(text) for text in run(parallel, 1, [again])] == [again.alone()]


def test_shapes_hold_every_number_of_texts_and_no_more_rows_than_were_measured() -> None:
    for n in range(1, 17):
        plan = ParallelPlan(shapes_for(n), shares_prefixes=True)
        assert plan.serves(n) and 1 in plan.widths(n)
        assert all(places * width <= 16 for places, width in plan.shapes)
        assert [plan.n_texts_in(i) >= i for i in range(1, n + 1)] == [True] * n


def test_the_width_is_the_one_with_most_tokens_a_second() -> None:
    sure, unsure = [0.9, 0.8, 0.7], [0.2, 0.05]
    widths = [1, 2, 3, 4]
    assert best_width(widths, [sure, sure], lambda w: 1.0) == 4
    assert best_width(widths, [sure, sure], lambda w: float(w)) == 1
    assert best_width(widths, [sure, unsure], lambda w: 1 + 0.5 * (w - 1)) == 2
    assert best_width(widths, [unsure, []], lambda w: 1 + 0.5 * (w - 1)) == 1
    assert best_width(widths, [[]], lambda w: 1.0) == 1


class Failing:
    """A rule, or a drafter, that fails with a text of so many tokens."""

    def __init__(self, of: Any, n_tokens: int) -> None:
        self._of, self._n_tokens = of, n_tokens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)

    def verify(self, rows: Logits, draft: Draft, context: Sequence[int]) -> Verdict:
        self._check(context)
        verdict: Verdict = self._of.verify(rows, draft, context)
        return verdict

    def propose(self, context: Sequence[int], budget: Budget) -> Draft:
        self._check(context)
        draft: Draft = self._of.propose(context, budget)
        return draft

    def _check(self, context: Sequence[int]) -> None:
        if len(context) >= self._n_tokens:
            raise CheckError("no further")


@pytest.mark.parametrize("part", ["rule", "drafter"])
def test_a_text_that_cannot_go_on_leaves_its_place_and_the_others_alone(part: str) -> None:
    asks = [Ask((1, 2, n), max_tokens=12) for n in range(4)]
    parallel = decoder(TableSequences(2), k=2)
    texts = [ask.text() for ask in asks]
    setattr(texts[1], part, Failing(getattr(texts[1], part), n_tokens=7))
    waiting = list(texts)
    while waiting or parallel.n_texts:
        while waiting and parallel.n_texts < 2:
            parallel.join(waiting.pop(0))
        parallel.round()
    assert str(texts[1].error) == "no further" and texts[1].has_ended
    assert tuple(texts[1].output.tokens) == asks[1].alone()[0][: len(texts[1].output.tokens)]
    for ask, text in zip(asks, texts, strict=True):
        if text is not texts[1]:
            assert text.error is None and outcome(text) == ask.alone()
