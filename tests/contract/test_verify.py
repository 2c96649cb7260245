"""A verification of a tiny real pair: what it runs, what it finds, and what a file spares it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spec_cli.drafters.chain import ChainDrafter
from spec_cli.events import Event, Finished
from spec_cli.exactness import Planner
from spec_cli.llama.context import LlamaContext
from spec_cli.loader import Environment
from spec_cli.prompts import NamedPrompt
from spec_cli.session import Session
from spec_cli.settings import SessionSettings
from spec_cli.spec.costs import PassTimes
from spec_cli.spec.exactness import DEFAULT_KERNELS, ExactnessPlan
from spec_cli.spec.interfaces import Budget, Draft, Logits, Source
from spec_cli.state import StateStore
from spec_cli.verify.archive import Archive, open_save
from spec_cli.verify.matrix import ArmDrafter, Matrix
from spec_cli.verify.report import Report
from spec_cli.verify.rows import rows_after
from spec_cli.verify.run import verify_pair

PROMPTS = (NamedPrompt("greeting", "own", "hello there"), NamedPrompt("code", "own", "def add(a"))
MATRIX = Matrix(PROMPTS, (0.0, 0.8), tuple(ArmDrafter), (2, 5, None), max_tokens=40, seed=1)
WIDTHS = tuple(range(1, 17))
TIMES = PassTimes(WIDTHS, (1.0,) * 16)  # drafting pays, so that `auto` drafts


def plan(widths: tuple[int, ...] | None, max_difference: float = 1e-3) -> ExactnessPlan:
    return ExactnessPlan(DEFAULT_KERNELS, widths, 0.0, max_difference, TIMES)


@dataclass
class Bench:
    """A session on the tiny pair, and the passes that its models make."""

    session: Session
    n_passes: int = 0
    cancelled: Callable[[], bool] = lambda: False

    def verify(
        self, matrix: Matrix = MATRIX, archive: Archive | None = None, n_rounds: int = 10
    ) -> Report:
        prompts = {
            p.id: self.session.model.tokenize(p.text, special=False, bos=False)
            for p in matrix.prompts
        }
        self.session.prepare(max(map(len, prompts.values())), matrix.max_tokens)
        return verify_pair(
            self.session,
            matrix,
            prompts,
            archive or Archive(None, {}),
            n_rounds=n_rounds,
            cancelled=self.cancelled,
            progress=lambda what, fraction: None,
        )


@pytest.fixture
def open_bench(
    tiny_target: Path, tiny_draft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Bench]]:
    """Opens benches on the tiny pair with a plan of the test's choice."""
    benches: list[Bench] = []

    def open_(chosen: ExactnessPlan, *, draft: bool = True) -> Bench:
        monkeypatch.setattr(Planner, "stored", lambda self: chosen)
        environment = Environment(
            state=StateStore(tmp_path),
            clock=lambda: 0.0,  # what passes really take is not what the plan says
            cancelled=lambda: benches[-1].cancelled() if benches else False,
            notify=lambda notice: None,
            progress=lambda what, fraction: None,
        )
        settings = SessionSettings(draft_tokens=5, n_threads=1)
        drafter = tiny_draft if draft else None
        bench = Bench(Session(tiny_target, drafter, settings, environment))
        evaluate = LlamaContext.eval

        def counted(self: LlamaContext, tokens: Sequence[int], n_rows: int | None = None) -> Logits:
            bench.n_passes += 1
            return evaluate(self, tokens, n_rows)

        monkeypatch.setattr(LlamaContext, "eval", counted)
        benches.append(bench)
        return bench

    yield open_
    for bench in benches:
        bench.session.close()


def differ_by_width(monkeypatch: pytest.MonkeyPatch, size: float) -> None:
    """Fake kernels: in passes of several rows every other logit is `size` larger."""
    evaluate = LlamaContext.eval

    def fake(self: LlamaContext, tokens: Sequence[int], n_rows: int | None = None) -> Logits:
        rows = evaluate(self, tokens, n_rows)
        if len(tokens) > 1:
            rows = rows + np.where(np.arange(rows.shape[1]) % 2, size, 0).astype(np.float32)
        return rows

    monkeypatch.setattr(LlamaContext, "eval", fake)


Open = Callable[..., Bench]


@pytest.mark.parametrize("widths", [WIDTHS, (4, 8), None])
def test_every_text_of_a_sound_pair_is_equal(
    open_bench: Open, widths: tuple[int, ...] | None
) -> None:
    report = open_bench(plan(widths)).verify()
    assert report.failure is None
    assert report.equal == list(report.comparisons)
    assert {c.cell for c in report.comparisons} == set(MATRIX.cells())
    assert all(c.n_tokens == 40 for c in report.comparisons)


def test_drafts_were_accepted_and_rejected_in_passes_of_every_width(open_bench: Open) -> None:
    report = open_bench(plan(WIDTHS)).verify()
    for drafter in (ArmDrafter.MODEL, ArmDrafter.CHAIN, ArmDrafter.RANDOM):
        arms = [c for c in report.comparisons if c.cell.drafter is drafter]
        assert all(0 < c.n_accepted < c.n_drafted for c in arms)
        assert max(c.max_width for c in arms if c.cell.draft_tokens == 5) == 6
        # Each round gives what was accepted, and one token more.
        assert all(c.n_passes + c.n_accepted == 40 for c in arms)
    assert max(c.max_width for c in report.comparisons) == 16


def test_each_arm_drafts_from_its_own_sources(
    open_bench: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those it has are those it is seen to use, in some generation."""
    used: dict[tuple[bool, bool], set[Source]] = {}
    propose = ChainDrafter.propose

    def watched(self: ChainDrafter, context: Sequence[int], budget: Budget) -> Draft:
        draft = propose(self, context, budget)
        arm = self._copies is not None, self._model is not None
        used.setdefault(arm, set()).update(e.source for e in draft.evidence)
        return draft

    monkeypatch.setattr(ChainDrafter, "propose", watched)
    chain = {(True, True): {Source.MODEL, Source.COPY}}
    open_bench(plan(WIDTHS)).verify(replace(MATRIX, drafters=(ArmDrafter.CHAIN,)))
    assert used == chain
    open_bench(plan(WIDTHS)).verify()
    assert used == chain | {(False, True): {Source.MODEL}, (True, False): {Source.COPY}}


def test_the_rules_are_checked_on_rows_of_both_models(open_bench: Open) -> None:
    report = open_bench(plan(WIDTHS)).verify(n_rounds=150)
    assert report.rules_skipped is None and report.failed_rules == []
    assert {check.prompt for check in report.rules} <= {p.id for p in PROMPTS}
    assert len({(check.prompt, check.position) for check in report.rules}) == 4
    assert 0 < sum(c.n_accepted for c in report.rules) < sum(c.n_drafted for c in report.rules)


def test_rows_are_those_after_the_last_two_tokens(open_bench: Open) -> None:
    bench = open_bench(plan((4,)))
    bench.session.prepare(20, 20)
    tokens = list(range(40, 52))
    target, draft = rows_after(bench.session, tokens)
    assert target.shape == draft.shape == (2, 320)
    np.testing.assert_array_equal(rows_after(bench.session, tokens[:-1])[0][1], target[0])
    assert not np.array_equal(target, draft)
    shifted, _ = rows_after(bench.session, [*tokens[:3], 200, *tokens[4:]])
    assert not np.array_equal(shifted, target)


def test_a_second_run_with_the_file_makes_no_pass(open_bench: Open, tmp_path: Path) -> None:
    matrix = Matrix(PROMPTS, (0.0, 0.8), (ArmDrafter.NGRAM, ArmDrafter.RANDOM), (3,), 30, 1)
    path, settings = tmp_path / "save.jsonl", {"seed": 1}
    bench = open_bench(plan(WIDTHS), draft=False)  # the rules are not saved
    first = bench.verify(matrix, Archive(open_save(path), settings))
    n_first = bench.n_passes
    assert n_first > 8 * 5
    again = bench.verify(matrix, Archive(open_save(path), settings))
    assert bench.n_passes == n_first
    assert again == first
    longer = Matrix(PROMPTS, (0.0, 0.8), tuple(matrix.drafters), (3, 4), 30, 1)
    assert len(bench.verify(longer, Archive(open_save(path), settings)).comparisons) == 16
    assert n_first < bench.n_passes < 2 * n_first


def test_an_interrupted_run_keeps_what_is_finished_and_goes_on_from_there(
    open_bench: Open, tmp_path: Path
) -> None:
    path = tmp_path / "save.jsonl"
    bench = open_bench(plan(WIDTHS))
    bench.cancelled = lambda: bench.n_passes > 300
    part = bench.verify(archive=Archive(open_save(path), {}))
    assert 0 < len(part.comparisons) < len(MATRIX.cells())
    assert part.rules_skipped == "interrupted" and part.interrupted
    n_saved = sum('"drafter"' in line for line in path.read_text().splitlines())
    assert n_saved == len(part.comparisons)
    bench.cancelled = lambda: False
    whole = bench.verify(archive=Archive(open_save(path), {}))
    assert len(whole.comparisons) == len(MATRIX.cells())
    assert not whole.interrupted and whole.failure is None


def test_kernels_that_differ_by_width_give_near_ties_in_fast_mode(
    open_bench: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = open_bench(plan(None, max_difference=0.2))
    differ_by_width(monkeypatch, 0.2)
    report = bench.verify()
    assert report.near_ties and report.failure is None
    for comparison in report.near_ties:
        difference = comparison.difference
        assert difference is not None
        assert difference.row_difference == pytest.approx(0.2, abs=0.01)
        # One of the two logits was raised, so this much can turn a choice and no more.
        if difference.margin is None:
            assert "a filter keeps one of the tokens in one row only" in difference.reason
        else:
            assert 0 <= difference.margin <= 0.21


def test_the_same_kernels_under_a_plan_that_calls_them_equal_are_unexplained(
    open_bench: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = open_bench(plan(WIDTHS, max_difference=0.2))
    differ_by_width(monkeypatch, 0.2)
    report = bench.verify()
    assert report.near_ties == [] and report.unexplained
    reasons = {c.difference.reason for c in report.unexplained if c.difference}
    assert reasons == {"the rows differ, though these passes were found to give equal bits"}


def test_padding_makes_fake_kernels_equal_that_differ_for_a_single_row(
    open_bench: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = open_bench(plan((2, 4, 8)))
    differ_by_width(monkeypatch, 0.2)
    assert bench.verify().failure is None


def test_the_same_difference_is_found_again(
    open_bench: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = open_bench(plan(None, max_difference=0.01))
    differ_by_width(monkeypatch, 0.2)
    one, two = (bench.verify() for _ in range(2))
    fixed = [c for c in one.comparisons if c.cell.draft_tokens]
    assert any(not c.is_equal for c in fixed)
    assert [c for c in two.comparisons if c.cell.draft_tokens] == fixed


def test_every_text_is_made_from_its_whole_prompt(
    open_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[int] = []
    generate = Session.generate

    def watched(self: Session, *args: Any) -> Iterator[Event]:
        for event in generate(self, *args):
            if isinstance(event, Finished):
                kept.append(event.stats.n_cached)
            yield event

    monkeypatch.setattr(Session, "generate", watched)
    open_bench(plan(WIDTHS)).verify(replace(MATRIX, temps=(0.0,), max_tokens=8))
    assert len(kept) > 8 and set(kept) == {0}
