"""The comparison with other programs: what is compared with what, and what is kept."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.events import Finished, FinishReason
from spec_cli.settings import SessionSettings
from spec_cli.spec.settings import SamplingSettings
from spec_cli.spec.stats import RoundCount, RunStats

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import peer_arms
from peer_plan import Block, append_row, plan_blocks, recover_rows, rows_of
from peer_report import (
    BASELINE,
    Row,
    Timings,
    acceptance_rate,
    geometric_mean,
    speedups,
    table,
)

ARMS = [BASELINE, "a", "b", "c", "d", "e"]
PROMPTS = ["p1", "p2", "p3"]


def row(
    arm: str,
    token_ms: float,
    *,
    block: str = "x",
    prompt: str = "p1",
    kind: str = "code",
    temp: float = 0.0,
    drafted: int | None = 0,
    accepted: int | None = 0,
) -> Row:
    timings = Timings(5.0, token_ms * 10, 11, 10, drafted, accepted)
    return Row(block, arm, prompt, kind, temp, timings)


def planned(
    n_rounds: int = 2, n_arms: int = 2, n_prompts: int = 2, facts: object = 1
) -> list[Block]:
    return list(
        plan_blocks(
            ARMS,
            PROMPTS,
            n_rounds=n_rounds,
            n_arms=n_arms,
            n_prompts=n_prompts,
            seed=1,
            facts=facts,
        )
    )


def rows_for(block: Block) -> list[Row]:
    return [row(a, 1.0, block=block.key, prompt=p) for a in block.arms for p in block.prompts]


def test_time_per_token_counts_only_the_tokens_that_were_timed() -> None:
    assert Timings(1.0, 300.0, 11, 10, None, None).token_ms == 30.0


def test_a_speedup_is_formed_within_its_block() -> None:
    rows = [
        row(BASELINE, 30.0, block="quiet"),
        row("a", 15.0, block="quiet"),
        row(BASELINE, 90.0, block="busy"),
        row("a", 45.0, block="busy"),
    ]
    assert speedups(rows) == {BASELINE: {"p1": 1.0}, "a": {"p1": 2.0}}


def test_of_several_blocks_the_median_counts() -> None:
    rows = []
    for block, token_ms in (("x", 10.0), ("y", 5.0), ("z", 0.1)):
        rows += [row(BASELINE, 10.0, block=block), row("a", token_ms, block=block)]
    assert speedups(rows)["a"] == {"p1": 2.0}


def test_a_block_without_the_baseline_is_an_error() -> None:
    with pytest.raises(KeyError):
        speedups([row(BASELINE, 1.0, block="x"), row("a", 1.0, block="y")])


@given(st.lists(st.floats(0.01, 100), min_size=1))
def test_ratios_and_their_inverses_have_inverse_means(values: list[float]) -> None:
    inverse = geometric_mean([1 / value for value in values])
    assert geometric_mean(values) * inverse == pytest.approx(1)


def test_what_nobody_drafted_or_told_has_no_acceptance_rate() -> None:
    assert acceptance_rate([row("a", 1.0)]) is None
    assert acceptance_rate([row("a", 1.0, drafted=None, accepted=None)]) is None
    rows = [row("a", 1.0, drafted=30, accepted=10), row("a", 1.0, drafted=10, accepted=10)]
    assert acceptance_rate(rows) == 0.5


def test_the_table_has_means_by_kind_overall_and_the_worst_prompt() -> None:
    rows = []
    for prompt, kind, token_ms in (("p1", "code", 5.0), ("p2", "code", 20.0), ("p3", "prose", 5.0)):
        rows.append(row(BASELINE, 10.0, prompt=prompt, kind=kind))
        rows.append(row("a", token_ms, prompt=prompt, kind=kind, drafted=4, accepted=3))
    assert table(rows, [BASELINE, "unmeasured", "a"]).splitlines() == [
        "| configuration | code | prose | overall | worst | accepted |",
        "|---|---|---|---|---|---|",
        f"| {BASELINE} | 1.00 | 1.00 | **1.00** | 1.00 | - |",
        "| a | 1.00 | 2.00 | **1.26** | 0.50 | 75% |",
    ]


def test_each_arm_answers_each_prompt_once_a_round_and_the_baseline_in_every_block() -> None:
    blocks = planned()
    turns = Counter((b.round, arm, p) for b in blocks for arm in b.arms for p in b.prompts)
    others = [arm for arm in ARMS if arm != BASELINE]
    assert all(turns[n, arm, p] == 1 for n in (0, 1) for arm in others for p in PROMPTS)
    assert all(block.arms.count(BASELINE) == 1 for block in blocks)
    assert all(len(block.arms) <= 3 and len(block.prompts) <= 2 for block in blocks)


def test_the_baseline_takes_its_turn_at_changing_places() -> None:
    assert {block.arms.index(BASELINE) for block in planned(n_rounds=6)} == {0, 1, 2}


def test_the_baseline_alone_is_a_block_too() -> None:
    blocks = plan_blocks([BASELINE], ["p"], n_rounds=1, n_arms=6, n_prompts=3, seed=1, facts=None)
    assert [(block.arms, block.prompts) for block in blocks] == [((BASELINE,), ("p",))]


def test_the_same_command_plans_the_same_blocks_and_another_none_of_them() -> None:
    assert planned() == planned()
    assert planned(n_rounds=3)[: len(planned())] == planned()
    assert not {b.key for b in planned()} & {b.key for b in planned(facts=2)}
    assert len({block.key for block in planned()}) == len(planned())


def test_a_block_that_is_incomplete_is_measured_again() -> None:
    first, second = planned()[:2]
    whole, cut = rows_for(first), rows_for(second)[:-1]
    assert rows_of([first, second], [*cut, *whole], [0.0]) == whole
    assert rows_of([first, second], whole, [0.0, 0.8]) == []


def test_of_a_row_that_was_measured_twice_the_later_one_counts() -> None:
    block = planned()[0]
    again = [row(r.arm, 2.0, block=r.block, prompt=r.prompt) for r in rows_for(block)]
    assert rows_of([block], [*rows_for(block)[:2], *again], [0.0]) == again


def test_our_answers_start_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Recorded:
        """A session that generates one token."""

        def __init__(self, *args: object) -> None:
            pass

        def prepare(self, n_prompt: int, max_tokens: int) -> None:
            asked.append("prepare")

        def forget(self) -> None:
            asked.append("forget")

        def generate(self, tokens: object, generation: object) -> Iterator[Finished]:
            asked.append("generate")
            stats = RunStats(n_prompt=1)
            stats.add_round(RoundCount(0, 0, 1), draft_s=0.0, verify_s=0.5, host_s=0.0)
            yield Finished(FinishReason.LENGTH, (7,), stats)

    monkeypatch.setattr(peer_arms, "Session", Recorded)
    arm: Any = peer_arms.SpecCli(Path("target"), None, SessionSettings(), None)  # type: ignore[arg-type]
    request = peer_arms.Request((1,), 1, SamplingSettings(temp=0), seed=1)
    assert [arm.answer(request).token_ms for _ in range(2)] == [500.0, 500.0]
    assert asked == ["prepare", "forget", "generate"] * 2


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert recover_rows(path) == []
    rows = [row("a", 1 / 3), row("b", 2.0, drafted=None, accepted=None)]
    for each in rows:
        append_row(path, each)
    assert recover_rows(path) == rows


def test_a_line_that_was_cut_off_is_dropped_and_never_joined_with_the_next(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append_row(path, row("a", 1.0))
    with path.open("a") as file:
        file.write('{"block": "x", "ar')
    assert recover_rows(path) == [row("a", 1.0)]
    append_row(path, row("b", 2.0))
    assert recover_rows(path) == [row("a", 1.0), row("b", 2.0)]
