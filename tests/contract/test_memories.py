"""Memories that are no plain cache: sliding windows roll back, recurrent ones do not draft."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from spec_cli.events import DraftingOff, Event, Finished
from spec_cli.loader import Environment
from spec_cli.session import Session
from spec_cli.settings import DrafterKind, GenerationSettings, SessionSettings
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


def test_a_recurrent_target_is_decoded_plainly_and_says_so(
    environment: Environment, tmp_path: Path
) -> None:
    target = write_tiny_model(tmp_path / "target.gguf", arch="mamba")
    draft = write_tiny_model(tmp_path / "draft.gguf", n_layer=1)
    plain = run(environment, target, None, GREEDY, drafter=DrafterKind.NONE)
    drafted = run(environment, target, draft, GREEDY, draft_tokens=4)
    assert [event.reason for event in drafted if isinstance(event, DraftingOff)] == [
        "the target's memory is recurrent: it cannot forget rejected tokens"
    ]
    assert finished(drafted).tokens == finished(plain).tokens
