"""A prompt cache changes nothing but the time: on real contexts, token for token."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from spec_cli.errors import UsageError
from spec_cli.events import Finished, RoundDone
from spec_cli.llama.context import LlamaContext
from spec_cli.llama.model import LlamaModel, LoadSettings
from spec_cli.llama.native import ContextSettings
from spec_cli.loader import Environment
from spec_cli.prompt_reuse import PromptReuse
from spec_cli.session import DRAFT, TARGET, Session
from spec_cli.settings import DrafterKind, GenerationSettings, SessionSettings
from spec_cli.spec.settings import Exact, SamplingSettings
from spec_cli.state import StateStore
from tests.tiny_gguf import write_tiny_model

N_BATCH = 16
GREEDY = GenerationSettings(seed=1, sampling=SamplingSettings(temp=0), max_tokens=24)
SAMPLED = GenerationSettings(seed=5, sampling=SamplingSettings(temp=1.0), max_tokens=24)
SETTINGS = SessionSettings(
    draft_tokens=3, n_threads=1, n_batch=N_BATCH, exact=Exact.OFF, draft_copy=False
)
DOCUMENT = "the quick brown fox jumps over the lazy dog, and over the cat. " * 2
FIRST, SECOND = DOCUMENT + "Why?", DOCUMENT + "And what did the cat say?"


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@dataclass(frozen=True)
class Run:
    tokens: tuple[int, ...]
    n_cached: int
    notices: list[str]
    known: dict[str, int]


class Desk:
    """Runs with one state directory and one cache file, as processes of one user."""

    def __init__(self, directory: Path, target: Path, draft: Path) -> None:
        self.directory, self.target, self.draft = directory, target, draft
        self.path = directory / "cache"

    def __call__(
        self,
        prompt: str,
        generation: GenerationSettings = GREEDY,
        *,
        settings: SessionSettings = SETTINGS,
        cache: bool = True,
        stop_after: int | None = None,
    ) -> Run:
        cancel = False
        environment = Environment(
            state=StateStore(self.directory / "state"),
            clock=time.perf_counter,
            cancelled=lambda: cancel,
            notify=lambda _notice: None,
            progress=lambda _what, _fraction: None,
        )
        with Session(self.target, self.draft, settings, environment) as session:
            tokens = session.model.tokenize(prompt, special=False, bos=False)
            session.prepare(len(tokens), generation.max_tokens)
            with self.reuse(enabled=cache) as reuse:
                notices = reuse.restore(session, environment.state, tokens) if reuse else []
                known = {name: c.n_past for name, c in session.contexts().items()}
                n_rounds = 0
                for event in session.generate(tokens, generation):
                    n_rounds += isinstance(event, RoundDone)
                    cancel = stop_after is not None and n_rounds >= stop_after
                cancel = False
                assert isinstance(event, Finished)
                if reuse:
                    reuse.save(session, tokens)
        return Run(
            event.tokens,
            event.stats.n_cached,
            [notice.message for notice in notices],
            known,
        )

    @contextmanager
    def reuse(self, *, enabled: bool) -> Iterator[PromptReuse | None]:
        if not enabled:
            yield None
            return
        with PromptReuse(self.path) as reuse:
            yield reuse


@pytest.fixture
def desk(tmp_path: Path, tiny_target: Path, tiny_draft: Path) -> Desk:
    return Desk(tmp_path, tiny_target, tiny_draft)


@pytest.mark.parametrize("exact", [Exact.OFF, Exact.ON])
@pytest.mark.parametrize("generation", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("drafter", [DrafterKind.NONE, DrafterKind.CHAIN])
def test_the_text_is_that_of_a_run_without_the_cache(
    desk: Desk, exact: Exact, generation: GenerationSettings, drafter: DrafterKind
) -> None:
    settings = SessionSettings(
        drafter=drafter,
        draft_tokens=3,
        n_threads=1,
        n_batch=N_BATCH,
        exact=exact,
        draft_copy=False,
    )

    def run(prompt: str, *, cache: bool = True) -> Run:
        return desk(prompt, generation, settings=settings, cache=cache)

    assert run(FIRST).n_cached == 0
    again = run(FIRST)
    assert again.tokens == run(FIRST, cache=False).tokens
    assert 64 < again.n_cached < len(FIRST)
    other = run(SECOND)
    assert other.tokens == run(SECOND, cache=False).tokens
    assert other.n_cached > 64 and other.n_cached % N_BATCH == 0
    assert again.notices == other.notices == []


def test_the_very_same_prompt_is_not_read_again(desk: Desk) -> None:
    first = desk(FIRST)
    written = desk.path.stat()
    again = desk(FIRST)
    assert again.tokens == first.tokens
    assert again.known[TARGET] == again.n_cached
    assert again.known[DRAFT] == again.n_cached, "the draft model had read the prompt, too"
    assert desk.path.stat().st_ino == written.st_ino, "nothing new is to be written"


def test_the_file_is_that_of_the_last_prompt_and_its_owners_alone(desk: Desk) -> None:
    desk(FIRST)
    before = desk.path.stat()
    desk(SECOND)
    assert desk.path.stat().st_ino != before.st_ino
    assert desk.path.stat().st_mode & 0o777 == 0o600
    assert names_in(desk.directory) == ["cache", "state"]


def test_a_prompt_that_begins_otherwise_uses_nothing(desk: Desk) -> None:
    desk(FIRST)
    other = desk("x" + FIRST)
    assert (other.n_cached, other.notices) == (0, [])
    assert other.tokens == desk("x" + FIRST, cache=False).tokens


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"n_batch": 32}, "it was made with another `--batch-size`"),
        ({"n_threads": 2}, "it was made with another `--threads`"),
    ],
)
def test_a_file_of_another_set_up_is_told_and_replaced(
    desk: Desk, change: dict[str, int], reason: str
) -> None:
    desk(FIRST)
    other = SessionSettings(
        **{"draft_tokens": 3, "n_threads": 1, "n_batch": N_BATCH, **change},
        exact=Exact.OFF,
        draft_copy=False,
    )
    run = desk(FIRST, settings=other)
    assert run.n_cached == 0
    assert run.notices == [f"the prompt cache {desk.path} is not used: {reason}"]
    assert desk(FIRST, settings=other).n_cached > 0


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def scramble(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)


def replace(path: Path) -> None:
    path.write_bytes(b"spec-cli prompt cache 0\n" * 100)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [(cut, "not whole"), (scramble, "damaged"), (replace, "no prompt cache")],
)
def test_a_bad_file_is_told_not_used_and_replaced(
    desk: Desk, spoil: Callable[[Path], None], reason: str
) -> None:
    first = desk(FIRST)
    spoil(desk.path)
    again = desk(FIRST)
    assert (again.tokens, again.n_cached) == (first.tokens, 0)
    assert reason in again.notices[0]
    assert desk(FIRST).n_cached > 0


def test_another_model_of_the_same_size_uses_nothing(desk: Desk, tmp_path: Path) -> None:
    desk(FIRST)
    other = tmp_path / "state" / "other.gguf"
    data = bytearray(desk.target.read_bytes())
    data[-40] ^= 1
    other.write_bytes(data)
    desk.target = other
    run = desk(FIRST)
    assert run.n_cached == 0 and "another target" in run.notices[0]


def test_a_run_that_is_stopped_keeps_the_prompt_it_has_read(desk: Desk) -> None:
    stopped, whole = desk(FIRST, stop_after=2), desk(FIRST, cache=False)
    assert 0 < len(stopped.tokens) < len(whole.tokens)
    assert stopped.tokens == whole.tokens[: len(stopped.tokens)]
    assert desk(FIRST).n_cached > 64


def test_a_smaller_context_is_no_trouble(desk: Desk) -> None:
    desk(FIRST * 2)
    small = SessionSettings(
        n_ctx=100, draft_tokens=3, n_threads=1, n_batch=N_BATCH, exact=Exact.OFF, draft_copy=False
    )
    short = FIRST[:70]
    assert desk(short, settings=small).tokens == desk(short, settings=small, cache=False).tokens


def test_a_recurrent_model_keeps_nothing_and_says_so(desk: Desk, tiny_mamba: Path) -> None:
    desk.target = tiny_mamba
    run = desk(FIRST)
    assert "recurrent" in run.notices[0]
    assert not desk.path.exists()


def test_a_hybrid_model_keeps_nothing_of_a_short_answer_either(desk: Desk, tmp_path: Path) -> None:
    desk.target = write_tiny_model(tmp_path / "hybrid.gguf", arch="lfm2")
    short = GenerationSettings(seed=1, sampling=SamplingSettings(temp=0), max_tokens=2)
    assert "recurrent" in desk(FIRST, short).notices[0]
    assert not desk.path.exists()


@pytest.mark.parametrize("arch", ["mamba", "lfm2"])
def test_a_recurrent_draft_may_have_read_more_than_can_be_used_again(
    desk: Desk, tmp_path: Path, arch: str
) -> None:
    desk.draft = write_tiny_model(tmp_path / "draft.gguf", arch=arch)  # type: ignore[arg-type]
    expected = [desk(prompt, cache=False).tokens for prompt in (FIRST, SECOND)]
    for prompt, tokens in ((FIRST, expected[0]), (FIRST, expected[0]), (SECOND, expected[1])):
        run = desk(prompt)
        assert run.tokens == tokens and run.notices == []
    assert run.n_cached > 0


def test_two_runs_at_once_leave_the_file_of_one_of_them(desk: Desk) -> None:
    desk(SECOND)
    with PromptReuse(desk.path):
        desk(FIRST)
    assert desk(FIRST).n_cached == desk(FIRST).known[TARGET]


def test_a_place_where_no_file_can_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        PromptReuse(tmp_path)


def test_a_state_that_does_not_fit_leaves_an_empty_memory_that_works(tiny_target: Path) -> None:
    settings = ContextSettings(128, n_threads=1, n_batch=N_BATCH, n_rows=8)
    with (
        LlamaModel(tiny_target, LoadSettings()) as model,
        LlamaContext(model, settings) as context,
    ):
        tokens = [5, 6, 7, 8]
        context.eval(tokens, n_rows=0)
        state = bytes(context.state())
        expected = context.eval([9]).copy()
        for wrong, data in ((tokens, state[:-1]), (tokens[:-1], state), (tokens, state[:40])):
            assert not context.restore(wrong, data)
            assert context.n_past == 0
            context.eval(tokens, n_rows=0)
            assert np.array_equal(context.eval([9]), expected)
        assert context.restore(tokens, state)
        assert list(context.evaluated) == tokens
        assert np.array_equal(context.eval([9]), expected)
