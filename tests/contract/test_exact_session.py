"""A session under an exactness plan: every pass has an allowed width, and nothing else changes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from spec_cli.cli.info import describe
from spec_cli.download import LocalModel
from spec_cli.errors import Cancelled, ResourceError, UsageError
from spec_cli.events import DraftingOff, Event, Finished, FinishReason, Notice
from spec_cli.gguf import read_header
from spec_cli.llama.context import LlamaContext
from spec_cli.llama.library import library
from spec_cli.llama.model import LlamaModel, LoadSettings
from spec_cli.llama.native import ContextSettings
from spec_cli.llama.probe import Prober
from spec_cli.loader import Environment, Loader
from spec_cli.pairs import LocalPair
from spec_cli.render.json import result_object
from spec_cli.session import Session
from spec_cli.settings import DrafterKind, GenerationSettings, SessionSettings
from spec_cli.spec.costs import TARGET_WIDTHS, PassTimes
from spec_cli.spec.exactness import DEFAULT_KERNELS, ExactnessPlan, Kernels, Widths
from spec_cli.spec.interfaces import LanguageModel, Logits
from spec_cli.spec.meter import MeteredModel
from spec_cli.spec.padding import PaddedModel
from spec_cli.spec.settings import Exact, SamplingSettings
from spec_cli.state import StateStore

GREEDY = GenerationSettings(seed=1, sampling=SamplingSettings(temp=0), max_tokens=24)
SAMPLED = GenerationSettings(seed=5, sampling=SamplingSettings(temp=1.0), max_tokens=24)
PROMPT = (40, 41, 42, 43, 44, 45, 46, 40, 41, 42, 43)
FLAT = PassTimes(TARGET_WIDTHS, (1.0,) * len(TARGET_WIDTHS))
PROBING = "checking which passes give equal bits (once)"
TRYING = "trying kernels whose passes give equal bits (once)"


class Desk:
    """The outside of a session under test."""

    def __init__(self, directory: Path) -> None:
        self.notices: list[Notice] = []
        self.doings: list[str] = []
        self.cancel = False
        self.environment = Environment(
            state=StateStore(directory),
            clock=time.perf_counter,
            cancelled=lambda: self.cancel,
            notify=self.notices.append,
            progress=lambda what, fraction: self.doings.append(what),
        )

    def plant(self, target: Path, plan: ExactnessPlan, chosen: SessionSettings) -> None:
        """Keep `plan` as if an earlier run with these settings had found it."""
        Loader(chosen, self.environment)._planner(target)._keep(plan)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "state")


def settings(**changes: object) -> SessionSettings:
    return SessionSettings(**{"n_threads": 1, "exact": Exact.ON} | changes)  # type: ignore[arg-type]


def plan(
    widths: Widths | None, kernels: Kernels = DEFAULT_KERNELS, *, max_difference: float = 0.0
) -> ExactnessPlan:
    return ExactnessPlan(kernels, widths, 0.5, max_difference, FLAT, FLAT)


def run(
    session: Session, generation: GenerationSettings, prompt: Sequence[int] = PROMPT
) -> list[Event]:
    session.prepare(len(prompt), generation.max_tokens)
    return list(session.generate(prompt, generation))


def finished(events: Sequence[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


@dataclass
class Passes:
    """The target's passes that gave rows, and each row's number of tokens before it and bits."""

    widths: list[int] = field(default_factory=list)
    rows: list[tuple[int, bytes]] = field(default_factory=list)

    def at(self, n_past: int) -> bytes:
        """The bits of the row after `n_past` tokens that was evaluated last."""
        return next(row for at, row in reversed(self.rows) if at == n_past)


@contextmanager
def watched(session: Session) -> Iterator[Passes]:
    """Record the passes of the session's target, from below any padding."""
    passes, evaluate = Passes(), LlamaContext.eval

    def recorded(self: LlamaContext, tokens: Sequence[int], n_rows: int | None = None) -> Logits:
        at = self.n_past
        rows = evaluate(self, tokens, n_rows)
        if n_rows != 0 and self is _innermost(session):
            passes.widths.append(len(tokens))
            passes.rows += [(at + i + 1, row.tobytes()) for i, row in enumerate(rows)]
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LlamaContext, "eval", recorded)
        yield passes


def _innermost(session: Session) -> LanguageModel | None:
    model = session._target.language_model
    while isinstance(model, PaddedModel | MeteredModel):
        model = model._model
    return model


@pytest.fixture(scope="module", params=["what `on` finds", "the widest class"])
def found_here(
    request: pytest.FixtureRequest, tiny_target: Path, tmp_path_factory: pytest.TempPathFactory
) -> ExactnessPlan:
    """A plan for the tiny target that was found on this machine, not made up."""
    if request.param == "what `on` finds":
        desk = Desk(tmp_path_factory.mktemp("state"))
        with Session(tiny_target, None, settings(), desk.environment) as session:
            assert TRYING in desk.doings
            return session.plan
    with LlamaModel(tiny_target, LoadSettings()) as model:
        prober = Prober(
            model, TARGET_WIDTHS, n_threads=1, clock=time.perf_counter, cancelled=lambda: False
        )
        return plan(prober.probe(DEFAULT_KERNELS).classes[0])


@pytest.mark.parametrize("generation", [GREEDY, SAMPLED])
@pytest.mark.parametrize("drafter", [DrafterKind.MODEL, DrafterKind.NGRAM, DrafterKind.CHAIN])
@pytest.mark.parametrize("k", [1, 4, 9])
def test_under_the_plan_found_here_drafts_change_no_token_and_no_bit(
    desk: Desk,
    tiny_target: Path,
    tiny_draft: Path,
    found_here: ExactnessPlan,
    generation: GenerationSettings,
    drafter: DrafterKind,
    k: int,
) -> None:
    desk.plant(tiny_target, found_here, settings())
    assert found_here.widths is not None
    runs = []
    for chosen in (
        settings(drafter=DrafterKind.NONE),
        settings(drafter=drafter, draft_tokens=k),
    ):
        with (
            Session(tiny_target, tiny_draft, chosen, desk.environment) as session,
            watched(session) as passes,
        ):
            assert session.plan == found_here
            runs.append((finished(run(session, generation)), passes))
    (plain, plain_passes), (drafted, passes) = runs
    assert drafted.tokens == plain.tokens and len(plain.tokens) == 24
    for n_past in range(len(PROMPT), len(PROMPT) + 24):
        assert passes.at(n_past) == plain_passes.at(n_past), f"after {n_past} tokens"
    assert set(plain_passes.widths) | set(passes.widths) <= set(found_here.widths)
    if drafter.needs_model and found_here.widths[-1] > 1:
        assert drafted.stats.n_accepted > 0 and drafted.stats.acceptance_rate != 1


def test_without_a_plan_bits_depend_on_the_width_where_the_probe_says_so(
    desk: Desk, tiny_target: Path
) -> None:
    """Else the comparison of bits above would show nothing."""
    rows = []
    for drafter in (DrafterKind.NONE, DrafterKind.NGRAM):
        chosen = settings(exact=Exact.OFF, drafter=drafter, draft_tokens=9)
        with (
            Session(tiny_target, None, chosen, desk.environment) as session,
            watched(session) as passes,
        ):
            if session.plan.max_difference == 0:
                pytest.skip("all widths agree on this machine")
            run(session, GREEDY)
            assert drafter is DrafterKind.NONE or max(passes.widths) > 1
            rows.append([passes.at(n) for n in range(len(PROMPT), len(PROMPT) + 24)])
    assert rows[0] != rows[1]


@pytest.mark.parametrize("exact", list(Exact))
def test_each_mode_finds_its_plan_once_and_keeps_it(
    desk: Desk, tiny_target: Path, exact: Exact
) -> None:
    doing = TRYING if exact is Exact.ON else PROBING
    plans = []
    for _ in range(2):
        desk.doings.clear()
        with Session(tiny_target, None, settings(exact=exact), desk.environment) as session:
            plans.append(session.plan)
            assert (doing in desk.doings) == (len(plans) == 1)
            assert len(finished(run(session, GREEDY)).tokens) == 24
    assert plans[0] == plans[1]
    if exact is not Exact.AUTO:  # measured times decide that
        assert plans[0].is_exact == (exact is Exact.ON)


def test_a_plan_made_with_other_threads_is_not_taken(desk: Desk, tiny_target: Path) -> None:
    desk.plant(tiny_target, plan((2, 4)), settings(exact=Exact.AUTO, n_threads=2))
    with Session(tiny_target, None, settings(exact=Exact.AUTO), desk.environment) as session:
        assert session.plan.widths != (2, 4)
    assert PROBING in desk.doings


@pytest.mark.parametrize("drafter", [DrafterKind.NONE, DrafterKind.NGRAM, DrafterKind.MODEL])
@pytest.mark.parametrize("widths", [(2, 4, 8), (4,), (16,)])
def test_every_pass_of_the_target_has_a_width_of_the_plan(
    desk: Desk, tiny_target: Path, tiny_draft: Path, drafter: DrafterKind, widths: Widths
) -> None:
    desk.plant(tiny_target, plan(widths), settings())
    chosen = settings(drafter=drafter, draft_tokens=3)
    with (
        Session(tiny_target, tiny_draft, chosen, desk.environment) as session,
        watched(session) as passes,
    ):
        found = finished(run(session, GREEDY))
    assert set(passes.widths) <= set(widths)
    assert passes.widths[0] == widths[0]  # a plain step, whoever drafts
    assert len(passes.widths) == found.stats.n_rounds
    if drafter is DrafterKind.NONE:
        assert set(passes.widths) == {widths[0]}
    else:
        assert found.stats.n_drafted > 0
        assert 4 in passes.widths or widths == (16,)


def test_the_costs_are_those_of_padded_passes(desk: Desk, tiny_target: Path) -> None:
    times = PassTimes((1, 4, 8), (1.0, 3.0, 5.0))
    chosen_plan = replace(plan((4, 8)), times=times, long_times=times)
    desk.plant(tiny_target, chosen_plan, settings())
    chosen = settings(drafter=DrafterKind.NGRAM, draft_tokens=2)
    with Session(tiny_target, None, chosen, desk.environment) as session:
        run(session, GREEDY)
        assert session.plain_step_s == 3.0
        assert session.costs is not None
        assert session.costs.target.seconds == (3.0,) * 4 + (5.0,) * 4


def test_longer_drafts_than_the_plan_allows_are_cut_with_a_notice(
    desk: Desk, tiny_target: Path, tiny_draft: Path
) -> None:
    desk.plant(tiny_target, plan((2, 4, 8)), settings())
    chosen = settings(drafter=DrafterKind.MODEL, draft_tokens=20)
    with (
        Session(tiny_target, tiny_draft, chosen, desk.environment) as session,
        watched(session) as passes,
    ):
        (notice,) = [notice for notice in desk.notices if "cut" in notice.message]
        assert "cut to 7 tokens" in notice.message and "--exact off" in (notice.hint or "")
        found = finished(run(session, GREEDY))
    assert max(passes.widths) == 8
    assert 0 < found.stats.n_drafted <= 7 * found.stats.n_drafting_rounds


@pytest.mark.parametrize(("widths", "k"), [((2, 4, 8), 7), ((1, 2), 1), (None, 20)])
def test_drafts_that_fit_are_not_cut(
    desk: Desk, tiny_target: Path, tiny_draft: Path, widths: Widths | None, k: int
) -> None:
    desk.plant(tiny_target, plan(widths), settings())
    chosen = settings(drafter=DrafterKind.MODEL, draft_tokens=k)
    with (
        Session(tiny_target, tiny_draft, chosen, desk.environment) as session,
        watched(session) as passes,
    ):
        assert session.plan.widths == widths
        run(session, GREEDY)
    assert not any("cut" in notice.message for notice in desk.notices)
    assert max(passes.widths) == k + 1


def test_drafts_cut_to_one_token_are_not_said_to_be_cut_to_1_tokens(
    desk: Desk, tiny_target: Path
) -> None:
    desk.plant(tiny_target, plan((1, 2)), settings())
    chosen = settings(drafter=DrafterKind.NGRAM, draft_tokens=2)
    with Session(tiny_target, None, chosen, desk.environment):
        assert "cut to 1 token:" in desk.notices[0].message


@pytest.mark.parametrize("drafter", [DrafterKind.NGRAM, DrafterKind.MODEL])
def test_where_only_plain_steps_are_exact_nothing_is_drafted_and_the_reason_said(
    desk: Desk, tiny_target: Path, tiny_draft: Path, drafter: DrafterKind
) -> None:
    desk.plant(tiny_target, plan((1,)), settings())
    chosen = settings(drafter=drafter, draft_tokens=3)
    with (
        Session(tiny_target, tiny_draft, chosen, desk.environment) as session,
        watched(session) as passes,
    ):
        events = run(session, GREEDY)
        assert session.drafter_name == "none"
    (off,) = [event for event in events if isinstance(event, DraftingOff)]
    assert off.reason == session.drafting_off and "no pass over more than one token" in off.reason
    assert set(passes.widths) == {1} and len(finished(events).tokens) == 24
    assert not any(tiny_draft.name in doing for doing in desk.doings)  # not even loaded
    assert not any("cut" in notice.message for notice in desk.notices)


def test_where_only_plain_steps_are_exact_plain_decoding_needs_no_reason(
    desk: Desk, tiny_target: Path
) -> None:
    desk.plant(tiny_target, plan((1,)), settings())
    with Session(
        tiny_target, None, settings(drafter=DrafterKind.NONE), desk.environment
    ) as session:
        assert session.drafting_off is None
        events = run(session, GREEDY)
    assert not any(isinstance(event, DraftingOff) for event in events)


def test_a_recurrent_target_has_an_exact_plan_of_one_width_in_every_mode(
    desk: Desk, tiny_mamba: Path
) -> None:
    texts = set()
    for exact in Exact:
        with Session(tiny_mamba, None, settings(exact=exact), desk.environment) as session:
            assert session.plan.widths == (None if exact is Exact.OFF else (1,))
            events = run(session, GREEDY)
        assert isinstance(events[0], DraftingOff) and "recurrent" in events[0].reason
        texts.add(finished(events).tokens)
    assert len(texts) == 1


@pytest.mark.parametrize("n_batch", [1, 3])
@pytest.mark.parametrize("drafter", [DrafterKind.NONE, DrafterKind.NGRAM])
def test_a_batch_smaller_than_the_padding_works(
    desk: Desk, tiny_target: Path, n_batch: int, drafter: DrafterKind
) -> None:
    desk.plant(tiny_target, plan((8, 16)), settings())
    chosen = settings(drafter=drafter, n_batch=n_batch)
    with (
        Session(tiny_target, None, chosen, desk.environment) as session,
        watched(session) as passes,
    ):
        found = finished(run(session, GREEDY))
    assert len(found.tokens) == 24
    assert set(passes.widths) == {8}
    assert found.stats.n_drafted <= (n_batch - 1) * found.stats.n_drafting_rounds


@pytest.mark.parametrize("drafter", [DrafterKind.NONE, DrafterKind.NGRAM, DrafterKind.MODEL])
@pytest.mark.parametrize("more", [0, 1, 2, 9, 24])
def test_a_context_of_just_the_prompt_and_its_answer_is_filled_to_the_end(
    desk: Desk, tiny_target: Path, tiny_draft: Path, drafter: DrafterKind, more: int
) -> None:
    desk.plant(tiny_target, plan((4, 8, 16)), settings())
    n_ctx = len(PROMPT) + more
    texts = []
    for max_tokens in (more, None):  # as many tokens as fit, and one more that needs no cell
        chosen = settings(drafter=drafter, draft_tokens=5, n_ctx=n_ctx)
        with (
            Session(tiny_target, tiny_draft, chosen, desk.environment) as session,
            watched(session) as passes,
        ):
            found = finished(run(session, replace(SAMPLED, max_tokens=max_tokens)))
            assert session.n_ctx == n_ctx
            assert found.reason is FinishReason.LENGTH
            assert set(passes.widths) <= {4, 8, 16}
            texts.append(found.tokens)
    assert len(texts[0]) == more and len(texts[1]) == more + 1
    assert texts[1][:more] == texts[0]
    desk.plant(tiny_target, plan((4, 8, 16)), settings())
    with Session(
        tiny_target, None, settings(drafter=DrafterKind.NONE), desk.environment
    ) as session:
        assert finished(run(session, replace(SAMPLED, max_tokens=more + 1))).tokens == texts[1]


def test_a_context_as_long_as_the_model_was_trained_for_can_be_filled(
    desk: Desk, tiny_target: Path
) -> None:
    desk.plant(tiny_target, plan((16,)), settings())
    with Session(
        tiny_target, None, settings(drafter=DrafterKind.NONE), desk.environment
    ) as session:
        n = session.model.n_ctx_train - 3
        found = finished(
            run(session, replace(GREEDY, max_tokens=None), [40 + i % 9 for i in range(n)])
        )
        assert session.n_ctx == session.model.n_ctx_train
    assert len(found.tokens) == 4
    assert desk.notices == []


def test_padding_never_stands_at_a_position_that_was_not_learned(
    desk: Desk, tiny_target: Path
) -> None:
    desk.plant(tiny_target, plan((1, 2, 16)), settings())
    with Session(
        tiny_target, None, settings(drafter=DrafterKind.NONE), desk.environment
    ) as session:
        session._target.header = replace(session.target_header, architecture="gpt2")
        session.prepare(5, None)
        assert session.n_ctx == session.model.n_ctx_train - 16


@pytest.mark.parametrize(
    ("n_ctx", "n_prompt", "hint"),
    [
        (100, 495, "use `--ctx-size 496`"),
        (4000, 497, "shorten it: this model was trained for 496 tokens"),
    ],
)
def test_where_positions_end_no_context_beyond_them_is_made_or_advised(
    desk: Desk,
    tiny_target: Path,
    monkeypatch: pytest.MonkeyPatch,
    n_ctx: int,
    n_prompt: int,
    hint: str,
) -> None:
    architecture = read_header(tiny_target).architecture
    monkeypatch.setattr("spec_cli.target_side._LEARNED_POSITIONS", (architecture,))
    desk.plant(tiny_target, plan((1, 2, 16)), settings(n_ctx=n_ctx))
    with Session(tiny_target, None, settings(n_ctx=n_ctx), desk.environment) as session:
        assert session.n_ctx_max == min(n_ctx, 512 - 16)
        with pytest.raises(UsageError) as caught:
            session.prepare(n_prompt, None)
    assert caught.value.hint == hint
    cut = "the context of 4,000 tokens is cut to 496: this model cannot read further"
    assert [notice.message for notice in desk.notices] == [cut] * (n_ctx == 4000)


def test_a_context_longer_than_trained_for_is_told_once(desk: Desk, tiny_target: Path) -> None:
    with Session(tiny_target, None, settings(n_ctx=4000), desk.environment) as session:
        for n_prompt in (5, 6):
            session.prepare(n_prompt, None)
    (message,) = [n.message for n in desk.notices if n.level == "warning"]
    assert "4,000 tokens is longer than the 512 that the model was trained for" in message


def test_a_process_has_one_kind_of_kernels_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GGML_CPU_TILED_MM", "1")
    monkeypatch.setattr(library(), "tiled", True)
    library().use_tiled(True)
    with pytest.raises(ResourceError, match="other kernels"):
        library().use_tiled(False)


def test_a_session_can_be_prepared_again_for_more(desk: Desk, tiny_target: Path) -> None:
    desk.plant(tiny_target, plan((4, 8)), settings())
    chosen = settings(drafter=DrafterKind.NGRAM, draft_tokens=3)
    with Session(tiny_target, None, chosen, desk.environment) as session:
        session._target._settings = replace(chosen, n_ctx=len(PROMPT) + 1)
        session.prepare(len(PROMPT), 1)
        small = session._target.language_model
        session.prepare(len(PROMPT), 1)
        assert session._target.language_model is small
        session._target._settings = chosen
        assert len(finished(run(session, GREEDY)).tokens) == 24
        assert session._target.language_model is not small


def test_a_cancelled_padded_pass_leaves_nothing_behind(desk: Desk, tiny_target: Path) -> None:
    desk.plant(tiny_target, plan((8,)), settings())
    with Session(
        tiny_target, None, settings(drafter=DrafterKind.NONE), desk.environment
    ) as session:
        expected = finished(run(session, GREEDY)).tokens
        target = session._target.language_model
        assert target is not None
        target.rollback(0)
        before = target.eval(PROMPT[:5]).copy()
        desk.cancel = True
        with pytest.raises(Cancelled):
            target.eval(PROMPT[5:7])
        desk.cancel = False
        assert target.n_past == 5
        target.rollback(0)
        assert np.array_equal(target.eval(PROMPT[:5]), before)
        assert finished(run(session, GREEDY)).tokens == expected


@pytest.mark.parametrize(
    "kernels", [Kernels(k_type="bf16"), Kernels(v_type="q8_0", repack=False), Kernels(tiled=False)]
)
def test_the_target_and_no_draft_is_run_with_the_kernels_of_the_plan(
    desk: Desk,
    tiny_target: Path,
    tiny_draft: Path,
    monkeypatch: pytest.MonkeyPatch,
    kernels: Kernels,
) -> None:
    monkeypatch.setenv("GGML_CPU_TILED_MM", "1")  # and put back afterwards
    monkeypatch.setattr(library(), "tiled", None)
    loads: dict[str, bool] = {}
    caches: dict[str, tuple[str, str]] = {}

    class SpiedModel(LlamaModel):
        def __init__(self, path: Path, load: LoadSettings, **more: object) -> None:
            loads[path.name] = load.repack
            super().__init__(path, load, **more)  # type: ignore[arg-type]

    class SpiedContext(LlamaContext):
        def __init__(self, model: LlamaModel, made: ContextSettings, **more: object) -> None:
            caches[model.path.name] = (made.k_type, made.v_type)
            super().__init__(model, made, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("spec_cli.loader.LlamaModel", SpiedModel)
    monkeypatch.setattr("spec_cli.loader.LlamaContext", SpiedContext)
    desk.plant(tiny_target, plan((1, 2, 4), kernels), settings())
    with Session(tiny_target, tiny_draft, settings(draft_tokens=2), desk.environment) as session:
        run(session, GREEDY)
    assert loads == {tiny_target.name: kernels.repack, tiny_draft.name: True}
    assert caches == {
        tiny_target.name: (kernels.k_type, kernels.v_type),
        tiny_draft.name: ("f16", "f16"),
    }
    assert os.environ["GGML_CPU_TILED_MM"] == ("1" if kernels.tiled else "0")


@pytest.mark.parametrize(
    ("widths", "expected"),
    [
        ((2, 4, 8), {"mode": "bit-exact", "plain_step_width": 2, "near_ties": None}),
        (None, {"mode": "fast", "plain_step_width": 1}),
    ],
)
def test_the_result_says_what_was_asked_and_what_was_done(
    desk: Desk, tiny_target: Path, widths: Widths | None, expected: dict[str, object]
) -> None:
    found = plan(widths, Kernels(k_type="bf16"), max_difference=0.25)
    desk.plant(tiny_target, found, settings(exact=Exact.AUTO))
    pair = LocalPair(LocalModel("tiny", tiny_target, size_bytes=1), None)
    with Session(tiny_target, None, settings(exact=Exact.AUTO), desk.environment) as session:
        done = finished(run(session, GREEDY))
        info = describe(session, pair, GREEDY, n_prompt=len(PROMPT), load_s=0.0)
        assert info.plan == found
    told = result_object(info, done, None)["exactness"]
    assert isinstance(told, dict)
    assert told["asked"] == "auto" and told["widths"] == widths
    assert told["kernels"] == {"k_type": "bf16", "v_type": "f16", "repack": True, "tiled": True}
    assert (told["price"], told["max_logit_difference"]) == (0.5, 0.25)
    assert {name: told[name] for name in expected} == expected
    if widths is None:
        assert told["near_ties"] == done.stats.n_near_ties > 0  # within 0.5 of one another


def test_near_ties_are_counted_only_where_bits_may_differ(desk: Desk, tiny_target: Path) -> None:
    desk.plant(tiny_target, plan((1, 2, 4), max_difference=0.25), settings())
    with Session(tiny_target, None, settings(), desk.environment) as session:
        assert finished(run(session, GREEDY)).stats.n_near_ties == 0
