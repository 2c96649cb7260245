"""A measurement of a tiny real pair: what it runs, in which order, and what a file spares it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from spec_cli.bench.archive import Archive, open_export
from spec_cli.bench.matrix import PLAIN, Arm, Matrix, make_arms
from spec_cli.bench.report import Report
from spec_cli.bench.run import bench_pair
from spec_cli.bench.runner import Step
from spec_cli.events import Event, Finished
from spec_cli.exactness import Planner
from spec_cli.llama.context import LlamaContext
from spec_cli.loader import Environment
from spec_cli.prompts import NamedPrompt
from spec_cli.session import Session
from spec_cli.settings import DrafterKind, GenerationSettings, SessionSettings
from spec_cli.spec.costs import PassTimes
from spec_cli.spec.exactness import DEFAULT_KERNELS, ExactnessPlan
from spec_cli.spec.interfaces import AcceptanceRule, Logits
from spec_cli.spec.settings import Accept
from spec_cli.state import StateStore

PROMPTS = (NamedPrompt("greeting", "a", "hello there"), NamedPrompt("code", "b", "def add(a"))
WIDTHS = tuple(range(1, 17))
PLAN = ExactnessPlan(DEFAULT_KERNELS, WIDTHS, 0.0, 0.0, PassTimes(WIDTHS, (1.0,) * 16))
MODEL, NGRAM = DrafterKind.MODEL, DrafterKind.NGRAM
ARMS = make_arms([MODEL, NGRAM], [Accept.COUPLED], [2, None])
MATRIX = Matrix(PROMPTS, (0.0, 0.8), ARMS, max_tokens=24, n_rounds=2, seed=1)
N_GROUPS = 2 * 2 * 2
_PASS_S = 0.001


@dataclass
class Bench:
    """A session on the tiny pair with a clock that counts passes: time is what is computed."""

    session: Session
    n_passes: int = 0
    slow_from: int | None = None  # the pass from which on all take twice as long
    now_s: float = 0.0
    cancelled: Callable[[], bool] = lambda: False
    arms: list[tuple[DrafterKind | None, int | None]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def run(self, matrix: Matrix = MATRIX, archive: Archive | None = None) -> Report:
        prompts = {
            p.id: self.session.model.tokenize(p.text, special=False, bos=False)
            for p in matrix.prompts
        }
        self.session.prepare(max(map(len, prompts.values())), matrix.max_tokens)
        self.arms.clear()
        return bench_pair(
            self.session,
            matrix,
            prompts,
            archive or Archive(None, {}),
            clock=self.clock,
            load=lambda: 1.5,
            progress=self.steps.append,
        )

    def clock(self) -> float:
        return self.now_s

    def count(self) -> None:
        self.n_passes += 1
        is_slow = self.slow_from is not None and self.n_passes >= self.slow_from
        self.now_s += 2 * _PASS_S if is_slow else _PASS_S


@pytest.fixture
def bench(
    tiny_target: Path, tiny_draft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bench]:
    monkeypatch.setattr(Planner, "stored", lambda self: PLAN)
    made: list[Bench] = []
    environment = Environment(
        state=StateStore(tmp_path),
        clock=lambda: made[0].clock() if made else 0.0,
        cancelled=lambda: made[0].cancelled() if made else False,
        notify=lambda notice: None,
        progress=lambda what, fraction: None,
    )
    settings = SessionSettings(drafter=MODEL, draft_tokens=2, n_threads=1)
    with Session(tiny_target, tiny_draft, settings, environment) as session:
        made.append(Bench(session))
        evaluate, arm = LlamaContext.eval, Session.arm

        def counted(self: LlamaContext, tokens: Sequence[int], n_rows: int | None = None) -> Logits:
            made[0].count()
            return evaluate(self, tokens, n_rows)

        def watched(
            self: Session,
            generation: GenerationSettings,
            draft_tokens: int | None,
            kind: DrafterKind | None = None,
            rule: AcceptanceRule | None = None,
        ) -> object:
            made[0].arms.append((kind, draft_tokens))
            return arm(self, generation, draft_tokens, kind, rule)

        monkeypatch.setattr(LlamaContext, "eval", counted)
        monkeypatch.setattr(Session, "arm", watched)
        yield made[0]


def test_all_arms_of_a_group_run_between_two_plain_runs(bench: Bench) -> None:
    report = bench.run()
    n = len(ARMS) + 2
    warm_up, measured = bench.arms[: n - 1], bench.arms[n - 1 :]
    assert len(set(warm_up)) == n - 1 and len(measured) == N_GROUPS * n
    orders = [measured[i : i + n] for i in range(0, N_GROUPS * n, n)]
    plain = (PLAIN.drafter, PLAIN.draft_tokens)
    wanted = {(arm.drafter, arm.draft_tokens) for arm in ARMS}
    for order in orders:
        assert order[0] == order[-1] == plain
        assert set(order[1:-1]) == wanted
    assert len({tuple(order) for order in orders}) > 3
    assert len(report.runs) == N_GROUPS * n and not report.interrupted


def test_every_text_equals_plain_decoding(bench: Bench) -> None:
    report = bench.run()
    assert report.different == [] and report.failure is None
    assert len(report.comparable) == N_GROUPS * (len(ARMS) + 1)
    for prompt in PROMPTS:
        for temp in MATRIX.temps:
            group = [r for r in report.runs if (r.prompt, r.temp) == (prompt.id, temp)]
            assert len({run.measure.tokens_sha256 for run in group}) == 1


def test_the_ratio_is_that_of_the_passes(bench: Bench) -> None:
    """Every pass takes the same time here, those of the draft model too."""
    for run in bench.run().runs:
        measure = run.measure
        assert run.load == 1.5 and run.noise == pytest.approx(0)
        assert run.plain_token_s == pytest.approx(_PASS_S)
        assert measure.verify_s == pytest.approx(_PASS_S * measure.n_rounds)
        assert measure.n_tokens == measure.n_rounds + measure.n_accepted == 24
        assert run.speedup == pytest.approx(24 * _PASS_S / measure.decode_s)
        if run.arm.drafter is NGRAM:
            assert run.speedup == pytest.approx(24 / measure.n_rounds)


def test_limits_are_known_for_copies_and_hold(bench: Bench) -> None:
    runs = bench.run().runs
    copies = [run for run in runs if run.arm.drafter is NGRAM]
    assert copies and all(run.limits for run in copies)
    for run in copies:
        assert run.limits is not None and run.limits.free_draft == run.limits.oracle_stop
        # Passes of any width take the same time here, by the cost table and by the clock.
        assert run.speedup <= run.limits.oracle_stop + 1e-9
    assert all(run.limits is None for run in runs if run.arm == PLAIN)


def test_a_noisy_group_is_measured_once_more_at_the_end(bench: Bench) -> None:
    quiet = bench.run(replace(MATRIX, n_rounds=1))
    n_all = bench.n_passes
    assert quiet.n_repeated == quiet.n_noisy == 0
    bench.slow_from = n_all + n_all // 2
    report = bench.run(replace(MATRIX, n_rounds=1))
    assert (report.n_groups, report.n_repeated, report.n_noisy) == (4, 1, 0)
    again = [run for run in report.runs if run.attempt == 1]
    assert len(again) == len(ARMS) + 2 and all(run.noise < 0.01 for run in again)
    noisy = [run for run in report.runs if run.noise > 0.05]
    assert {(run.prompt, run.temp) for run in noisy} == {(run.prompt, run.temp) for run in again}
    assert not {id(run) for run in noisy} & {id(run) for run in report.kept}


def test_greedy_arms_with_other_rules_run_once(bench: Bench) -> None:
    arms = make_arms([MODEL], list(Accept), [2])
    report = bench.run(replace(MATRIX, arms=arms, n_rounds=1))
    assert len(report.runs) == 2 * (3 + 5)
    greedy = [report.score(arm, 0.0) for arm in arms]
    assert greedy[0] is not None and greedy == [greedy[0]] * 3
    assert all(run.limits is None for run in report.runs if run.arm.accept is not Accept.COUPLED)


def test_a_second_run_with_the_file_makes_no_pass(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    first = bench.run(archive=Archive(open_export(path), {"seed": 1}))
    n_first = bench.n_passes
    assert bench.run(archive=Archive(open_export(path), {"seed": 1})) == first
    assert bench.n_passes == n_first
    more = replace(MATRIX, arms=(*ARMS, Arm(NGRAM, 5)))
    report = bench.run(more, Archive(open_export(path), {"seed": 1}))
    assert n_first < bench.n_passes < 2 * n_first
    assert {run.arm for run in report.runs} == {PLAIN, *more.arms}


def test_an_interrupted_run_keeps_whole_groups_and_goes_on_from_there(
    bench: Bench, tmp_path: Path
) -> None:
    path = tmp_path / "runs.jsonl"
    bench.cancelled = lambda: bench.n_passes > 400
    part = bench.run(archive=Archive(open_export(path), {}))
    n = len(ARMS) + 2
    assert part.interrupted and 0 < len(part.runs) < N_GROUPS * n
    assert len(part.runs) % n == 0 and path.read_text().count("\n") == len(part.runs)
    bench.cancelled = lambda: False
    whole = bench.run(archive=Archive(open_export(path), {}))
    assert len(whole.runs) == N_GROUPS * n and not whole.interrupted
    assert set(part.runs) <= set(whole.runs)


def test_progress_counts_runs_and_tells_the_time_left(bench: Bench) -> None:
    bench.run(replace(MATRIX, n_rounds=1))
    steps = [step for step in bench.steps if step.what != "warming up"]
    n = 4 * (len(ARMS) + 2)
    assert [step.n_done for step in steps] == list(range(n))
    assert {step.n_runs for step in steps} == {n}
    assert steps[0].left_s is None
    left_s = [step.left_s for step in steps[1:] if step.left_s is not None]
    assert len(left_s) == n - 1 and 0 < left_s[-1] < left_s[n // 2]
    assert "greeting, temp 0, model k=2" in {step.what for step in steps}


def test_every_run_evaluates_its_whole_prompt(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[int] = []
    generate = Session.generate

    def watched(self: Session, *args: Any) -> Iterator[Event]:
        for event in generate(self, *args):
            if isinstance(event, Finished):
                kept.append(event.stats.n_cached)
            yield event

    monkeypatch.setattr(Session, "generate", watched)
    bench.run(replace(MATRIX, n_rounds=1))
    assert len(kept) > 8 and set(kept) == {0}
