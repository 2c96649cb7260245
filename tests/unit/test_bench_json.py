"""What `bench` writes for other programs: its fields and their types are those of docs/json.md."""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spec_cli.bench.compare import Earlier
from spec_cli.bench.limits import Limits
from spec_cli.bench.machine import Machine
from spec_cli.bench.matrix import PLAIN, Arm, Matrix
from spec_cli.bench.measure import Run
from spec_cli.bench.report import Report
from spec_cli.bench.rows import Row
from spec_cli.bench.synthetic import outlook
from spec_cli.download import LocalModel
from spec_cli.prompts import NamedPrompt
from spec_cli.render.bench import print_bench, print_outlook
from spec_cli.render.bench_blocks import BenchInfo
from spec_cli.render.bench_setup import setup_row
from spec_cli.render.options import Format
from spec_cli.spec.costs import CostTable, PassTimes
from spec_cli.terminal import Terminal
from tests.cli.scripted_run import INFO as SCRIPTED
from tests.unit.test_bench_runs import AUTO, FOUR, made

DOCS = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
FREE_FORM = ("exactness", "setup", "system.versions", "kernels", "sampling")


def is_array_of(kind: type, value: object) -> bool:
    return isinstance(value, list) and all(type(item) is kind for item in value)


TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) in (int, float),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "array of integers": lambda value: is_array_of(int, value),
    "array of numbers": lambda value: is_array_of(float, value),
    "null": lambda value: value is None,
    '`"auto"`': lambda value: value == "auto",
}

PROMPTS = (NamedPrompt("one", "code", "a"), NamedPrompt("two", "prose", "b"))
MATRIX = Matrix(PROMPTS, (0.0, 0.8), (FOUR, AUTO), max_tokens=10, n_rounds=1, seed=1)
INFO = replace(SCRIPTED, versions={"spec-cli": "1", "llama-cpp-python": "2"})
MACHINE = Machine("a CPU", 2, "an OS")
TARGET = LocalModel("target", Path("a/target.gguf"), 9, sha256="00")


def setup(draft: LocalModel | None) -> Row:
    info = INFO if draft else replace(INFO, draft=None)
    return setup_row(info, MACHINE, MATRIX, target=TARGET, draft=draft, n_gpu_layers=None)


SETUP = setup(LocalModel("draft", Path("a/draft.gguf"), 4))


def group(prompt: NamedPrompt, temp: float) -> list[Run]:
    def run(arm: Arm, turn: int = 0) -> Run:
        of = made(arm, 1.25, prompt=prompt.id, kind=prompt.kind, temp=temp, turn=turn)
        return of if arm.is_plain else replace(of, limits=Limits(1.5, 2.0))

    return [run(PLAIN), run(FOUR), run(AUTO), run(PLAIN, turn=1)]


RUNS = tuple(run for prompt in PROMPTS for temp in MATRIX.temps for run in group(prompt, temp))
REPORT = Report(MATRIX, RUNS, INFO.plan)
BENCH = BenchInfo(INFO, MACHINE, SETUP, Earlier(SETUP, RUNS), "spec-cli run -k auto")


def printed(show: Callable[[Terminal], None]) -> str:
    raw = io.BytesIO()
    stdout = io.TextIOWrapper(raw, encoding="ascii")
    show(Terminal(stdout, stdout, stdout, False, False, False, True, False))
    return raw.getvalue().decode()


def measured(form: Format, report: Report = REPORT) -> str:
    return printed(lambda terminal: print_bench(terminal, form, report, BENCH))


def reckoned(form: Format) -> str:
    costs = CostTable(PassTimes((1, 2, 3), (1.0, 1.25, 4.0)), draft_token_s=0.25)
    found = {"model": outlook(costs, 0.8, 2)}
    return printed(lambda terminal: print_outlook(terminal, form, found, 0.8))


def whole(report: Report = REPORT) -> Any:
    return json.loads(measured(Format.JSON, report))


def leaves(value: object, prefix: str = "") -> dict[str, object]:
    """All that is not an object of listed keys, by dotted path."""
    if not isinstance(value, dict) or prefix in FREE_FORM:
        return {prefix: value}
    found: dict[str, object] = {}
    for key, item in value.items():
        found |= leaves(item, f"{prefix}.{key}".lstrip("."))
    return found


def documented(heading: str) -> dict[str, str]:
    """The types by field."""
    section = re.split(r"^##+ ", DOCS.split(f"# {heading}\n", 1)[1], flags=re.M)[0]
    return dict(re.findall(r"^\| `([\w.]+)` \| (.+?) \|", section, flags=re.M))


def require_documented(value: object, *headings: str) -> None:
    """The fields of `value` are those of the sections together, with values of their types."""
    types = {field: of for heading in headings for field, of in documented(heading).items()}
    found = leaves(value)
    assert set(found) == set(types)
    for field, item in found.items():
        assert any(TYPES[name](item) for name in types[field].split(" or ")), (field, item)


def test_every_field_of_the_object_is_documented_and_every_documented_field_is_there() -> None:
    assert measured(Format.JSON).count("\n") == 1
    for report in (REPORT, Report(MATRIX, (), INFO.plan, interrupted=True)):
        require_documented(whole(report), "The object of `bench`")
    assert whole()["schema"] == "spec-cli/bench/1"


def test_every_field_of_the_scores_is_documented() -> None:
    scores = whole()["scores"]
    assert [(s["drafter"], s["draft_tokens"]) for s in scores] == 2 * [
        ("none", 0), ("auto", 4), ("auto", "auto"),
    ]  # fmt: skip
    for score in scores:
        require_documented(score, "Each of `scores`")
        for gain in score["gains"]:
            require_documented(gain, "Each of `scores.gains`")
    assert [gain["kind"] for gain in scores[1]["gains"]] == [None, "code", "prose"]
    assert scores[0]["gains"] == []


def test_every_field_of_the_changes_is_documented() -> None:
    changes = whole()["changes"]
    assert len(changes) == 2 * 2 * 3  # arms; temperatures; all, code and prose
    for change in changes:
        require_documented(change, "Each of `changes`")


def test_every_column_of_a_run_and_of_the_set_up_is_documented() -> None:
    for row in whole()["runs"]:
        require_documented(row, "The columns of a run")
    for common in (SETUP, setup(draft=None)):
        require_documented(common, "The columns of the set-up")
    assert whole()["setup"] == SETUP


def test_a_row_of_each_format_has_the_columns_of_both() -> None:
    both = ("The columns of a run", "The columns of the set-up")
    rows = [json.loads(line) for line in measured(Format.JSONL).splitlines()]
    for row in rows:
        require_documented(row, *both)
        assert row["schema"] == "spec-cli/bench-row/1"
    assert rows == [SETUP | run for run in whole()["runs"]]
    columns = {name for heading in both for name in documented(heading)}
    assert set(next(csv.reader(io.StringIO(measured(Format.CSV))))) == columns
    with sqlite3.connect(":memory:") as database:
        database.executescript(measured(Format.SQL))
        cursor = database.execute("SELECT * FROM bench")
    assert {name for name, *_ in cursor.description} == columns


def test_every_field_of_the_outlook_is_documented() -> None:
    found = json.loads(reckoned(Format.JSON))
    require_documented(found, "The outlook of `bench --synthetic`")
    assert found["schema"] == "spec-cli/bench-outlook/1"
    for item in found["outlook"]:
        require_documented(item, "Each of `outlook`")
    wins, loses = found["outlook"]
    assert wins["break_even"] == pytest.approx(0.5, abs=1e-3) and loses["break_even"] is None
    lines = [json.loads(line) for line in reckoned(Format.JSONL).splitlines()]
    assert lines == found["outlook"]


def test_totals_follow_from_the_runs() -> None:
    noisy = [replace(run, noise=0.2) if run.prompt == "one" else run for run in RUNS]
    again = [replace(run, noise=0.1, attempt=1) for run in noisy if run.noise]
    wrong = replace(noisy[1], measure=replace(noisy[1].measure, first_difference=3))
    found = whole(replace(REPORT, runs=(noisy[0], wrong, *noisy[2:], *again)))
    runs, groups = found["runs"], found["groups"]
    assert groups == {"planned": 4, "measured": 4, "repeated": 2, "noisy": 2}
    # All but the first plain run of each group and attempt are compared.
    assert found["texts"] == {"compared": len(runs) * 3 // 4, "different": 1}
    assert (found["passed"], found["complete"]) == (False, True)
    score = next(s for s in found["scores"] if s["draft_tokens"] == 4 and s["temp"] == 0.8)
    counted = [
        run
        for run in runs
        if (run["draft_tokens"], run["temp"]) == (4, 0.8)
        and run["attempt"] == (run["prompt"] == "one")
    ]
    assert score["figures"]["n_runs"] == len(counted) == 2
    for name in ("n_tokens", "n_drafted", "n_accepted"):
        assert score["figures"][name] == sum(run[name] for run in counted)


def test_the_derived_columns_follow_from_the_others() -> None:
    for run in whole()["runs"]:
        assert run["decode_s"] == run["draft_s"] + run["verify_s"] + run["host_s"]
        assert run["tokens_per_s"] == pytest.approx(run["n_tokens"] / run["decode_s"])
        assert run["acceptance_rate"] == run["n_accepted"] / run["n_drafted"]
        assert run["acceptance_length"] == run["n_tokens"] / run["n_rounds"]
        assert run["speedup"] == pytest.approx(run["plain_token_s"] * run["tokens_per_s"])
        assert (run["oracle_stop"] is None) == (run["drafter"] == "none")
