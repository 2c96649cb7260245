"""Memories that are no plain cache: sliding windows, and states that each token overwrites."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from spec_cli.errors import Cancelled, ResourceError
from spec_cli.events import DraftingOff, Event, Finished, Notice, RoundDone
from spec_cli.llama.context import LlamaContext
from spec_cli.llama.memory import N_SNAPSHOTS, Memory
from spec_cli.llama.model import LlamaModel, LoadSettings
from spec_cli.llama.native import ContextSettings
from spec_cli.llama.rolling_back import returns, rolls_back
from spec_cli.loader import Environment, Loader
from spec_cli.session import Session
from spec_cli.settings import DrafterKind, GenerationSettings, SessionSettings
from spec_cli.spec.costs import PassTimes
from spec_cli.spec.exactness import DEFAULT_KERNELS, ExactnessPlan, Rollback, Widths
from spec_cli.spec.interfaces import Logits
from spec_cli.spec.settings import Exact, SamplingSettings
from spec_cli.state import StateStore
from tests.tiny_gguf import N_WINDOW, write_tiny_model

PROMPT = "the llama and the alpaca and the llama and " * 3
N_TOKENS = 6 * N_WINDOW
GREEDY = GenerationSettings(seed=1, sampling=SamplingSettings(temp=0), max_tokens=N_TOKENS)
SAMPLED = GenerationSettings(seed=1, sampling=SamplingSettings(temp=1), max_tokens=N_TOKENS)


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(
        state=StateStore(tmp_path / "state"),
        clock=time.perf_counter,
        cancelled=lambda: False,
        notify=lambda notice: None,
        progress=lambda what, fraction: None,
    )


def run(
    environment: Environment,
    target: Path,
    draft: Path | None,
    generation: GenerationSettings,
    **changes: object,
) -> list[Event]:
    defaults: dict[str, object] = {"n_threads": 1, "exact": Exact.OFF}
    settings = SessionSettings(**(defaults | changes))  # type: ignore[arg-type]
    with Session(target, draft, settings, environment) as session:
        tokens = session.model.tokenize(PROMPT, special=False, bos=False)
        session.prepare(len(tokens), generation.max_tokens)
        return list(session.generate(tokens, generation))


def finished(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


@pytest.mark.parametrize("generation", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("k", [1, 4, 9])
def test_drafts_far_beyond_a_sliding_window_change_nothing(
    environment: Environment, tmp_path: Path, generation: GenerationSettings, k: int
) -> None:
    target = write_tiny_model(tmp_path / "target.gguf", arch="gemma3")
    draft = write_tiny_model(tmp_path / "draft.gguf", arch="gemma3", noise=0.1)
    plain = run(environment, target, None, generation, drafter=DrafterKind.NONE)
    drafted = run(environment, target, draft, generation, draft_tokens=k)
    assert len(finished(plain).tokens) == N_TOKENS
    assert finished(drafted).tokens == finished(plain).tokens
    assert 0 < finished(drafted).stats.n_accepted < finished(drafted).stats.n_drafted


def test_a_window_decides_what_is_said(environment: Environment, tmp_path: Path) -> None:
    narrow = write_tiny_model(tmp_path / "narrow.gguf", arch="gemma3")
    wide = write_tiny_model(
        tmp_path / "wide.gguf", arch="gemma3", change=lambda w: w.add_sliding_window(10**6)
    )
    texts = [
        finished(run(environment, path, None, GREEDY, drafter=DrafterKind.NONE)).tokens
        for path in (narrow, wide)
    ]
    assert texts[0] != texts[1]


HYBRIDS = ["qwen35", "lfm2", "nemotron_h"]
WIDTHS = (1, 2, 3, 4, 6, 8)
FLAT = PassTimes(WIDTHS, (1.0,) * len(WIDTHS))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of tiny models: of each architecture a target and drafts of it."""
    directory = tmp_path_factory.mktemp("memories")
    for arch in (*HYBRIDS, "mamba", "llama"):
        for name, noise in (("target", 0.0), ("draft", 0.1)):
            path = directory / f"{arch}-{name}.gguf"
            write_tiny_model(path, arch=arch, n_layer=4, noise=noise)  # type: ignore[arg-type]
        path = directory / f"{arch}-wrong.gguf"
        write_tiny_model(path, arch=arch, seed=9)  # type: ignore[arg-type]
    return directory


@contextmanager
def opened(
    path: Path, *, n_snapshots: int = N_SNAPSHOTS, n_sequences: int = 1
) -> Iterator[LlamaContext]:
    settings = ContextSettings(
        256,
        n_threads=1,
        n_batch=32,
        n_rows=32,
        n_snapshots=n_snapshots,
        n_sequences=n_sequences,
    )
    with LlamaModel(path, LoadSettings()) as model, LlamaContext(model, settings) as context:
        yield context


def plant(environment: Environment, target: Path, widths: Widths | None, **chosen: object) -> None:
    """Keep a plan as if an earlier run had found it."""
    settings = SessionSettings(n_threads=1, **chosen)  # type: ignore[arg-type]
    plan = ExactnessPlan(DEFAULT_KERNELS, widths, 0.0, 0.0, FLAT, FLAT, rollback=Rollback.SNAPSHOTS)
    Loader(settings, environment)._planner(target)._keep(plan)


@pytest.mark.parametrize("arch", HYBRIDS)
def test_a_hybrid_memory_that_rolled_back_gives_the_bits_of_one_that_never_had_to(
    models: Path, arch: str
) -> None:
    with opened(models / f"{arch}-target.gguf") as context:
        assert context.n_snapshots == N_SNAPSHOTS
        assert rolls_back(context)


@pytest.mark.parametrize("arch", [*HYBRIDS, "mamba", "llama"])
def test_every_memory_returns_to_a_mark(models: Path, arch: str) -> None:
    with opened(models / f"{arch}-target.gguf", n_snapshots=0, n_sequences=2) as context:
        assert returns(context)


@pytest.mark.parametrize("arch", HYBRIDS)
@given(
    rounds=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 8)), min_size=1, max_size=8),
    steps=st.integers(1, 3),
)
@limits(max_examples=20, deadline=None)
def test_what_was_dropped_leaves_no_trace_however_often(
    models: Path, arch: str, rounds: Sequence[tuple[int, int]], steps: int
) -> None:
    """Of each pass some tokens are kept; what the others are changes no bit. `steps`: rolled back
    one after the other, as a padded pass is."""
    found = []
    with opened(models / f"{arch}-target.gguf") as context:
        for wrong in (17, 200):
            context.keep(())
            context.eval([5, 6, 7], n_rows=0)
            for width, most in rounds:
                n_kept, n_past = min(width, most), context.n_past
                kept = [(31 * i + 7) % 300 for i in range(n_past, n_past + n_kept)]
                rows = context.eval([*kept, *[wrong] * (width - n_kept)])[:n_kept].copy()
                for left in range(steps - 1, -1, -1):
                    n = n_past + n_kept
                    context.rollback(n + (context.n_past - n) * left // steps)
                assert list(context.evaluated)[n_past:] == kept
            found.append((rows, context.eval([8, 9]).copy()))
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other)


def test_no_state_of_an_earlier_pass_is_taken_for_one_of_the_last(models: Path) -> None:
    """llama.cpp would: it takes any rollback of up to `n_rs_seq` tokens."""
    with opened(models / "qwen35-target.gguf") as context:
        context.eval(list(range(20)))
        context.eval([1, 2, 3])
        context.rollback(21)
        with pytest.raises(ResourceError, match="cannot drop"):
            context.rollback(20)
        assert context.n_past == 21
        context.eval([4])
        with pytest.raises(ResourceError, match="cannot drop"):
            context.rollback(21)
        context.eval(list(range(20)))
        with pytest.raises(ResourceError, match="cannot drop"):
            context.rollback(context.n_past - N_SNAPSHOTS - 1)
        context.rollback(context.n_past - N_SNAPSHOTS)


@pytest.mark.parametrize("arch", HYBRIDS)
def test_a_beginning_is_kept_as_far_as_the_memory_can_go_back(models: Path, arch: str) -> None:
    tokens = [(31 * i + 7) % 300 for i in range(40)]
    with opened(models / f"{arch}-target.gguf") as context:
        context.eval(tokens[:30], n_rows=0)
        expected = context.eval(tokens[30:36]).copy()
        assert context.keep([*tokens[:32], 299]) == 32
        assert context.keep(tokens[:31]) == 31
        context.eval(tokens[31:36])
        assert context.keep(tokens[:30]) == 0
        context.eval(tokens[:30], n_rows=0)
        assert np.array_equal(context.eval(tokens[30:36]), expected)


def test_a_mark_is_where_a_beginning_ends_that_snapshots_do_not_reach(models: Path) -> None:
    tokens = [(31 * i + 7) % 300 for i in range(40)]
    with opened(models / "qwen35-target.gguf", n_sequences=2) as context:
        context.eval(tokens[:30], n_rows=0)
        context.keep(tokens)
        expected = context.eval(tokens[30:34]).copy()
        context.eval(tokens[34:], n_rows=0)
        assert context.keep(tokens[:39]) == 39  # by a snapshot: no mark can be set there
        context.eval(tokens[:5])
        assert context.keep(tokens[:33]) == 30
        assert np.array_equal(context.eval(tokens[30:34]), expected)
        assert context.keep(tokens[:20]) == 0


@pytest.mark.parametrize("arch", HYBRIDS)
def test_a_state_that_was_saved_while_tokens_were_taken_back_is_the_one_before_them(
    models: Path, arch: str
) -> None:
    with opened(models / f"{arch}-target.gguf") as context:
        context.eval([5, 6, 7, 8, 9, 10])
        context.rollback(4)
        state = bytes(context.state())
        expected = context.eval([11, 12]).copy()
        assert context.restore([5, 6, 7, 8], state)
        with pytest.raises(ResourceError):
            context.rollback(3)
        assert np.array_equal(context.eval([11, 12]), expected)


@pytest.mark.parametrize("n_sequences", [1, 2])
def test_a_hybrid_memory_goes_back_to_what_it_surely_has_after_a_cancelled_pass(
    models: Path, n_sequences: int
) -> None:
    cancel = False
    settings = ContextSettings(
        64, n_threads=1, n_batch=16, n_rows=16, n_snapshots=7, n_sequences=n_sequences
    )
    with (
        LlamaModel(models / "qwen35-target.gguf", LoadSettings()) as model,
        LlamaContext(model, settings, cancelled=lambda: cancel) as context,
    ):
        text = [5, 6, 7]
        context.eval(text, n_rows=0)
        expected = context.eval([8, 9]).copy()
        context.keep(())
        context.eval(text, n_rows=0)
        context.keep(text)
        context.eval([8, 9, 9, 9])
        context.rollback(5)
        cancel = True
        with pytest.raises(Cancelled):
            context.eval([10, 11])
        cancel = False
        assert context.n_past == (0 if n_sequences == 1 else 3)
        if n_sequences == 1:
            context.eval(text, n_rows=0)
        assert np.array_equal(context.eval([8, 9]), expected)


@pytest.mark.parametrize("exact", [Exact.ON, Exact.OFF])
@pytest.mark.parametrize("generation", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("arch", HYBRIDS)
def test_drafts_for_a_hybrid_target_change_nothing(
    environment: Environment,
    models: Path,
    arch: str,
    generation: GenerationSettings,
    exact: Exact,
) -> None:
    target = models / f"{arch}-target.gguf"
    plant(environment, target, WIDTHS if exact is Exact.ON else None, exact=exact)
    plain = run(environment, target, None, generation, drafter=DrafterKind.NONE, exact=exact)
    for draft, drafter, k in (
        ("draft", DrafterKind.MODEL, 3),
        ("draft", DrafterKind.CHAIN, 7),
        ("wrong", DrafterKind.MODEL, 7),
        (None, DrafterKind.NGRAM, 5),
    ):
        path = models / f"{arch}-{draft}.gguf" if draft else None
        drafted = run(
            environment, target, path, generation, draft_tokens=k, drafter=drafter, exact=exact
        )
        assert finished(drafted).tokens == finished(plain).tokens
        stats = finished(drafted).stats
        assert stats.n_accepted < stats.n_drafted
        assert draft != "draft" or stats.n_accepted > stats.n_drafted / 10


@pytest.mark.parametrize("widths", [(4, 8), (8,)])
def test_throw_away_rows_count_against_the_snapshots(
    environment: Environment, models: Path, widths: Widths
) -> None:
    target = models / "qwen35-target.gguf"
    plant(environment, target, widths, exact=Exact.ON)
    plain = run(environment, target, None, GREEDY, drafter=DrafterKind.NONE, exact=Exact.ON)
    for k in (1, 5, 7):
        drafted = run(
            environment,
            target,
            models / "qwen35-draft.gguf",
            GREEDY,
            draft_tokens=k,
            exact=Exact.ON,
        )
        assert finished(drafted).tokens == finished(plain).tokens


@pytest.mark.parametrize("arch", ["qwen35", "mamba"])
def test_a_recurrent_draft_guesses_for_any_target(
    environment: Environment, models: Path, arch: str
) -> None:
    target = models / "llama-target.gguf"
    plain = run(environment, target, None, GREEDY, drafter=DrafterKind.NONE)
    drafted = run(
        environment,
        target,
        models / f"{arch}-draft.gguf",
        GREEDY,
        draft_tokens=4,
        drafter=DrafterKind.MODEL,
    )
    assert not [event for event in drafted if isinstance(event, DraftingOff)]
    assert finished(drafted).tokens == finished(plain).tokens
    assert finished(drafted).stats.n_drafted > N_TOKENS


def test_a_recurrent_draft_that_goes_back_guesses_what_one_that_reads_all_again_does(
    environment: Environment, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, draft = models / "qwen35-target.gguf", models / "qwen35-draft.gguf"
    plant(environment, target, WIDTHS, exact=Exact.ON)
    guesses = []
    for _ in range(2):
        events = run(environment, target, draft, GREEDY, draft_tokens=4, exact=Exact.ON)
        guesses.append([e.detail.draft.tokens for e in events if isinstance(e, RoundDone)])
        monkeypatch.setattr(Memory, "mark", lambda self: None)
    # Passes of other widths round otherwise, which decides a guess now and then.
    equal = [one == other for one, other in zip(*guesses, strict=True)]
    assert sum(equal) > 0.9 * len(equal) > 9


def test_a_hybrid_target_goes_on_with_what_it_has_read(
    environment: Environment, models: Path
) -> None:
    target, draft = models / "qwen35-target.gguf", models / "qwen35-draft.gguf"
    plant(environment, target, WIDTHS, exact=Exact.ON)
    generation = GenerationSettings(seed=1, sampling=SamplingSettings(temp=0), max_tokens=40)
    settings = SessionSettings(n_threads=1, exact=Exact.ON, draft_tokens=5)

    def answers(*, reads_again: bool) -> list[Finished]:
        found = []
        with Session(target, draft, settings, environment) as session:
            prompt = session.model.tokenize(PROMPT, special=False, bos=False)
            session.prepare(400, 40)
            for question in ([70, 71], [72], []):
                found.append(finished(list(session.generate(prompt, generation))))
                prompt = [*prompt, *found[-1].tokens, *question]
                if reads_again:
                    session.forget_text()
        return found

    kept, fresh = answers(reads_again=False), answers(reads_again=True)
    assert [one.tokens for one in kept] == [one.tokens for one in fresh]
    assert [one.stats.n_cached for one in fresh] == [0, 0, 0]
    first, second, third = (one.stats for one in kept)
    assert (first.n_cached, second.n_cached) == (0, first.n_prompt + 39)
    assert third.n_cached == second.n_prompt + 39


def test_longer_drafts_than_the_snapshots_take_back_are_cut(
    environment: Environment, models: Path
) -> None:
    notices: list[Notice] = []
    environment = replace(environment, notify=notices.append)
    target = models / "lfm2-target.gguf"
    drafted = run(environment, target, models / "lfm2-draft.gguf", GREEDY, draft_tokens=12)
    assert notices[-1] == Notice(
        "drafts are cut to 7 tokens: the target's recurrent memory takes back no more"
    )
    assert finished(drafted).stats.n_accepted > 0


def test_a_recurrent_target_without_snapshots_is_decoded_plainly_and_says_so(
    environment: Environment, models: Path
) -> None:
    target, draft = models / "mamba-target.gguf", models / "llama-draft.gguf"
    plain = run(environment, target, None, GREEDY, drafter=DrafterKind.NONE)
    drafted = run(environment, target, draft, GREEDY, draft_tokens=4)
    assert [event.reason for event in drafted if isinstance(event, DraftingOff)] == [
        "the target's memory is recurrent: it cannot forget rejected tokens"
    ]
    assert finished(drafted).tokens == finished(plain).tokens


class LeavesOne(LlamaContext):
    """Leaves one of the tokens that are to be dropped."""

    def rollback(self, n_past: int) -> None:
        super().rollback(min(n_past + 1, self.n_past) if n_past else 0)


class MixesUp(LlamaContext):
    """Takes another token for the last that is kept, where it can go back so far."""

    def rollback(self, n_past: int) -> None:
        is_wrong = 0 < n_past < self.n_past
        try:
            super().rollback(n_past - is_wrong)
        except ResourceError:
            super().rollback(n_past)
        else:
            if is_wrong:
                self.eval([42])


class SplitsPasses(LlamaContext):
    """Does not know that of the last two tokens alone there are snapshots: others are older."""

    def eval(self, tokens: Sequence[int], n_rows: int | None = None) -> Logits:
        if n_rows == 0 or len(tokens) < 3:
            return super().eval(tokens, n_rows)
        first = super().eval(tokens[:-2]).copy()
        rows = np.concatenate([first, super().eval(tokens[-2:])])
        self._memory._n_undoable = min(len(tokens) - 1, self.n_snapshots)
        return rows


@pytest.mark.parametrize("kind", [LeavesOne, MixesUp, SplitsPasses])
def test_a_memory_that_goes_back_wrongly_is_found_out(
    models: Path, kind: type[LlamaContext]
) -> None:
    settings = ContextSettings(64, n_threads=1, n_batch=16, n_rows=16, n_snapshots=N_SNAPSHOTS)
    with LlamaModel(models / "qwen35-target.gguf", LoadSettings()) as model:
        with LlamaContext(model, settings) as context:
            assert rolls_back(context)
        with kind(model, settings) as context:
            assert not rolls_back(context)


def test_a_target_that_goes_back_wrongly_is_decoded_plainly_and_says_so(
    environment: Environment, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spec_cli.llama.probe.rolls_back", lambda context: False)
    target = models / "qwen35-target.gguf"
    plain = run(environment, target, None, GREEDY, drafter=DrafterKind.NONE)
    monkeypatch.undo()  # what was found is kept
    drafted = run(environment, target, models / "qwen35-draft.gguf", GREEDY, draft_tokens=4)
    assert [event.reason for event in drafted if isinstance(event, DraftingOff)] == [
        "the target's memory is recurrent, and its rollback was not proved exact here"
    ]
    assert finished(drafted).tokens == finished(plain).tokens


def test_a_draft_that_goes_back_wrongly_does_not_draft_and_says_so(
    environment: Environment, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spec_cli.loader.returns", lambda context: False)
    target, draft = models / "llama-target.gguf", models / "mamba-draft.gguf"
    drafted = run(environment, target, draft, GREEDY, drafter=DrafterKind.MODEL, draft_tokens=4)
    assert [event.reason for event in drafted if isinstance(event, DraftingOff)] == [
        "the draft's memory is recurrent, and does not go back to what it was"
    ]
