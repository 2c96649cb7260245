"""A session on a tiny real pair: what is drafted changes nothing, and who drafts is explained."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from spec_cli.arms import Arms
from spec_cli.errors import Cancelled, PairError, UsageError
from spec_cli.events import DraftingOff, Event, Finished, FinishReason, Notice, RoundDone
from spec_cli.loader import Environment
from spec_cli.session import Session
from spec_cli.settings import DrafterKind, GenerationSettings, SessionSettings
from spec_cli.spec.costs import DRAFT_WIDTHS, PassTimes
from spec_cli.spec.meter import PassMeter
from spec_cli.spec.settings import Exact, SamplingSettings
from spec_cli.state import StateStore
from spec_cli.text import NO_OPENING, Opening
from tests.tiny_gguf import bpe_vocab, write_tiny_model

GREEDY = GenerationSettings(seed=1, sampling=SamplingSettings(temp=0), max_tokens=40)
SAMPLED = GenerationSettings(seed=5, sampling=SamplingSettings(temp=1.0), max_tokens=40)
PENALISED = GenerationSettings(
    seed=9, sampling=SamplingSettings(temp=0.8, repeat_penalty=1.3), max_tokens=40
)
PROMPT = "hello there, hello"

Open = Callable[..., Session]


class Desk:
    """The outside of a session under test."""

    def __init__(self, tmp_path: Path) -> None:
        self.notices: list[Notice] = []
        self.doings: list[str] = []
        self.cancel = False
        self.clock = time.perf_counter
        self.environment = Environment(
            state=StateStore(tmp_path / "state"),
            clock=lambda: self.clock(),
            cancelled=lambda: self.cancel,
            notify=self.notices.append,
            progress=lambda what, fraction: self.doings.append(what),
        )


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def run(
    session: Session, generation: GenerationSettings, opening: Opening = NO_OPENING
) -> list[Event]:
    tokens = session.model.tokenize(PROMPT, special=False, bos=False)
    session.prepare(len(tokens), generation.max_tokens)
    return list(session.generate(tokens, generation, opening=opening))


def tokens_of(events: Sequence[Event]) -> tuple[int, ...]:
    assert isinstance(events[-1], Finished)
    return events[-1].tokens


def settings(**changes: object) -> SessionSettings:
    # What `auto` takes depends on measured times, which must decide no test.
    return SessionSettings(**{"n_threads": 1, "exact": Exact.OFF} | changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("generation", [GREEDY, SAMPLED, PENALISED])
@pytest.mark.parametrize("drafter", [DrafterKind.MODEL, DrafterKind.NGRAM, DrafterKind.CHAIN])
@pytest.mark.parametrize("k", [1, 4, 9])
def test_any_drafter_and_draft_length_give_the_tokens_of_plain_decoding(
    desk: Desk,
    tiny_target: Path,
    tiny_draft: Path,
    generation: GenerationSettings,
    drafter: DrafterKind,
    k: int,
) -> None:
    with Session(
        tiny_target, None, settings(drafter=DrafterKind.NONE), desk.environment
    ) as session:
        plain = tokens_of(run(session, generation))
    with Session(
        tiny_target, tiny_draft, settings(drafter=drafter, draft_tokens=k), desk.environment
    ) as session:
        events = run(session, generation)
    assert tokens_of(events) == plain
    assert len(plain) == 40
    assert isinstance(events[-1], Finished)
    assert drafter is DrafterKind.NGRAM or events[-1].stats.n_accepted > 0


def test_a_model_that_drafts_for_itself_is_accepted_almost_always(
    desk: Desk, tiny_target: Path
) -> None:
    with Session(tiny_target, tiny_target, settings(draft_tokens=3), desk.environment) as session:
        finished = run(session, GREEDY)[-1]
    assert isinstance(finished, Finished)
    assert (finished.stats.acceptance_rate or 0) > 0.95


def test_a_session_generates_repeatedly_with_the_same_result(
    desk: Desk, tiny_target: Path, tiny_draft: Path
) -> None:
    with Session(tiny_target, tiny_draft, settings(draft_tokens=3), desk.environment) as session:
        first = tokens_of(run(session, SAMPLED))
        tokens = session.model.tokenize(PROMPT, special=False, bos=False)
        assert tokens_of(list(session.generate(tokens, SAMPLED))) == first


def test_preparing_again_keeps_the_contexts_unless_they_are_too_small(
    desk: Desk, tiny_target: Path, tiny_draft: Path
) -> None:
    with Session(tiny_target, tiny_draft, settings(draft_tokens=3), desk.environment) as session:
        session.prepare(10, 20)
        contexts = (session._target.language_model, session._draft.context)  # type: ignore[union-attr]
        session.prepare(5, 20)
        assert (session._target.language_model, session._draft.context) == contexts  # type: ignore[union-attr]
    with Session(
        tiny_target, tiny_draft, settings(draft_tokens=3, n_ctx=64), desk.environment
    ) as session:
        plain = tokens_of(run(session, SAMPLED))
        first = session._target.language_model
        first._model._n_ctx = 8  # type: ignore[union-attr]
        assert tokens_of(run(session, SAMPLED)) == plain
        assert first._model._native._handle is None  # type: ignore[union-attr]  # the old one is freed


def test_a_draft_as_costly_as_its_target_is_refused_with_numbers(
    desk: Desk, tiny_target: Path
) -> None:
    """With c >= 1 even perfect guesses lose: the table is planted, so no clock decides."""
    asked = settings(drafter=DrafterKind.MODEL)
    with Session(tiny_target, tiny_target, asked, desk.environment) as session:
        _plant(session, target=[1.0 * w for w in range(1, 17)], draft_s=1.0)
        events = run(session, GREEDY)
        assert session.drafter_name == "none"
    off = [e for e in events if isinstance(e, DraftingOff)]
    assert len(off) == 1
    assert "even perfect guesses would lose" in off[0].reason
    assert "x plain at best" in off[0].reason
    # The draft model is not even loaded: its costs were known.
    assert desk.doings.count(f"loading {tiny_target.name}") > 0
    assert session._draft is not None and session._draft.context is None


def test_a_fixed_draft_length_drafts_even_where_it_cannot_pay(
    desk: Desk, tiny_target: Path
) -> None:
    with Session(tiny_target, tiny_target, settings(draft_tokens=2), desk.environment) as session:
        _plant(session, target=[1.0 * w for w in range(1, 17)], draft_s=1.0)
        finished = run(session, GREEDY)[-1]
    assert isinstance(finished, Finished) and finished.stats.n_drafted > 0


def test_cheap_guesses_are_drafted_without_being_told_how_many(
    desk: Desk, tiny_target: Path
) -> None:
    with Session(tiny_target, tiny_target, settings(), desk.environment) as session:
        _plant(session, target=[1.0] * 16, draft_s=0.01)
        desk.clock = lambda: 0.0  # what passes really take is not what was planted
        finished = run(session, GREEDY)[-1]
    assert isinstance(finished, Finished)
    assert (finished.stats.acceptance_length or 0) > 2


def test_a_draft_without_passes_of_its_own_is_as_slow_as_its_target(
    desk: Desk, tiny_target: Path
) -> None:
    with Session(tiny_target, tiny_target, settings(), desk.environment) as session:
        _plant(session, target=[1.0] * 16, draft_s=0.01)
        for _ in range(3):
            session._target.meter.observe(1, 0, 2.0)
        desk.clock = lambda: 0.0
        run(session, GREEDY)
        assert session._draft is not None
        assert session._draft.token_s == pytest.approx(0.02)


def test_an_answer_that_was_kept_is_copied_when_it_comes_again(
    desk: Desk, tiny_target: Path
) -> None:
    asked = settings(drafter=DrafterKind.NGRAM, draft_tokens=8, index=True)
    finished = []
    for _ in range(2):
        with Session(tiny_target, None, asked, desk.environment) as session:
            finished.append(run(session, SAMPLED)[-1])
    first, second = finished
    assert isinstance(first, Finished) and isinstance(second, Finished)
    assert first.tokens == second.tokens
    assert second.stats.n_accepted > first.stats.n_accepted + 15


def test_the_estimated_plain_step_is_what_one_takes_now(desk: Desk, tiny_target: Path) -> None:
    asked = settings(drafter=DrafterKind.NGRAM, draft_tokens=3)
    with Session(tiny_target, None, asked, desk.environment) as session:
        _plant(session, target=[1.0] * 16, draft_s=1.0)
        for _ in range(3):
            session._target.meter.observe(1, 0, 0.5)  # half of what was measured
        desk.clock = lambda: 0.0
        events = run(session, GREEDY)
    assert isinstance(events[-1], Finished)
    assert events[-1].stats.plain_step_estimate_s == 0.5
    assert {e.plain_step_s for e in events if isinstance(e, RoundDone)} == {0.5}


def test_no_answer_is_kept_unless_asked_for(desk: Desk, tiny_target: Path, tmp_path: Path) -> None:
    with Session(tiny_target, None, settings(), desk.environment) as session:
        run(session, SAMPLED)
    assert not (tmp_path / "state" / "answers").exists()


@pytest.mark.parametrize("learns", [True, False])
def test_what_guesses_were_worth_is_kept_for_the_next_session_where_that_is_wanted(
    desk: Desk, tiny_target: Path, learns: bool
) -> None:
    environment = replace(desk.environment, learns=learns)
    priors = []
    for _ in range(2):
        with closing(Session(tiny_target, tiny_target, settings(), environment)) as session:
            _plant(session, target=[1.0] * 16, draft_s=0.01)
            desk.clock = lambda: 0.0
            session.prepare(10, 40)
            session.arm(GREEDY, None)
            (survival,) = session._arms._survival.values()
            priors.append(survival.model_acceptance().tolist())
            run(session, GREEDY)
    assert (priors[0] != priors[1]) is learns


def test_a_prompt_longer_than_the_drafts_context_is_told(
    desk: Desk, tiny_target: Path, tmp_path: Path
) -> None:
    draft = write_tiny_model(tmp_path / "short.gguf", change=lambda w: w.add_context_length(3))
    with Session(tiny_target, draft, settings(draft_tokens=2), desk.environment) as session:
        told = [event for event in run(session, GREEDY) if isinstance(event, Notice)]
    assert [notice.message for notice in told] == [
        "the draft model does not draft: its context of 3 tokens is shorter than the prompt"
    ]


def test_a_draft_that_does_not_go_back_is_tried_once(
    desk: Desk, tiny_mamba: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[object] = []
    monkeypatch.setattr("spec_cli.loader.returns", tried.append)
    target = write_tiny_model(tmp_path / "long.gguf", change=lambda w: w.add_context_length(16384))
    sizes = []
    with Session(target, tiny_mamba, settings(), desk.environment) as session:
        for n_tokens in (100, 9000):
            session.prepare(10, n_tokens)
            sizes.append(session.n_ctx)
            assert session.drafter_name == "ngram"
    assert sizes[0] < sizes[1]
    assert len(tried) == 1


def test_costs_are_measured_once_and_remembered(
    desk: Desk, tiny_target: Path, tiny_draft: Path
) -> None:
    measuring = "measuring what a guess costs here (once)"
    for expected in (1, 0):
        desk.doings.clear()
        with Session(tiny_target, tiny_draft, settings(draft_tokens=2), desk.environment) as s:
            run(s, GREEDY)
            assert s.plain_step_s is not None and s.plain_step_s > 0
        assert desk.doings.count(measuring) == expected
        assert desk.doings.count("checking which passes give equal bits (once)") == expected


def test_a_recurrent_target_is_decoded_plainly_and_says_why(desk: Desk, tiny_mamba: Path) -> None:
    with Session(tiny_mamba, None, settings(drafter=DrafterKind.NGRAM), desk.environment) as s:
        events = run(s, GREEDY)
    assert isinstance(events[0], DraftingOff) and "recurrent" in events[0].reason
    assert len(tokens_of(events)) == 40


def test_ids_beyond_the_smaller_vocabulary_never_reach_the_draft(
    desk: Desk, tiny_target: Path, tmp_path: Path
) -> None:
    small = write_tiny_model(tmp_path / "small.gguf", seed=1, vocab=bpe_vocab(300))
    prompt = [40, 41, 310, 42]  # 310 is padding that only the target has
    tokens = []
    for drafter in (DrafterKind.NONE, DrafterKind.MODEL):
        chosen = settings(drafter=drafter, draft_tokens=3)
        with Session(tiny_target, small, chosen, desk.environment) as session:
            session.prepare(len(prompt), 40)
            tokens.append(tokens_of(list(session.generate(prompt, GREEDY))))
    assert tokens[0] == tokens[1]


def test_a_pair_with_other_tokens_is_refused_before_any_weight_is_loaded(
    desk: Desk, tiny_target: Path, tmp_path: Path
) -> None:
    other = write_tiny_model(tmp_path / "other.gguf", vocab=bpe_vocab(renamed={20: "zzz"}))
    with pytest.raises(PairError, match="20"):
        Session(tiny_target, other, settings(), desk.environment)
    assert desk.doings == []


def test_layers_asked_for_without_a_gpu_give_one_warning(desk: Desk, tiny_target: Path) -> None:
    from spec_cli.llama.devices import offload_devices

    if offload_devices():
        pytest.skip("this machine has a GPU")
    with Session(tiny_target, None, settings(n_gpu_layers=99), desk.environment) as session:
        run(session, GREEDY)
    assert [n.level for n in desk.notices] == ["warning"]


def test_a_prompt_that_does_not_fit_is_refused_with_both_numbers(
    desk: Desk, tiny_target: Path
) -> None:
    with (
        Session(tiny_target, None, settings(n_ctx=4), desk.environment) as session,
        pytest.raises(UsageError, match=r"the prompt has \d+ tokens, but the context holds 4"),
    ):
        run(session, GREEDY)


def test_a_model_without_a_draft_falls_to_ngrams_and_an_explicit_wish_is_an_error(
    desk: Desk, tiny_target: Path
) -> None:
    with Session(tiny_target, None, settings(), desk.environment) as session:
        assert session.kind is DrafterKind.NGRAM
    with pytest.raises(UsageError, match="needs a draft model"):
        Session(tiny_target, None, settings(drafter=DrafterKind.MODEL), desk.environment)


def test_cancelling_while_loading_raises_and_while_generating_keeps_the_text(
    desk: Desk, tiny_target: Path
) -> None:
    with Session(tiny_target, None, settings(drafter=DrafterKind.NONE), desk.environment) as s:
        tokens = s.model.tokenize(PROMPT, special=False, bos=False)
        s.prepare(len(tokens), 40)
        events = []
        for event in s.generate(tokens, GREEDY):
            events.append(event)
            desk.cancel = len(events) > 6
        assert isinstance(events[-1], Finished)
        assert events[-1].reason is FinishReason.INTERRUPTED
        assert 0 < len(events[-1].tokens) < 40
    with pytest.raises(Cancelled):
        Session(tiny_target, None, settings(), desk.environment)


def _plant(session: Session, *, target: list[float], draft_s: float) -> None:
    """Set pass times as if they had been measured here, at widths that may all be used.

    The draft times are those of a target that drafts for itself.
    """
    widths = tuple(range(1, len(target) + 1))
    times = PassTimes(widths, tuple(target))
    session._target.plan = replace(session.plan, widths=widths, times=times, long_times=None)
    session._target.meter = PassMeter(times)
    session._arms = Arms(
        session.plan,
        session._target.meter,
        session._draft,
        session._arms._constraining,
        is_end=session.model.is_end,
    )
    _plant_draft(session, session.target_header.path, draft_s)


def _plant_draft(session: Session, path: Path, draft_s: float) -> None:
    timer = session._loader._draft_timer(path)
    timer._state.save("pass-times", timer._key, [DRAFT_WIDTHS, [draft_s] * len(DRAFT_WIDTHS)])


@pytest.mark.parametrize("copy_s", [0.1, 0.3])
def test_a_faster_copy_drafts_where_it_gains_more_and_else_the_original(
    desk: Desk, tiny_target: Path, tiny_draft: Path, tmp_path: Path, copy_s: float
) -> None:
    """A copy guesses a little worse: as slow as the original it gains less."""
    making = "making a faster copy of the draft model (once)"
    environment = replace(desk.environment, copies=tmp_path / "copies")
    for n_made in (1, 0):
        desk.doings.clear()
        with Session(tiny_target, tiny_draft, settings(draft_tokens=3), environment) as session:
            draft, header = session._draft, session.draft_header
            assert draft is not None and header is not None
            copy = session._loader.copy_of(header)
            assert copy is not None and copy.parent == tmp_path / "copies"
            _plant(session, target=[1.0] * 16, draft_s=0.3)
            _plant_draft(session, tiny_draft, 0.3)
            _plant_draft(session, copy, copy_s)
            desk.clock = lambda: 0.0
            events = run(session, GREEDY)
            expected = copy if copy_s < 0.3 else tiny_draft
            assert (draft.path, draft.is_copy) == (expected, copy_s < 0.3)
            assert header.path == tiny_draft  # what was asked for
            assert session.costs is not None and session.costs.draft_token_s == copy_s
            other = tiny_draft if copy_s < 0.3 else copy
            assert f"loading {expected.name}" in desk.doings
            assert f"loading {other.name}" not in desk.doings  # its times were known
            assert desk.doings.count(making) == n_made
            assert isinstance(events[-1], Finished) and events[-1].stats.n_accepted > 0
    with Session(tiny_target, None, settings(drafter=DrafterKind.NONE), desk.environment) as plain:
        assert tokens_of(run(plain, GREEDY)) == tokens_of(events)


def test_without_a_directory_for_copies_the_original_drafts(
    desk: Desk, tiny_target: Path, tiny_draft: Path
) -> None:
    with Session(tiny_target, tiny_draft, settings(draft_tokens=3), desk.environment) as session:
        run(session, GREEDY)
        assert session._draft is not None and session._draft.path == tiny_draft
    assert not any("copy" in doing for doing in desk.doings)


def test_a_draft_model_that_cannot_win_leaves_copies_to_the_chain(
    desk: Desk, tiny_target: Path
) -> None:
    with Session(tiny_target, tiny_target, settings(), desk.environment) as session:
        _plant(session, target=[1.0] + [1.5] * 15, draft_s=3.0)
        desk.clock = lambda: 0.0
        run(session, GREEDY)
        assert session.drafter_name == "ngram"
        assert session._draft is not None and session._draft.context is None


@pytest.mark.parametrize(
    ("drift", "step_s", "said"), [(2.1, 0.05, 1), (1.2, 0.05, 0), (9, 1e-3, 0)]
)
def test_a_run_on_a_busy_machine_says_so(
    desk: Desk, tiny_target: Path, drift: float, step_s: float, said: int
) -> None:
    """Passes are observed through the clock of the desk: a frozen one leaves what is set here."""
    asked = settings(drafter=DrafterKind.NONE)
    with Session(tiny_target, None, asked, desk.environment) as session:
        times = PassTimes((1, 16), (step_s, step_s))
        session._target.plan = replace(session.plan, times=times, long_times=None)
        session._target.meter = PassMeter(times)
        for _ in range(3):
            session._target.meter.observe(1, 0, drift * step_s)
        desk.clock = lambda: 0.0
        events = run(session, GREEDY)
    notices = [event for event in events if isinstance(event, Notice)]
    assert len(notices) == said
    assert not said or "passes took 2.1 times as long" in notices[0].message
