"""What an export file keeps, how it spares work, and how an old one is compared with a new one."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from spec_cli.bench.archive import Archive, Entry, open_export, read_export, sha256_of
from spec_cli.bench.compare import Earlier, changes, differences, latest, require_common
from spec_cli.bench.matrix import PLAIN, Arm, Group, Matrix
from spec_cli.bench.measure import Run
from spec_cli.errors import ExitCode, SpecError, UsageError
from spec_cli.files import MAX_INPUT_BYTES
from spec_cli.prompts import NamedPrompt
from spec_cli.settings import DrafterKind
from tests.unit.test_bench_runs import AUTO, FOUR, made

PROMPTS = (NamedPrompt("p0", "code", "text 0"), NamedPrompt("p1", "prose", "text 1"))
MATRIX = Matrix(PROMPTS, (0.0,), (FOUR, AUTO), max_tokens=8, n_rounds=2, seed=1)
SETUP = {"cpu": "a CPU", "widths": (1, 2), "seed": 1}
GROUP = Group(PROMPTS[0], 0.0, 0)


def of(prompt: NamedPrompt, run: Run) -> Run:
    return replace(run, prompt=prompt.id, kind=prompt.kind, prompt_sha256=sha256_of(prompt.text))


def group_of(prompt: NamedPrompt, speedup: float = 1.5, noise: float = 0.0) -> list[Run]:
    runs = [made(PLAIN), made(FOUR, speedup), made(AUTO, 2 * speedup), made(PLAIN, turn=1)]
    return [replace(of(prompt, run), noise=noise) for run in runs]


def test_what_is_written_is_read_by_the_next_archive(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    archive = Archive(open_export(path), SETUP)
    assert path.exists()  # a file that cannot be written is found before hours of work
    runs = group_of(PROMPTS[0])
    archive.add(runs)
    for again in (archive, Archive(open_export(path), SETUP)):
        assert again.runs(MATRIX) == runs
        assert again.find(GROUP, FOUR) == runs[1]
        assert again.find(GROUP, PLAIN, turn=1) == runs[3]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 4
    assert all(row["cpu"] == "a CPU" and row["widths"] == [1, 2] for row in rows)


def test_a_file_name_that_is_not_utf_8_is_kept_and_found_again(tmp_path: Path) -> None:
    path, setup = tmp_path / "runs.jsonl", SETUP | {"target_file": "\udcff.gguf"}
    Archive(open_export(path), setup).add(group_of(PROMPTS[0]))
    assert Archive(open_export(path), setup).find(GROUP, FOUR) is not None


def test_other_runs_are_not_found(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    Archive(open_export(path), SETUP).add(group_of(PROMPTS[0]))
    archive = Archive(open_export(path), SETUP)
    for group in (
        replace(GROUP, prompt=PROMPTS[1]),
        replace(GROUP, prompt=replace(PROMPTS[0], text="another text")),
        replace(GROUP, temp=0.8),
        replace(GROUP, round=1),
        replace(GROUP, attempt=1),
    ):
        assert archive.find(group, FOUR) is None
    assert archive.find(GROUP, Arm(DrafterKind.NGRAM, 4)) is None
    assert Archive(open_export(path), SETUP | {"seed": 2}).find(GROUP, FOUR) is None


def test_runs_are_those_of_the_matrix_in_its_order_and_repeated_ones_last() -> None:
    archive = Archive(None, SETUP)
    first = group_of(PROMPTS[0], noise=0.2)
    again = [replace(run, attempt=1, noise=0.0) for run in first]
    archive.add([*again, *first])
    archive.add(group_of(NamedPrompt("other", "code", "text")))
    assert archive.runs(MATRIX) == [*first, *again]
    assert archive.runs(replace(MATRIX, arms=(AUTO,))) == [
        run for run in [*first, *again] if run.arm != FOUR
    ]


def test_a_line_that_was_cut_off_is_dropped_and_written_again(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    runs = group_of(PROMPTS[0])
    Archive(open_export(path), SETUP).add(runs)
    whole = path.read_bytes()
    line = whole.split(b"\n")[0]
    for n in (1, 40, len(line)):
        path.write_bytes(whole + line[:n])
        archive = Archive(open_export(path), SETUP)
        assert path.read_bytes() == whole and archive.runs(MATRIX) == runs


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("hello", 1),
        ("hello\n", 1),
        ("[]\n", 1),
        ("[" * 100_000 + "\n", 1),
        ('{"schema": "spec-cli/verify-save/1"}\n', 1),
        ('{"schema": "spec-cli/bench-row/1"}\n', 1),
    ],
)
def test_a_file_of_something_else_is_refused_and_left_alone(
    tmp_path: Path, text: str, line: int
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with pytest.raises(UsageError, match=rf"notes.txt, line {line} was not written by"):
        open_export(path)
    assert path.read_text() == text


def test_rows_that_cannot_be_written_are_told_and_are_no_usage_error(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    archive = Archive(open_export(tmp_path / "gone" / "runs.jsonl"), SETUP)
    shutil.rmtree(tmp_path / "gone")
    with pytest.raises(SpecError, match=r"cannot write .*runs\.jsonl: No such file") as raised:
        archive.add(group_of(PROMPTS[0]))
    assert raised.value.exit_code is ExitCode.UNEXPECTED


def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot use"):
        open_export(tmp_path / "no" / "file.jsonl")
    with pytest.raises(UsageError, match="cannot read"):
        read_export(tmp_path / "nothing.jsonl")
    endless = tmp_path / "endless.jsonl"
    endless.touch()
    os.truncate(endless, MAX_INPUT_BYTES + 1)
    with pytest.raises(UsageError, match="holds more than"):
        read_export(endless)
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    with pytest.raises(UsageError, match="holds no runs"):
        read_export(empty)


def test_a_file_to_compare_with_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    Archive(open_export(path), SETUP).add(group_of(PROMPTS[0]))
    path.write_bytes(path.read_bytes() + b'{"sch')
    before = path.read_bytes()
    assert len(read_export(path)) == 4 and path.read_bytes() == before


def earlier(runs: list[Run]) -> Earlier:
    return Earlier({"cpu": "a CPU"}, tuple(runs))


def test_the_last_set_up_of_a_file_is_the_one_to_compare_with() -> None:
    old, new = ({"cpu": "old"}, {"cpu": "new"})
    runs = group_of(PROMPTS[0])
    entries = [Entry(old, runs[0]), Entry(new, runs[1]), Entry(old, runs[2]), Entry(new, runs[3])]
    assert latest(entries) == Earlier(new, (runs[1], runs[3]))


def test_a_change_is_that_of_the_prompts_in_both() -> None:
    then = earlier([*group_of(PROMPTS[0], 1.0), *group_of(PROMPTS[1], 2.0)])
    found = list(changes(then, group_of(PROMPTS[1], 3.0), MATRIX))
    assert [(c.arm, c.kind) for c in found] == [
        (FOUR, None),
        (FOUR, "prose"),
        (AUTO, None),
        (AUTO, "prose"),
    ]
    assert (found[0].then, found[0].now, found[0].change.mean) == pytest.approx((2.0, 3.0, 1.5))
    assert found[2].now == pytest.approx(6.0) and found[0].change.n == 1


def test_without_anything_in_common_there_is_nothing_to_compare() -> None:
    then = earlier(group_of(PROMPTS[0]))
    require_common(then, MATRIX)
    for matrix in (
        replace(MATRIX, arms=(Arm(DrafterKind.NGRAM, 2),)),
        replace(MATRIX, temps=(0.8,)),
        replace(MATRIX, prompts=(replace(PROMPTS[0], text="another"),)),
    ):
        with pytest.raises(UsageError, match="nothing in common"):
            require_common(then, matrix)
        assert list(changes(then, [], matrix)) == []


def test_what_differs_between_two_set_ups_is_told() -> None:
    then, now = {"cpu": "a", "seed": 1, "gone": 2}, {"cpu": "b", "seed": 1, "new": None}
    assert differences(then, now) == [("cpu", "a", "b"), ("gone", 2, None)]
