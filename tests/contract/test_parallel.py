"""Several texts in one real context: the bits, and so the texts, of one text alone."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from spec_cli.batch.answer import Answer, Outcome, answer
from spec_cli.batch.request import Failure, Request, read_request
from spec_cli.batch.together import Together, parallel_plan
from spec_cli.errors import Cancelled
from spec_cli.events import Notice
from spec_cli.fitter import Fitter
from spec_cli.llama.context import LlamaContext
from spec_cli.llama.model import LlamaModel, LoadSettings
from spec_cli.llama.native import ContextSettings
from spec_cli.llama.sequences import LlamaSequences
from spec_cli.session import Session
from spec_cli.settings import GenerationSettings, SessionSettings
from spec_cli.spec.interfaces import Logits
from spec_cli.spec.settings import MAX_ROWS, Exact, SamplingSettings
from spec_cli.spec.shapes import ParallelPlan, shapes_for
from spec_cli.spec.stats import RoundCount
from spec_cli.state import StateStore
from spec_cli.text import NO_OPENING, Opening
from tests.contract.test_session import Desk

SETTINGS = ContextSettings(
    n_ctx=64, n_threads=1, n_batch=32, n_rows=16, k_type="bf16", n_sequences=3
)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A desk whose clock finds that every pass takes a second: no plan hangs on real times."""
    desk = Desk(tmp_path)
    desk.clock = map(float, count()).__next__
    return desk


@pytest.fixture(scope="module")
def model(tiny_target: Path) -> Iterator[LlamaModel]:
    with LlamaModel(tiny_target, LoadSettings()) as model:
        yield model


@pytest.fixture
def sequences(model: LlamaModel) -> Iterator[LlamaSequences]:
    with LlamaSequences(model, SETTINGS) as sequences:
        yield sequences


def test_rows_come_back_by_sequence(sequences: LlamaSequences, model: LlamaModel) -> None:
    assert sequences.eval([[1, 2], [3, 4], [5, 6]]).shape == (3, 2, model.n_vocab)
    assert sequences.eval([[1], [3]]).shape == (2, 1, model.n_vocab)
    assert [sequences.n_past(i) for i in range(3)] == [3, 3, 2]


def test_no_sequence_sees_another(sequences: LlamaSequences, model: LlamaModel) -> None:
    sequences.read(1, range(1, 30))
    sequences.read(2, [9, 8])
    rows = sequences.eval([[5, 6], [5, 6], [5, 6]]).copy()
    with LlamaContext(model, replace(SETTINGS, n_sequences=1)) as context:
        for own, before in zip(rows, ([], range(1, 30), [9, 8]), strict=True):
            context.rollback(0)
            if before:
                context.eval(list(before), n_rows=0)
            assert context.eval([5, 6]) == pytest.approx(own, abs=0.02)
    assert not np.allclose(rows[0], rows[1]) and not np.allclose(rows[1], rows[2])


def test_a_rollback_leaves_the_other_sequences_alone(sequences: LlamaSequences) -> None:
    for i in range(3):
        sequences.read(i, [1, 2, 3 + i])
    expected = sequences.eval([[7], [7], [7]]).copy()
    sequences.rollback(0, 3)
    sequences.rollback(1, 1)
    sequences.rollback(2, 3)
    sequences.read(1, [2, 4])
    assert np.array_equal(sequences.eval([[7], [7], [7]]), expected)


def test_a_copy_goes_on_like_its_source(sequences: LlamaSequences) -> None:
    sequences.read(0, [1, 2, 3, 4])
    sequences.read(2, [9] * 20)
    sequences.copy(0, 2)
    assert sequences.n_past(2) == 4
    sequences.rollback(2, 3)
    sequences.read(2, [4])
    sequences.read(1, [1, 2, 3, 4])
    rows = sequences.eval([[5], [5], [5]])
    assert np.array_equal(rows[0], rows[1]) and np.array_equal(rows[0], rows[2])


def test_an_aborted_pass_leaves_no_trace(model: LlamaModel) -> None:
    stop = False
    with LlamaSequences(model, SETTINGS, cancelled=lambda: stop) as sequences:
        sequences.read(0, [1, 2, 3])
        expected = sequences.eval([[7], [7]]).copy()
        sequences.rollback(0, 3)
        sequences.rollback(1, 0)
        stop = True
        with pytest.raises(Cancelled):
            sequences.eval([[4], [4]])
        stop = False
        assert [sequences.n_past(i) for i in range(2)] == [3, 0]
        assert np.array_equal(sequences.eval([[7], [7]]), expected)


LINES = [
    b'"hello there, hello there, hello"',
    b'{"prompt": "the quick brown fox jumps over the lazy dog", "temp": 0}',
    b'{"prompt": "a", "max_tokens": 3}',
    b'{"prompt": ""}',
    b'{"prompt": "hello there, hello there, you", "temp": 1.2, "seed": 4}',
    b'{"prompt": "a b a b a b a b a b a b a b", "temp": 0}',
    b'{"prompt": "one more", "max_tokens": 0}',
    b'{"prompt": "%b", "temp": 0, "max_tokens": 9}' % (b"long " * 60),
    b'{"prompt": "and then", "repeat_penalty": 1.3}',
]
RUN = GenerationSettings(seed=3, sampling=SamplingSettings(), max_tokens=40)


def requests() -> list[Request | Failure]:
    return [read_request(line, i, "", RUN) for i, line in enumerate(LINES)]


def encode_with(session: Session, request: Request) -> tuple[list[int], Opening]:
    tokens = session.model.tokenize(request.prompt or "", special=False, bos=False)
    return tokens, NO_OPENING


def one_by_one(session: Session) -> list[Outcome]:
    return [
        request
        if isinstance(request, Failure)
        else answer(session, request, lambda r: encode_with(session, r), lambda event: None)
        for request in requests()
    ]


def together(
    session: Session, n: int, plan: ParallelPlan, counts: list[RoundCount] | None = None
) -> list[Outcome]:
    batch = Together(
        session,
        plan,
        n,
        lambda request: encode_with(session, request),
        is_ready=lambda: True,
        cancelled=lambda: False,
        watch=[].append if counts is None else counts.append,
    )
    return list(batch.answers(iter(requests())))


def texts(outcomes: Sequence[Outcome]) -> list[object]:
    return [
        (one.request.index, one.text, one.finished.tokens, one.finished.reason)
        if isinstance(one, Answer)
        else (one.index, one.error.message)
        for one in outcomes
    ]


def settings(**changes: object) -> SessionSettings:
    return SessionSettings(**{"n_threads": 1} | changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("k", [None, 2])
def test_lines_answered_together_are_those_answered_alone(
    desk: Desk, tiny_target: Path, n: int, k: int | None
) -> None:
    with Session(tiny_target, None, settings(draft_tokens=k), desk.environment) as session:
        assert session.plan.is_exact
        alone = one_by_one(session)
        plan = parallel_plan(session, n, desk.notices.append)
        assert plan is not None
        counts: list[RoundCount] = []
        assert texts(together(session, n, plan, counts)) == texts(alone)
    assert sum(count.n_emitted for count in counts) == sum(
        len(one.finished.tokens) for one in alone if isinstance(one, Answer)
    )
    assert sum(count.n_accepted for count in counts) > 0
    assert desk.notices == []


def test_a_plan_is_probed_once(
    desk: Desk, tiny_target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Session(tiny_target, None, settings(), desk.environment) as session:
        found = session.parallel_plan(4)
        assert found.serves(4)
        assert desk.doings[-1] == "checking which parallel passes give equal bits (once)"
        desk.doings.clear()
        monkeypatch.setattr(LlamaSequences, "__init__", lambda *_: pytest.fail("probed again"))
        assert session.parallel_plan(4) == found
        assert desk.doings == []


def disturb(monkeypatch: pytest.MonkeyPatch, is_wrong: Callable[[int, int], bool]) -> None:
    """Let passes of some shapes round in another way in their last text."""
    real = LlamaSequences.eval

    def eval(self: LlamaSequences, tokens: Sequence[Sequence[int]]) -> Logits:
        rows = real(self, tokens)
        if is_wrong(len(tokens), len(tokens[0])):
            rows[-1, -1, 5] = np.nextafter(rows[-1, -1, 5], np.float32(np.inf))
        return rows

    monkeypatch.setattr(LlamaSequences, "eval", eval)


def test_a_shape_with_a_single_other_bit_is_not_used(
    desk: Desk, tiny_target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Session(tiny_target, None, settings(), desk.environment) as session:
        usual = session.parallel_plan(4)
    desk.environment = replace(desk.environment, state=StateStore(tmp_path / "other state"))
    disturb(monkeypatch, lambda n, width: (n, width) == (4, 2))
    with Session(tiny_target, None, settings(), desk.environment) as session:
        plan = session.parallel_plan(4)
        assert set(usual.shapes) - set(plan.shapes) == {(4, 2)}
        assert texts(together(session, 4, plan)) == texts(one_by_one(session))


def test_where_no_shape_agrees_lines_are_answered_one_by_one_and_that_is_told(
    desk: Desk, tiny_target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disturb(monkeypatch, lambda n, width: n == 4)
    with Session(tiny_target, None, settings(), desk.environment) as session:
        assert parallel_plan(session, 4, desk.notices.append) is None
    [notice] = desk.notices
    assert notice.level == "warning"
    assert "one by one: passes over 4 texts do not give the bits" in notice.message
    assert "--exact off" in (notice.hint or "")


def test_where_bits_need_not_be_equal_nothing_is_probed(
    desk: Desk, tiny_target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Session(tiny_target, None, settings(exact=Exact.OFF), desk.environment) as session:
        plan = parallel_plan(session, 3, desk.notices.append)
        assert plan == ParallelPlan(shapes_for(3), shares_prefixes=True)
        assert len(together(session, 3, plan)) == len(LINES)


def test_the_memory_of_all_caches_is_asked_for(
    desk: Desk,
    tiny_target: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(Fitter, "fit", lambda self, target, draft, n_ctx: asked.append(n_ctx))
    with Session(tiny_target, None, settings(), desk.environment) as session:
        caplog.set_level(logging.INFO, "spec_cli.llama")
        session.parallel(session.parallel_plan(3), 3, 300)
    made = re.findall(r"llama_context: n_ctx += (\d+)", caplog.text)
    assert asked[-1] == int(made[-1]) > 3 * 300


def test_a_recurrent_model_answers_one_by_one(desk: Desk, tiny_mamba: Path) -> None:
    with Session(tiny_mamba, None, settings(exact=Exact.OFF), desk.environment) as session:
        notices: list[Notice] = []
        assert parallel_plan(session, 2, notices.append) is None
    assert "recurrent" in notices[0].message


def test_a_batch_too_small_for_a_shared_pass_is_told(desk: Desk, tiny_target: Path) -> None:
    with Session(tiny_target, None, settings(n_batch=MAX_ROWS - 1), desk.environment) as session:
        assert parallel_plan(session, 2, desk.notices.append) is None
    assert "a batch of 15 tokens" in desk.notices[-1].message
