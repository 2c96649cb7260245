"""Conversations on a tiny real pair: what is kept between answers changes no token of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from spec_cli.chat.conversation import Conversation
from spec_cli.events import Event, Finished, FinishReason, PromptProgress, RoundDone, TextDelta
from spec_cli.loader import Environment
from spec_cli.prompt import ChatTemplate, chat_tokens
from spec_cli.session import Session
from spec_cli.settings import DrafterKind, GenerationSettings, SessionSettings
from spec_cli.spec.settings import Exact, SamplingSettings
from spec_cli.state import StateStore
from tests.tiny_gguf import CHATML

GREEDY = GenerationSettings(seed=1, sampling=SamplingSettings(temp=0), max_tokens=24)
SAMPLED = GenerationSettings(seed=5, sampling=SamplingSettings(temp=1.0), max_tokens=24)
QUESTIONS = ("hello there", "and then? tell the other one", "the end")
# It strips what was said before a colon from earlier answers, as some do with their reasoning.
STRIPPING = CHATML.replace("message['content']", "message['content'].split(':')[-1]")


class Desk:
    """The outside of a session; `cancel` asks it to stop."""

    def __init__(self, path: Path) -> None:
        self.cancel = False
        self.environment = Environment(
            state=StateStore(path),
            clock=time.perf_counter,
            cancelled=lambda: self.cancel,
            notify=lambda notice: None,
            progress=lambda what, fraction: None,
        )


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "state")


class Talker:
    """Talks with a session by a template."""

    def __init__(self, session: Session, source: str = CHATML) -> None:
        self.session = session
        now = datetime(2026, 1, 1)
        self._template = ChatTemplate(source, True, "", "", now, {})
        self.conversation = Conversation("be brief")
        self.finished: list[Finished] = []

    def tokens(self, question: str) -> list[int]:
        messages = self.conversation.asking(question)
        return chat_tokens(self.session.model, self._template, messages)

    def events(self, question: str, generation: GenerationSettings) -> Iterator[Event]:
        tokens = self.tokens(question)
        self.session.prepare(len(tokens), generation.max_tokens)
        return self.session.generate(tokens, generation)

    def ask(self, question: str, generation: GenerationSettings) -> tuple[int, ...]:
        events = list(self.events(question, generation))
        text = "".join(event.text for event in events if isinstance(event, TextDelta))
        self.conversation = self.conversation.answered(question, text)
        finished = events[-1]
        assert isinstance(finished, Finished)
        self.finished.append(finished)
        return finished.tokens


@contextmanager
def opened(
    desk: Desk, target: Path, draft: Path | None, drafter: DrafterKind, **changes: object
) -> Iterator[Session]:
    settings = SessionSettings(
        drafter=drafter,
        draft_tokens=None if drafter is DrafterKind.NONE else 4,
        n_ctx=512,
        n_threads=1,
        exact=Exact.OFF,
    )
    settings = replace(settings, **changes)  # type: ignore[arg-type]
    with Session(target, draft, settings, desk.environment) as session:
        yield session


@pytest.mark.parametrize("generation", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("source", [CHATML, STRIPPING], ids=["chatml", "stripping"])
def test_a_speculative_conversation_is_the_plain_one_token_for_token(
    desk: Desk, tiny_target: Path, tiny_draft: Path, generation: GenerationSettings, source: str
) -> None:
    said: list[list[tuple[int, ...]]] = []
    kept: list[list[int]] = []
    for drafter in (DrafterKind.NONE, DrafterKind.CHAIN, DrafterKind.MODEL):
        draft = tiny_draft if drafter.needs_model else None
        with opened(desk, tiny_target, draft, drafter) as session:
            talker = Talker(session, source)
            said.append([talker.ask(question, generation) for question in QUESTIONS])
            kept.append([finished.stats.n_cached for finished in talker.finished])
            drafted = [finished.stats.n_drafted for finished in talker.finished]
            assert all(drafted) == drafter.needs_model
    assert said[0] == said[1] == said[2]
    assert kept[0] == kept[1] == kept[2]
    assert kept[0][0] == 0 and all(kept[0][1:])


def test_of_a_further_turn_only_what_is_new_is_evaluated(desk: Desk, tiny_target: Path) -> None:
    with opened(desk, tiny_target, None, DrafterKind.NONE) as session:
        talker = Talker(session)
        n_first = len(talker.tokens(QUESTIONS[0]))
        talker.ask(QUESTIONS[0], GREEDY)
        talker.ask(QUESTIONS[1], GREEDY)
    first, second = (finished.stats for finished in talker.finished)
    assert (first.n_prompt, first.n_cached) == (n_first, 0)
    assert second.n_cached >= n_first  # and as much of the answer as is written in the same tokens
    assert second.n_cached < second.n_prompt


@pytest.mark.parametrize("drafter", [DrafterKind.NONE, DrafterKind.CHAIN])
def test_a_retry_with_the_same_seed_gives_the_same_tokens(
    desk: Desk, tiny_target: Path, tiny_draft: Path, drafter: DrafterKind
) -> None:
    draft = tiny_draft if drafter.needs_model else None
    with opened(desk, tiny_target, draft, drafter) as session:
        talker = Talker(session)
        talker.ask(QUESTIONS[0], SAMPLED)
        first = talker.ask(QUESTIONS[1], SAMPLED)
        talker.conversation = talker.conversation.without_last()
        assert talker.ask(QUESTIONS[1], SAMPLED) == first
        again = talker.finished[-1].stats
        assert again.n_cached == again.n_prompt - 1
        talker.conversation = talker.conversation.without_last()
        assert talker.ask(QUESTIONS[1], replace(SAMPLED, seed=6)) != first


@pytest.mark.parametrize("drafter", [DrafterKind.NONE, DrafterKind.CHAIN])
@pytest.mark.parametrize("n_events", [1, 2, 4, 9])
def test_nothing_stale_is_kept_of_an_answer_that_was_stopped(
    desk: Desk, tiny_target: Path, tiny_draft: Path, drafter: DrafterKind, n_events: int
) -> None:
    """Small batches, so that the first events are those of an interrupted prompt."""
    draft = tiny_draft if drafter.needs_model else None
    with opened(desk, tiny_target, draft, drafter, n_batch=8) as session:
        talker = Talker(session)
        talker.ask(QUESTIONS[0], GREEDY)
        expected = talker.ask(QUESTIONS[1], GREEDY)
        session.forget()
        talker.conversation = Conversation("be brief")
        talker.ask(QUESTIONS[0], GREEDY)
        seen = 0
        for event in talker.events("something else altogether", SAMPLED):
            seen += isinstance(event, PromptProgress | RoundDone)
            desk.cancel = seen >= n_events
        assert isinstance(event, Finished) and event.reason is FinishReason.INTERRUPTED
        desk.cancel = False
        assert talker.ask(QUESTIONS[1], GREEDY) == expected


def test_a_pass_that_was_aborted_leaves_nothing_stale(desk: Desk, tiny_target: Path) -> None:
    with opened(desk, tiny_target, None, DrafterKind.NONE, n_batch=8) as session:
        talker = Talker(session)
        expected = talker.ask(QUESTIONS[0], GREEDY)
        session.forget()
        context = session.target
        evaluate, n_left = context.eval, 3

        def stopped(tokens: Sequence[int], n_rows: int | None = None) -> object:
            nonlocal n_left
            n_left -= 1
            desk.cancel = n_left < 0
            return evaluate(tokens, n_rows)

        context.eval = stopped  # type: ignore[method-assign, assignment]
        talker.conversation = Conversation("be brief")
        *_, finished = talker.events(QUESTIONS[0], GREEDY)
        assert isinstance(finished, Finished) and finished.reason is FinishReason.INTERRUPTED
        context.eval, desk.cancel = evaluate, False  # type: ignore[method-assign]
        assert talker.ask(QUESTIONS[0], GREEDY) == expected


def test_a_session_that_forgets_evaluates_the_whole_prompt(
    desk: Desk, tiny_target: Path, tiny_draft: Path
) -> None:
    with opened(desk, tiny_target, tiny_draft, DrafterKind.CHAIN) as session:
        talker = Talker(session)
        first = talker.ask(QUESTIONS[0], GREEDY)
        for forget in (session.forget, session.forget_text):
            forget()
            assert session.target.n_past == 0
            assert session.draft is not None and session.draft.n_past == 0
            talker.conversation = Conversation("be brief")
            assert talker.ask(QUESTIONS[0], GREEDY) == first
            assert talker.finished[-1].stats.n_cached == 0


def test_a_memory_that_cannot_drop_its_tail_goes_on_or_starts_anew(
    desk: Desk, tiny_mamba: Path
) -> None:
    with opened(desk, tiny_mamba, None, DrafterKind.NONE) as session:
        prompt = session.model.tokenize("hello there", special=False, bos=False)
        session.prepare(200, 0)

        def generate(tokens: Sequence[int]) -> Finished:
            *_, finished = session.generate(tokens, GREEDY)
            assert isinstance(finished, Finished)
            return finished

        first = generate(prompt)
        longer = [*prompt, *first.tokens, *prompt]
        second = generate(longer)
        assert second.stats.n_cached == len(prompt) + len(first.tokens) - 1
        again = generate(prompt)
        assert again.stats.n_cached == 0 and again.tokens == first.tokens
        assert session.target.n_past == len(prompt) + len(again.tokens) - 1


def test_a_context_that_had_no_memory_leaves_a_session_that_can_be_prepared_again(
    desk: Desk, tiny_target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(desk, tiny_target, None, DrafterKind.NONE, n_ctx=None) as session:
        talker = Talker(session)
        first = talker.ask(QUESTIONS[0], GREEDY)
        monkeypatch.setattr(session, "holds", lambda n_tokens: False)
        monkeypatch.setattr(session._target, "make_context", lambda n_ctx: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            session.prepare(10, 10)
        monkeypatch.undo()
        assert not session.holds(1)
        session.forget_text()
        talker.conversation = Conversation("be brief")
        assert talker.ask(QUESTIONS[0], GREEDY) == first
