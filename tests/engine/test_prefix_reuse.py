"""What the target and the draft have evaluated is kept from one generation to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.engine import Decoder
from spec_cli.errors import Cancelled
from spec_cli.events import Event, Finished, FinishReason, PromptProgress, RoundDone
from spec_cli.spec.acceptance import make_rule
from spec_cli.spec.interfaces import Drafter, Logits
from spec_cli.spec.policy import FixedLength
from spec_cli.spec.settings import Accept, SamplingSettings
from spec_cli.text import Output
from tests.engine.fakes import EOG, ScriptedDrafter, TableLM, ticking_clock
from tests.engine.generation import GREEDY, SAMPLED, Run, chain_drafter, generate

N_CTX = 256
words = st.lists(st.integers(1, 4), min_size=1, max_size=20)


class Edit:
    """How the next prompt follows from the text so far: all but the last `n_lost` tokens of it
    stay, as where a template strips something, and `added` comes after them."""

    def __init__(self, n_lost: int, added: Sequence[int]) -> None:
        self.n_lost, self.added = n_lost, added

    def __call__(self, text: Sequence[int]) -> list[int]:
        return [*text[: max(1, len(text) - self.n_lost)], *self.added]

    def __repr__(self) -> str:
        return f"Edit({self.n_lost}, {self.added})"


edits = st.lists(st.builds(Edit, st.integers(0, 12), words), min_size=1, max_size=4)


def table(seed: int) -> TableLM:
    return TableLM(seed=seed, n_ctx=N_CTX)


def converse(
    target: TableLM,
    make_drafter: Callable[[], Drafter | None],
    first: Sequence[int],
    turns: Sequence[Edit],
    *,
    k: int,
    settings: SamplingSettings,
) -> list[Run]:
    """A conversation: each prompt is what `turns` makes of the prompt and the answer before."""
    prompt, runs = list(first), []
    for turn in (*turns, None):
        runs.append(
            generate(target, make_drafter(), prompt=prompt, k=k, settings=settings, max_tokens=15)
        )
        if turn is not None:
            prompt = turn([*prompt, *runs[-1].tokens])
    return runs


@hypothesis.settings(deadline=None)
@given(
    seeds=st.tuples(st.integers(0, 30), st.integers(0, 30)),
    first=words,
    turns=edits,
    k=st.integers(1, 7),
    settings=st.sampled_from([GREEDY, SAMPLED]),
)
def test_a_speculative_conversation_is_the_plain_one_token_for_token(
    seeds: tuple[int, int], first: list[int], turns: list[Edit], k: int, settings: SamplingSettings
) -> None:
    draft = table(seeds[1])
    rule = make_rule(Accept.COUPLED, settings, 7)

    def drafter() -> Drafter:
        return chain_drafter(draft, rule)

    plain = converse(table(seeds[0]), lambda: None, first, turns, k=k, settings=settings)
    runs = converse(table(seeds[0]), drafter, first, turns, k=k, settings=settings)
    assert [run.tokens for run in runs] == [run.tokens for run in plain]
    assert [n_cached(run) for run in runs] == [n_cached(run) for run in plain]
    prompt = list(first)
    for turn, run in zip((*turns, None), runs, strict=True):
        alone = generate(table(seeds[0]), prompt=prompt, settings=settings, max_tokens=15)
        assert run.tokens == alone.tokens
        prompt = turn([*prompt, *run.tokens]) if turn else prompt


def n_cached(run: Run) -> int:
    return run.finished.stats.n_cached


def test_a_further_turn_evaluates_only_what_is_new() -> None:
    target = table(4)
    first = generate(target, prompt=[1, 2, 3, 4], max_tokens=9)
    n_before = target.n_evaluated
    prompt = [1, 2, 3, 4, *first.tokens, 3, 2, 1]
    second = generate(target, prompt=prompt, max_tokens=1)
    # The last token of the answer had not been evaluated, and the last one of the prompt rides
    # in the first round.
    assert n_cached(second) == len(prompt) - 4
    assert target.n_evaluated - n_before == 4
    assert second.finished.stats.n_prompt == len(prompt)


def test_the_same_prompt_again_evaluates_its_last_token_alone() -> None:
    target, prompt = table(4), [1, 2, 3, 4] * 6
    first = generate(target, prompt=prompt, max_tokens=9)
    n_before = target.n_evaluated
    again = generate(target, prompt=prompt, max_tokens=9)
    assert again.tokens == first.tokens
    assert target.n_evaluated - n_before == len(again.tokens)
    assert n_cached(again) == len(prompt) - 1
    assert not [event for event in again.events if isinstance(event, PromptProgress)]


def test_a_prompt_that_begins_otherwise_is_evaluated_as_a_whole() -> None:
    target = table(4)
    generate(target, prompt=[1, 2, 3, 4], max_tokens=9)
    assert n_cached(generate(target, prompt=[2, 2, 3, 4], max_tokens=9)) == 0


def test_progress_goes_on_from_what_was_kept() -> None:
    target, prompt = table(4), [1, 2, 3, 4] * 4
    generate(target, prompt=prompt, max_tokens=1)
    again = generate(target, prompt=[*prompt, *[2, 3] * 5], max_tokens=1)
    progress = [(e.done, e.total) for e in again.events if isinstance(e, PromptProgress)]
    assert progress == [(24, 26), (25, 26)]  # the last token of the prompt was evaluated, too


def test_the_draft_model_keeps_its_part_as_well() -> None:
    draft, rule = table(1), make_rule(Accept.COUPLED, GREEDY, 7)
    target, prompt = endless(table(1)), [1 + i % 4 for i in range(30)]
    first = generate(target, chain_drafter(draft, rule), prompt=prompt, max_tokens=12)
    assert draft.n_past > len(prompt)
    n_before, n_past = draft.n_evaluated, draft.n_past
    prompt = [*prompt, *first.tokens, 1, 2]
    drafter = chain_drafter(draft, rule)
    drafter.begin(prompt)
    assert drafter.n_behind(prompt) == len(prompt) - n_past
    generate(target, drafter, prompt=prompt, max_tokens=12)
    assert draft.n_evaluated - n_before < len(prompt)


def endless(model: TableLM) -> TableLM:
    """`model`, which never chooses the end-of-generation token."""
    model._table[..., EOG] = -1e9
    return model


class Breaking(TableLM):
    """Is stopped, by a signal as it were, after so many passes; with `midway` it has then
    evaluated what nobody will hear of."""

    def __init__(self, n_passes: int, *, midway: bool) -> None:
        super().__init__(seed=4, n_ctx=N_CTX)
        self.n_left: float = n_passes
        self._midway = midway

    def eval(self, tokens: Sequence[int], n_rows: int | None = None) -> Logits:
        self.n_left -= 1
        if self.n_left < 0:
            self.n_left = float("inf")
            if self._midway:
                super().eval(tokens, n_rows)
            raise Cancelled
        return super().eval(tokens, n_rows)


def events(target: TableLM, prompt: Sequence[int], wrong: int = 0) -> Iterator[Event]:
    """A generation whose drafts are always `wrong`."""
    drafter = ScriptedDrafter(lambda context, k: [wrong] * k)
    rule = make_rule(Accept.COUPLED, GREEDY, 7)
    decoder = Decoder(target, drafter, rule, FixedLength(3), clock=ticking_clock())
    output = Output(lambda t: bytes([97 + t]), lambda t: t == EOG, max_tokens=20)
    return decoder.generate(prompt, output)


@pytest.mark.parametrize("midway", [False, True])
@pytest.mark.parametrize("n_passes", range(9))
def test_nothing_stale_is_kept_of_a_pass_that_was_stopped(n_passes: int, midway: bool) -> None:
    target, prompt = Breaking(n_passes, midway=midway), [1, 2, 3, 4] * 6
    *_, finished = events(target, prompt)
    assert isinstance(finished, Finished) and finished.reason is FinishReason.INTERRUPTED
    again = generate(target, prompt=prompt, max_tokens=12)
    assert again.tokens == generate(table(4), prompt=prompt, max_tokens=12).tokens
    assert n_cached(again) == min(8 * n_passes + 8 * midway, len(prompt) - 1)


@pytest.mark.parametrize("n_rounds", [1, 2, 5])
def test_nothing_stale_is_kept_of_a_generation_that_nobody_read_to_its_end(n_rounds: int) -> None:
    target, prompt = endless(table(4)), [1, 2, 3, 4] * 6
    running = events(target, prompt)
    for _ in range(n_rounds):
        while not isinstance(next(running), RoundDone):
            pass
    target.eval([1, 1])  # and of what somebody evaluated in between
    again = generate(target, prompt=[*prompt, 1, 2], max_tokens=12)
    alone = generate(endless(table(4)), prompt=[*prompt, 1, 2], max_tokens=12)
    assert again.tokens == alone.tokens
