"""`spec-cli bench`: measures a tiny pair, prints it in every format, and refuses what it cannot."""

from __future__ import annotations

import csv
import io
import json
import signal
import sqlite3
import xml.etree.ElementTree as xml
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pexpect
import pytest

from spec_cli.bench.matrix import PLAIN, Arm
from spec_cli.cli import bench as command
from spec_cli.cli import bench_start as start
from spec_cli.cli.bench_options import run_command
from spec_cli.exactness import Planner
from spec_cli.llama.context import LlamaContext
from spec_cli.settings import DrafterKind, SessionSettings
from spec_cli.spec.acceptance import MatchRule
from spec_cli.spec.costs import PassTimes
from spec_cli.spec.exactness import DEFAULT_KERNELS, ExactnessPlan
from spec_cli.spec.interfaces import Draft, Logits, Verdict
from spec_cli.spec.settings import Exact
from tests.cli.conftest import Call, Done, SpecCli, finished, wait_until
from tests.cli.emulator import Emulator
from tests.cli.tiny_models import Models

WIDTHS = tuple(range(1, 17))
Patch = pytest.MonkeyPatch
Bench = Callable[..., Done]


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "own.jsonl"
    lines = [
        {"id": "greeting", "kind": "talk", "prompt": "hello there"},
        {"id": "farewell", "kind": "talk", "prompt": "good bye, good bye"},
        {"id": "add", "kind": "code", "prompt": "def add(a, b"},
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


@pytest.fixture
def bench(call: Call, models: Models, prompts: Path, monkeypatch: Patch) -> Bench:
    """Measures the tiny pair in this process."""
    plant(monkeypatch, WIDTHS)

    def run(*options: str) -> Done:
        pair = ("bench", models.target, "-d", models.draft, "--prompts", prompts)
        return call(*pair, "-t", "1", "-n", "8", "--rounds", "1", *options)

    return run


def plant(monkeypatch: Patch, widths: tuple[int, ...] | None) -> None:
    """Let the exactness plan say this, whatever is true."""
    plan = ExactnessPlan(DEFAULT_KERNELS, widths, 0.0, 0.0, PassTimes(WIDTHS, (1.0,) * 16))
    monkeypatch.setattr(Planner, "stored", lambda self: plan)


def no_session(monkeypatch: Patch) -> None:
    """Loading a model fails the test."""

    def load(*_: object) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(start, "Session", load)


def test_a_report_in_a_pipe_is_plain_and_ends_with_a_command_to_paste(
    bench: Bench, models: Models
) -> None:
    run = bench("-k", "0,2,auto")
    assert (run.exit_code, run.stderr) == (0, "")
    text = run.stdout.decode()
    assert "\x1b" not in text and all(line == line.rstrip() for line in text.splitlines())
    words = [line.split() for line in text.splitlines()]
    assert {"plain", "k=2", "k=auto"} <= {line[0] for line in words if line}
    assert ["speed-up", "talk", "code"] in words
    assert "equal plain decoding, token for token" in text
    *_, verdict, paste = text.splitlines()
    # Three prompts prove nothing, whatever their times.
    assert verdict.startswith(("nothing is shown to beat plain", "nothing beat plain"))
    assert paste == f"  spec-cli run -m {models.target} --temp 0 -t 1 --no-draft"


def test_the_command_for_an_arm_has_what_was_set_for_all() -> None:
    settings = SessionSettings(exact=Exact.ON, n_threads=2, n_gpu_layers=0, device="cpu")
    arm = Arm(DrafterKind.NGRAM, 4)
    assert run_command("my pair", "a/b", settings, (0.8,), arm) == (
        "spec-cli run -m 'my pair' -d a/b --exact on --temp 0.8 -t 2 --gpu-layers 0 --device cpu "
        "--drafter ngram -k 4"
    )
    assert run_command(None, "a/b", SessionSettings(), (0.0, 0.8), PLAIN) == (
        "spec-cli run --no-draft"
    )


def test_the_command_that_is_printed_runs(bench: Bench, call: Call) -> None:
    _, *run = bench("-k", "2", "--format", "json").json["command"].split()
    assert call(*run, "-n", "4", "hello").exit_code == 0


@pytest.mark.parametrize("form", ["csv", "jsonl", "sql", "json"])
def test_every_format_has_every_run_with_its_configuration(
    bench: Bench, models: Models, form: str
) -> None:
    run = bench("-k", "2", "--drafter", "ngram,model", "--temp", "0,0.8", "--format", form)
    assert run.exit_code == 0, run.stderr
    rows = rows_of(run, form)
    first = [row for row in rows if str(row["attempt"]) == "0"]
    assert len(first) == 3 * 2 * (2 + 2)
    assert {str(row["drafter"]) for row in rows} == {"none", "ngram", "model"}
    assert {row["target_file"] for row in rows} == {"target.gguf"}
    assert {float(row["temp"]) for row in rows} == {0.0, 0.8}
    assert all(float(row["speedup"]) > 0 and row["cpu"] for row in rows)
    assert str(models.directory) not in str([list(row.values()) for row in rows])


def rows_of(run: Done, form: str) -> Sequence[dict[str, Any]]:
    text = run.stdout.decode()
    if form == "csv":
        return list(csv.DictReader(io.StringIO(text)))
    if form == "jsonl":
        return run.events
    if form == "json":
        whole = run.json
        return [whole["setup"] | row for row in whole["runs"]]
    with sqlite3.connect(":memory:") as database:
        database.row_factory = sqlite3.Row
        database.executescript(text)
        return [dict(row) for row in database.execute("SELECT * FROM bench")]


def test_markdown_has_tables(bench: Bench) -> None:
    text = bench("--format", "md", "-k", "2").stdout.decode()
    assert "|  | tokens/s | speed-up | 95 % interval | worst prompt |" in text
    assert "\n\n\n" not in text


def test_quick_takes_the_first_prompt_of_each_kind_and_the_policy(bench: Bench) -> None:
    runs = bench("--quick", "--format", "json").json["runs"]
    assert {run["prompt"] for run in runs} == {"greeting", "add"}
    assert {run["draft_tokens"] for run in runs} == {0, "auto"}
    assert {run["n_tokens"] for run in runs} == {8}  # -n still counts
    runs = bench("--quick", "--per-kind", "2", "--format", "json").json["runs"]
    assert {run["prompt"] for run in runs} == {"greeting", "farewell", "add"}
    assert {run["kind"] for run in bench("--kind", "code", "--format", "jsonl").events} == {"code"}


def test_without_own_prompts_all_built_in_ones_are_there(
    call: Call, models: Models, monkeypatch: Patch
) -> None:
    """The tiny model reads bytes, so long prompts need more context than it was trained for."""
    plant(monkeypatch, WIDTHS)
    args = ("bench", models.target, "-d", "none", "-c", "16000", "-n", "2", "-k", "2", "--rounds")
    runs = call(*args, "1", "--format", "jsonl").events
    assert len({run["prompt"] for run in runs}) == 42
    assert len({run["kind"] for run in runs}) == 7


def test_a_measurement_goes_on_with_its_file(
    bench: Bench, monkeypatch: Patch, tmp_path: Path
) -> None:
    n_passes = 0
    evaluate = LlamaContext.eval

    def counted(self: LlamaContext, tokens: Sequence[int], n_rows: int | None = None) -> Logits:
        nonlocal n_passes
        n_passes += 1
        return evaluate(self, tokens, n_rows)

    monkeypatch.setattr(LlamaContext, "eval", counted)
    export = ("--drafter", "ngram", "--export", str(tmp_path / "runs.jsonl"))
    first = bench("-k", "3", *export)
    assert first.exit_code == 0 and n_passes > 50
    n_passes = 0
    assert bench("-k", "3", *export) == first
    assert n_passes == 0
    assert bench("-k", "3,5", *export).exit_code == 0
    n_more, n_passes = n_passes, 0
    assert n_more > 0
    assert bench("-k", "3", "--seed", "2", *export).exit_code == 0
    assert n_passes > 50


def test_an_old_file_is_compared_with(bench: Bench, tmp_path: Path) -> None:
    old = str(tmp_path / "old.jsonl")
    assert bench("-k", "2", "--export", old).exit_code == 0
    run = bench("-k", "2,3", "-n", "6", "--compare", old)
    text = run.stdout.decode()
    assert run.exit_code == 0 and "then and now" in text
    assert "max_tokens: then 8, now 6" in text
    changes = bench("-k", "2,3", "--compare", old, "--format", "json").json["changes"]
    assert [change["kind"] for change in changes] == [None, "talk", "code"]
    assert {change["arm"]["draft_tokens"] for change in changes} == {2}


def test_a_picture_is_drawn(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "result.svg"
    assert bench("-k", "2", "--plot", str(path)).exit_code == 0
    assert "k=2" in [element.text for element in xml.parse(path).getroot().iter()]


def test_an_acceptance_is_reckoned_with_and_nothing_is_generated(
    bench: Bench, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(start, "bench_pair", None)
    run = bench("--synthetic", "0.8")
    lines = run.stdout.decode().splitlines()
    assert run.exit_code == 0, run.stderr
    assert lines[0].split() == ["drafter", "-k", "speed-up", "wins", "from"]
    # Passes of any width take as long here: more is better, and copies win from the first on.
    assert ["ngram", "1", "1.80x", "0", "%", "accepted"] in [line.split() for line in lines]
    assert lines[-1].startswith("ngram: at an acceptance of 80 % -k 15 is best")
    rows = bench("--synthetic", "0.8", "--format", "csv").stdout.decode()
    assert {row["drafter"] for row in csv.DictReader(io.StringIO(rows))} == {"model", "ngram"}


@pytest.mark.usefixtures("bench")
def test_the_target_may_be_named_by_an_option(call: Call, models: Models, prompts: Path) -> None:
    named = ("bench", "--model", models.target, "-d", models.draft, "--prompts", prompts)
    by_option = call(*named, "-t", "1", "--synthetic", "0.8")
    assert by_option.exit_code == 0
    assert by_option.stdout.split()[0] == b"drafter"


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        (("--temp", "warm"), "--temp is `warm`"),
        (("--temp", "0,-1"), "--temp is -1.0, but must be 0 or more"),
        (("--drafter", "model,oracle"), "--drafter is `oracle`, but must be one of `auto`"),
        (("--drafter", "none"), "--drafter is `none`, but must be one of `auto`"),
        (("--accept", "all"), "--accept is `all`, but must be one of `coupled`"),
        (("-k", "3,many"), "--draft-tokens is `many`, but must be a number or `auto`"),
        (("-k", "64"), "--draft-tokens is 64, but must be from 1 to 63"),
        (("-k", "0"), "nothing is left to compare it with"),
        (("-n", "0"), "--max-tokens is 0, but must be 1 or more"),
        (("--rounds", "0"), "--rounds is 0, but must be 1 or more"),
        (("--seed", "-1"), "--seed is -1"),
        (("--kind", "tolk"), "--kind names `tolk`, but the prompts are of kind `talk`, `code`"),
        (("--synthetic", "0"), "--synthetic is 0.0, but must be above 0 and at most 1"),
        (("--synthetic", "1.5"), "--synthetic is 1.5, but must be above 0 and at most 1"),
        (("--drafter", "model", "-d", "none"), "`--drafter model` needs a draft model"),
        (("--prompts", "nothing.jsonl"), "cannot read nothing.jsonl"),
        (("--export", "no/such/directory/file"), "cannot use no/such/directory/file"),
        (("--compare", "nothing.jsonl"), "cannot read nothing.jsonl"),
        (("--plot", "picture.jpg"), "--plot writes SVG or PNG"),
        (("--plot", "no/such/directory/x.svg"), "cannot write no/such/directory/x.svg"),
    ],
)
def test_what_cannot_be_done_is_said_before_a_model_is_loaded(
    bench: Bench, monkeypatch: Patch, options: tuple[str, ...], fragment: str
) -> None:
    no_session(monkeypatch)
    bench(*options).fails(2, fragment)


def test_a_file_of_something_else_is_named_and_left_alone(
    bench: Bench, monkeypatch: Patch, tmp_path: Path
) -> None:
    no_session(monkeypatch)
    path = tmp_path / "notes.txt"
    path.write_text("my notes\n")
    for flag in ("--export", "--compare"):
        bench(flag, str(path)).fails(2, f"{path}, line 1 was not written by", "hint: ")
    assert path.read_text() == "my notes\n"


def test_files_without_a_common_arm_are_not_compared(
    bench: Bench, monkeypatch: Patch, tmp_path: Path
) -> None:
    old = str(tmp_path / "old.jsonl")
    assert bench("-k", "2", "--export", old).exit_code == 0
    no_session(monkeypatch)
    bench("-k", "3", "--compare", old).fails(2, "nothing in common")


def test_a_target_that_never_drafts_has_nothing_to_compare(
    call: Call, models: Models, prompts: Path, monkeypatch: Patch
) -> None:
    args = ("bench", models.mamba, "-d", "none", "--prompts", prompts)
    call(*args).fails(2, "there is nothing to compare", "recurrent")
    plant(monkeypatch, (1,))
    args = ("bench", models.target, "-d", "none", "--prompts", prompts)
    call(*args).fails(2, "there is nothing to compare", "hint: use `--exact off`")


@pytest.mark.parametrize("drafter", ["chain", "model"])
def test_a_draft_model_that_cannot_draft_is_not_measured(
    call: Call, models: Models, prompts: Path, monkeypatch: Patch, drafter: str
) -> None:
    plant(monkeypatch, WIDTHS)
    monkeypatch.setattr("spec_cli.loader.Loader.draft_times", lambda self, path: None)
    pair = ("bench", models.target, "-d", models.mamba, "--prompts", prompts)
    call(*pair, "--drafter", drafter).fails(2, "memory is recurrent")
    run = call(*pair, "-k", "2", "-n", "4", "--rounds", "1", "--format", "jsonl")
    assert run.exit_code == 0 and {row["drafter"] for row in run.events} == {"none", "auto"}


def test_lengths_beyond_the_widths_are_cut_and_measured_once(
    bench: Bench, monkeypatch: Patch
) -> None:
    plant(monkeypatch, (1, 2, 4))
    run = bench("-k", "3,7,15", "--format", "json")
    assert {row["draft_tokens"] for row in run.json["runs"]} == {0, 3}
    assert "note: drafts are cut to 3 tokens" in run.stderr


def test_texts_that_differ_in_exact_mode_fail(bench: Bench, monkeypatch: Patch) -> None:
    def accept_any_draft(
        self: MatchRule, rows: Logits, draft: Draft, context: Sequence[int]
    ) -> Verdict:
        return Verdict((*draft.tokens, int(rows[-1].argmax())))

    monkeypatch.setattr(MatchRule, "verify", accept_any_draft)
    run = bench("-k", "3", "--drafter", "model")
    assert run.exit_code == 7
    assert "differ from plain decoding" in run.stderr
    assert "hint: run `spec-cli verify`" in run.stderr
    assert "from plain decoding, the first after" in run.stdout.decode()


def test_an_interrupt_prints_and_keeps_what_is_finished(
    spec_cli: SpecCli, models: Models, prompts: Path, tmp_path: Path
) -> None:
    export = tmp_path / "runs.jsonl"
    options = ("--drafter", "ngram", "-k", "1,2,3,4", "-n", "300", "--exact", "off")
    process = spec_cli.start(
        "bench", models.target, "--prompts", prompts, *options,
        "--export", export, "--format", "json",
    )  # fmt: skip
    wait_until(lambda: export.exists() and export.read_text().count("\n") >= 6, process)
    process.send_signal(signal.SIGINT)
    run = finished(process)
    assert (run.exit_code, run.stderr) == (130, "")
    whole = run.json
    assert not whole["complete"] and 0 < whole["groups"]["measured"] < whole["groups"]["planned"]
    assert len(whole["runs"]) == export.read_text().count("\n") == 6 * whole["groups"]["measured"]


@pytest.mark.parametrize("columns", [80, 100])
def test_on_a_terminal_the_tables_fit_and_the_progress_is_gone(
    spec_cli: SpecCli, models: Models, prompts: Path, columns: int
) -> None:
    words = [*spec_cli.program, "bench", str(models.target), "--prompts", str(prompts), "-n", "8"]
    child = pexpect.spawn(
        words[0],
        [*words[1:], "--drafter", "ngram", "-k", "3,auto", "--exact", "off"],
        dimensions=(60, columns),
        env=spec_cli.environ({"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}),
        cwd=str(spec_cli.home),
        timeout=60,
    )
    child.expect(pexpect.EOF)
    child.close()
    emulator = Emulator(columns, 60)
    emulator.feed(child.before)
    rows = emulator.rows
    assert child.exitstatus == 0
    assert rows[0] == "target   target.gguf" and emulator.below_cursor == []
    assert emulator.cursor_is_visible
    assert any(row.split() == ["speed-up", "talk", "code"] for row in rows)
    assert any(row.startswith("ngram k=auto") for row in rows)
    assert not any("…" in row or "left" in row for row in rows)


def test_help_says_how_much_is_done_without_options(call: Call) -> None:
    text = " ".join(call("bench", "--help").stdout.decode().split())
    full, quick = command._FULL, command._QUICK
    assert f"{full.max_tokens} tokens, drafts of 4 tokens and `auto`, two rounds" in text
    assert (full.draft_tokens, full.n_rounds) == ("4,auto", 2)
    assert "42 prompts of 7 kinds" in text
    assert f"-k {quick.draft_tokens}, -n {quick.max_tokens}, one round" in text.replace("│ ", "")
    assert quick.n_rounds == 1
