"""The draft model as a source: what it learns from the tokens it reads when it catches up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.drafters.model import N_ROWS, DraftModel
from spec_cli.errors import ModelError
from spec_cli.spec.acceptance import make_rule, recent
from spec_cli.spec.interfaces import AcceptanceRule, Evidence, Logits
from spec_cli.spec.prefix import common_prefix
from spec_cli.spec.settings import Accept, SamplingSettings
from spec_cli.spec.survival import Survival, model_evidence
from tests.engine.fakes import TableLM
from tests.engine.generation import GREEDY, SAMPLED

PENALISED = SamplingSettings(temp=0.9, repeat_penalty=1.4, presence_penalty=0.3, repeat_last_n=5)
Learned = list[tuple[Evidence, bool]]
text = st.lists(st.integers(0, 4), min_size=1, max_size=70)


class Notebook(Survival):
    """Keeps what is learned, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.learned: Learned = []

    def learn(self, evidence: Evidence, *, accepted: bool) -> None:
        self.learned.append((evidence, accepted))
        super().learn(evidence, accepted=accepted)


class CountingLM(TableLM):
    """Keeps how many rows of logits each pass was asked for."""

    def __init__(self, **kwargs: int) -> None:
        super().__init__(**{"n_ctx": 256, "n_batch": 64} | kwargs)
        self.n_rows: list[int | None] = []

    def eval(self, tokens: Sequence[int], n_rows: int | None = None) -> Logits:
        self.n_rows.append(n_rows)
        return super().eval(tokens, n_rows)


def begun(
    prompt: Sequence[int], rule: AcceptanceRule, **kwargs: int
) -> tuple[DraftModel, CountingLM, Notebook]:
    lm, notebook = CountingLM(**kwargs), Notebook()
    model = DraftModel(lm, rule, notebook, n_shared=5)
    model.begin(prompt)
    return model, lm, notebook


def would_have(rule: AcceptanceRule, context: Sequence[int], places: range) -> Learned:
    """What the model would have guessed in these places of `context`, without a cache."""
    found = []
    for at in places:
        row = TableLM().row(context[:at])
        drawn = rule.draw(row, at, recent(context[:at], rule.n_history))
        found.append((model_evidence(drawn.confidence), drawn.token == context[at]))
    return found


class RecurrentLM(TableLM):
    """Goes back to where it was at the last `keep`, or to nothing."""

    def __init__(self) -> None:
        super().__init__(n_ctx=256, n_batch=64)
        self._mark = 0

    def rollback(self, n_past: int) -> None:
        raise AssertionError("a recurrent memory is asked for no rollback")

    def keep(self, tokens: Sequence[int]) -> int:
        n = common_prefix(self.kv, tokens)
        if n < len(self.kv):
            n = self._mark if self._mark <= n else 0
        del self.kv[n:]
        self._mark = n
        return n


def coupled(settings: SamplingSettings) -> AcceptanceRule:
    return make_rule(Accept.COUPLED, settings, 7)


@given(
    prompt=text,
    generated=text,
    drafted=st.lists(st.integers(0, 4), max_size=3),
    settings=st.sampled_from([GREEDY, SAMPLED, PENALISED]),
    n_batch=st.sampled_from([4, 8, 64]),
)
def test_what_is_learned_is_what_it_would_have_guessed(
    prompt: list[int],
    generated: list[int],
    drafted: list[int],
    settings: SamplingSettings,
    n_batch: int,
) -> None:
    rule = coupled(settings)
    model, lm, notebook = begun(prompt, rule, n_batch=n_batch)
    context = [*prompt, *generated]
    drawn = model.guess(context, drafted)
    n_rows = min(N_ROWS, n_batch)
    first = max(len(prompt), len(context) + len(drafted) - n_rows + 1)
    assert notebook.learned == would_have(rule, context, range(first, len(context)))
    history = recent([*context, *drafted], rule.n_history + len(drafted))
    row = TableLM().row([*context, *drafted])
    assert drawn == rule.draw(row, len(context) + len(drafted), history)
    assert lm.kv == [*context, *drafted]
    assert max(n or 0 for n in lm.n_rows) <= n_rows


def test_no_token_of_the_prompt_is_scored() -> None:
    model, lm, notebook = begun([1, 2, 3, 4] * 5, coupled(GREEDY))
    model.guess([1, 2, 3, 4] * 5, ())
    assert notebook.learned == [] and lm.n_rows == [1]
    model, _, notebook = begun([1, 2, 3, 4] * 5, coupled(GREEDY))
    model.guess([*[1, 2, 3, 4] * 5, 2], ())
    assert len(notebook.learned) == 1  # the first that was generated


def test_a_prompt_that_was_read_to_its_end_can_begin_again() -> None:
    prompt = [1, 2, 3]
    model, lm, _ = begun(prompt, coupled(GREEDY))
    first = model.guess(prompt, ())
    model.begin(prompt)
    assert lm.n_past == 2
    assert model.guess(prompt, ()) == first


def test_of_a_long_text_no_more_rows_than_allowed_are_asked_for() -> None:
    model, lm, notebook = begun([1, 2], coupled(GREEDY))
    context = [1 + i % 4 for i in range(150)]
    model.guess(context, ())
    assert lm.n_rows[-1] == N_ROWS and set(lm.n_rows[:-1]) == {0}
    assert notebook.learned == would_have(coupled(GREEDY), context, range(119, 150))


def test_a_token_is_scored_once_and_never_where_it_was_drafted() -> None:
    rule = coupled(GREEDY)
    model, _, notebook = begun([1, 2], rule)
    context = [1, 2, 3]
    first = model.guess(context, ())
    assert first is not None
    notebook.learned.clear()
    second = model.guess(context, (first.token,))
    assert second is not None and notebook.learned == []
    context += [first.token, second.token, 1, 3, 4]  # two that held, and plain steps
    model.commit(context)
    model.guess(context, ())
    assert notebook.learned == would_have(rule, context, range(5, 8))
    notebook.learned.clear()
    model.guess(context, (2,))
    assert notebook.learned == []


@pytest.mark.parametrize("settings", [GREEDY, SAMPLED])
def test_unusable_logits_are_told_to_be_the_draft_models(settings: SamplingSettings) -> None:
    lm = TableLM()
    lm._table[...] = np.nan
    model = DraftModel(lm, coupled(settings), Survival(), n_shared=5)
    model.begin([1])
    with pytest.raises(ModelError, match=r"the draft model's logits .* largest is nan") as caught:
        model.guess([1], ())
    assert "`--no-draft`" in (caught.value.hint or "")


@pytest.mark.parametrize("accept", [Accept.REJECTION, Accept.BLOCK])
def test_a_rule_that_samples_its_drafts_scores_nothing_and_draws_no_number_for_it(
    accept: Accept,
) -> None:
    context = [1, 2, 3, 4, 1, 2, 2, 2]
    guesses = []
    for prompt in (context[:1], context):
        model, lm, notebook = begun(prompt, make_rule(accept, SAMPLED, 7))
        guesses += [model.guess(context, ())]
        assert notebook.learned == [] and lm.n_rows == [1]
    assert guesses[0] is not None and guesses[1] is not None
    assert guesses[0].token == guesses[1].token


@given(
    prompt=text,
    rounds=st.lists(
        st.tuples(st.lists(st.integers(0, 4), max_size=3), st.integers(0, 3), st.booleans()),
        max_size=6,
    ),
)
def test_a_recurrent_model_guesses_what_any_other_would(
    prompt: list[int], rounds: list[tuple[list[int], int, bool]]
) -> None:
    """Rounds begin with copies, go on with guesses, and hold or not."""
    rule = coupled(GREEDY)
    lm, other = RecurrentLM(), TableLM(n_ctx=256, n_batch=64)
    recurrent = DraftModel(lm, rule, Survival(), n_shared=5, is_recurrent=True)
    plain = DraftModel(other, rule, Survival(), n_shared=5)
    for model in (recurrent, plain):
        model.begin(prompt)
    context = list(prompt)
    for copies, n_guesses, holds in rounds:
        drafted = list(copies)
        for _ in range(n_guesses):
            drawn = recurrent.guess(context, drafted)
            assert drawn is not None and drawn == plain.guess(context, drafted)
            assert lm.kv == [*context, *drafted]
            drafted.append(drawn.token)
        context += [*(drafted if holds else drafted[: len(drafted) // 2]), 3]
        n_before = lm.n_past
        recurrent.commit(context)
        plain.commit(context)
        assert lm.kv == context[: lm.n_past] and lm.n_past < len(context)
        if n_guesses:
            assert lm.n_past >= min(n_before, len(context) - len(drafted) - 1)


def test_a_rejected_guess_costs_a_recurrent_model_no_token_of_the_context() -> None:
    lm = RecurrentLM()
    model = DraftModel(lm, coupled(GREEDY), Survival(), n_shared=5, is_recurrent=True)
    context = [1, 2, 3, 4] * 5
    model.begin(context)
    model.guess(context, (0, 0))
    model.guess(context, (0, 0, 0))
    model.commit([*context, 4])
    assert lm.kv == context
