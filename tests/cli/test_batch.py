"""`run --input`: a result for each line, the same that a run of its own gives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Any

import pytest

from tests.cli.conftest import Call, Done, SpecCli
from tests.cli.test_run_signals import ended, read_line
from tests.cli.tiny_models import Models

LINES = (
    "hello there",
    {"prompt": "the quick brown fox " * 8, "id": "fox", "temp": 0},
    {"prompt": "hello there", "seed": 5, "max_tokens": 7, "id": 12},
    {"prompt": "a", "system": "be brief", "top_k": 3, "stop": ["e"]},
    {"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "yes"}]},
)


def encoded(lines: Sequence[object]) -> bytes:
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


@pytest.fixture(scope="module")
def args(models: Models) -> tuple[str, ...]:
    return ("run", "--seed", "3", "-n", "24", *models.pair, "-k", "3")


@pytest.fixture(scope="module")
def results(call: Call, args: tuple[str, ...]) -> list[dict[str, Any]]:
    run = call(*args, "--input", "-", stdin=encoded(LINES))
    assert run.exit_code == 0, run.stderr
    return run.events


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(encoded(LINES))
    return path


def test_results_come_in_the_order_of_the_lines(results: list[dict[str, Any]]) -> None:
    assert [row["index"] for row in results] == [0, 1, 2, 3, 4]
    assert [row["id"] for row in results] == [None, "fox", 12, None, None]
    assert {row["schema"] for row in results} == {"spec-cli/batch/1"}
    assert [row["seed"] for row in results] == [3, 3, 5, 3, 3]


@pytest.mark.parametrize(
    ("index", "own"),
    [
        (0, ("hello there",)),
        (1, ("the quick brown fox " * 8, "--temp", "0")),
        (2, ("hello there", "--seed", "5", "-n", "7")),
        (3, ("a", "--system", "be brief", "--top-k", "3", "--stop", "e")),
    ],
)
def test_a_result_is_that_of_a_run_of_its_own(
    call: Call, args: tuple[str, ...], results: list[dict[str, Any]], index: int, own: Sequence[str]
) -> None:
    alone = call(*args, *own, "--json").json
    row = results[index]
    for name in ("text", "finish_reason", "stop", "usage", "seed"):
        assert row[name] == alone[name], name
    assert row["timings"].keys() == alone["timings"].keys()
    assert row["speculative"].keys() == alone["speculative"].keys()


def test_messages_are_a_conversation(
    call: Call, args: tuple[str, ...], models: Models, results: list[dict[str, Any]]
) -> None:
    turns = ("user\nhello", "assistant\nyes")
    raw = "".join(f"<|im_start|>{turn}<|im_end|>\n" for turn in turns) + "<|im_start|>assistant\n"
    alone = call(*args, "--raw", raw, "--json").json
    assert (results[4]["text"], results[4]["usage"]) == (alone["text"], alone["usage"])


def test_a_system_prompt_of_the_run_is_for_lines_without_one(
    call: Call, args: tuple[str, ...]
) -> None:
    system = {"role": "system", "content": "x"}
    lines = ["a", {"prompt": "a", "system": "x"}, {"messages": [system, user("a")]}]
    run = call(*args, "--system", "be brief", "--input", "-", stdin=encoded(lines))
    alone = [call(*args, "--system", text, "a", "--json").json for text in ("be brief", "x")]
    assert [row["text"] for row in run.events] == [alone[i]["text"] for i in (0, 1, 1)]


def user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def test_a_line_that_fails_has_its_error_in_its_place_and_ends_nothing(
    call: Call, args: tuple[str, ...], results: list[dict[str, Any]]
) -> None:
    bad = b'{"prompt": "x" \n{"id": "n", "prompt": ""}\n{"prompt": "%b"}\n' % (b"x" * 600)
    stdin = encoded(LINES[:1]) + bad + encoded(LINES[1:2])
    run = call(*args, "--input", "-", stdin=stdin)
    first, *failed, last = run.events
    assert run.exit_code == 7
    assert "error: 3 of 5 lines have no answer\n" in run.stderr
    assert (first["text"], last["text"]) == (results[0]["text"], results[1]["text"])
    assert [row["index"] for row in failed] == [1, 2, 3]
    assert [row["id"] for row in failed] == [None, "n", None]
    errors = [row["error"] for row in failed]
    assert "not JSON" in errors[0]["message"] and "jq" in errors[0]["hint"]
    assert errors[1] == {"message": "`prompt` is blank", "hint": None, "code": 2}
    assert "but the context holds 512" in errors[2]["message"]
    assert all("text" not in row for row in failed)


def test_a_large_context_left_by_another_line_gives_no_line_more_room(
    call: Call, models: Models
) -> None:
    lines = ["b" * 300, {"prompt": "a", "max_tokens": None}]
    args = ("run", "--temp", "0", "-c", "400", "-m", models.target)
    run = call(*args, "--input", "-", stdin=encoded(lines))
    alone = call(*args, "a", "--json").json
    assert run.events[1]["usage"] == alone["usage"]
    assert run.events[1]["text"] == alone["text"]


def test_the_file_gets_what_stdout_would_and_stdout_nothing(
    call: Call, args: tuple[str, ...], lines: Path, tmp_path: Path, results: list[dict[str, Any]]
) -> None:
    path = tmp_path / "out.jsonl"
    run = call(*args, "--input", lines, "--output", path)
    assert (run.exit_code, run.stdout) == (0, b"")
    assert "lines  5 answered\n" in run.stderr
    assert [steady(row) for row in rows_of(path)] == [steady(row) for row in results]


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def steady(row: dict[str, Any]) -> dict[str, Any]:
    """What does not depend on the clock."""
    return {name: row[name] for name in row if name not in ("timings", "speculative")}


def test_a_finished_batch_is_not_run_again(
    call: Call, args: tuple[str, ...], lines: Path, tmp_path: Path
) -> None:
    path = tmp_path / "out.jsonl"
    call(*args, "--input", lines, "--output", path)
    before = path.read_bytes()
    again = call(*args, "--input", lines, "--output", path)
    assert (again.exit_code, path.read_bytes()) == (0, before)
    assert again.stderr == "lines  0 answered, 5 found in the output\n"


def test_a_batch_goes_on_behind_the_last_whole_line(
    call: Call, args: tuple[str, ...], lines: Path, tmp_path: Path
) -> None:
    path = tmp_path / "out.jsonl"
    call(*args, "--input", lines, "--output", path)
    whole = rows_of(path)
    cut = path.read_bytes()[: -len(json.dumps(whole[4])) - len(json.dumps(whole[3])) // 2]
    path.write_bytes(cut)
    again = call(*args, "--input", lines, "--output", path)
    assert again.exit_code == 0
    assert "lines  2 answered, 3 found in the output\n" in again.stderr
    assert [steady(row) for row in rows_of(path)] == [steady(row) for row in whole]
    assert path.read_bytes().startswith(cut[: cut.rindex(b"\n") + 1])


def test_a_seed_that_was_drawn_is_kept_when_the_batch_goes_on(
    call: Call, models: Models, lines: Path, tmp_path: Path
) -> None:
    path = tmp_path / "out.jsonl"
    args = ("run", "-n", "3", *models.pair, "--input", lines, "--output", path)
    call(*args)
    seeds = [row["seed"] for row in rows_of(path)]
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    call(*args)
    assert [row["seed"] for row in rows_of(path)] == seeds


@pytest.mark.parametrize("other", [("--temp", "0.1"), ("--seed", "4"), ("--system", "x"), ("-k1",)])
def test_results_of_other_settings_are_not_taken_for_these(
    call: Call, args: tuple[str, ...], lines: Path, tmp_path: Path, other: Sequence[str]
) -> None:
    path = tmp_path / "out.jsonl"
    call(*args, "--input", lines, "--output", path)
    before = path.read_bytes()
    run = call(*args, *other, "--input", lines, "--output", path)
    if other == ("-k1",):  # who drafts, and how much, changes no text
        assert run.exit_code == 0
    else:
        run.fails(2, "result 0 in the output is that of another line, or of other settings")
    assert path.read_bytes() == before


def test_failures_that_were_found_count_at_the_end(
    call: Call, args: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "out.jsonl"
    for told in ("lines  1 answered, 1 failed\n", "1 found in the output, 1 failed\n"):
        run = call(*args, "--input", "-", "--output", path, stdin=b'"a"\nbad\n')
        run.fails(7, told, "error: 1 of 2 lines have no answer")
    assert len(rows_of(path)) == 2


def test_no_lines_are_no_results(call: Call, args: tuple[str, ...]) -> None:
    assert call(*args, "--input", "-", stdin=b"\n\n") == Done(0, b"", "lines  0 answered\n")


def test_quiet_leaves_nothing_but_the_results(call: Call, args: tuple[str, ...]) -> None:
    run = call(*args, "-q", "--input", "-", stdin=b'"a"')
    assert (run.exit_code, run.stderr, len(run.events)) == (0, "", 1)


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        (("hi",), "--input and PROMPT exclude each other"),
        (("--json",), "--input and --json exclude each other"),
        (("-f", "x"), "--input and --file exclude each other"),
    ],
)
def test_options_for_one_prompt_have_no_place(
    call: Call, args: tuple[str, ...], options: Sequence[str], fragment: str
) -> None:
    call(*args, "--input", "-", *options).fails(2, fragment)


def test_several_at_a_time_are_for_many_prompts(call: Call) -> None:
    call("run", "hi", "--parallel", "2").fails(2, "`--parallel` is for many prompts", "--input")


def test_an_input_that_cannot_be_read_is_told(
    call: Call, args: tuple[str, ...], tmp_path: Path
) -> None:
    call(*args, "--input", tmp_path / "none").fails(2, "cannot read", "No such file")
    call(*args, "--input", tmp_path).fails(2, "cannot read", "Is a directory")


def test_an_input_is_not_taken_for_the_output(
    call: Call, args: tuple[str, ...], lines: Path
) -> None:
    call(*args, "--input", lines, "--output", lines).fails(2, "line 1 is not the result of a run")
    assert lines.read_bytes() == encoded(LINES)


def endless(spec_cli: SpecCli, models: Models, *options: str) -> subprocess.Popen[bytes]:
    """A batch whose third line takes minutes."""
    args = ("run", "--temp", "0", "-c", "60000", "-n", "2", *models.pair, "-k", "2")
    return spec_cli.start(*args, "--input", "-", *options, stdin=subprocess.PIPE)


def feed(process: subprocess.Popen[bytes], *lines: object) -> None:
    assert process.stdin is not None
    process.stdin.write(encoded(lines))
    process.stdin.flush()


ENDLESS = {"prompt": "c", "max_tokens": 50_000}


@pytest.mark.parametrize(("number", "exit_code"), [(SIGINT, 130), (SIGTERM, 143)])
def test_a_signal_keeps_the_lines_that_are_finished(
    spec_cli: SpecCli, models: Models, number: signal.Signals, exit_code: int
) -> None:
    process = endless(spec_cli, models)
    feed(process, "a", "b", ENDLESS)
    rows = [json.loads(read_line(process)) for _ in range(2)]
    process.send_signal(number)
    run = ended(process)
    assert (run.exit_code, run.stdout) == (exit_code, b"")
    assert [row["index"] for row in rows] == [0, 1]
    assert "lines  2 answered\n" in run.stderr
    assert "error" not in run.stderr and "Traceback" not in run.stderr


def test_a_line_is_answered_before_the_next_one_comes(spec_cli: SpecCli, models: Models) -> None:
    process = endless(spec_cli, models)
    for index, line in enumerate(["a", "b"]):
        feed(process, line)
        assert json.loads(read_line(process))["index"] == index
    process.send_signal(SIGINT)  # while it waits
    run = ended(process)
    assert (run.exit_code, run.stdout) == (130, b"")


def test_a_killed_batch_leaves_whole_lines_and_goes_on(
    spec_cli: SpecCli, call: Call, models: Models, tmp_path: Path
) -> None:
    path = tmp_path / "out.jsonl"
    process = endless(spec_cli, models, "--output", str(path))
    feed(process, "a", "b", ENDLESS)
    while not path.exists() or path.read_bytes().count(b"\n") < 2:
        assert process.poll() is None
        os.sched_yield()
    process.kill()
    process.communicate()
    assert [row["index"] for row in rows_of(path)] == [0, 1]
    args = ("run", "--temp", "0", "-c", "60000", "-n", "2", *models.pair, "-k", "2")
    again = call(*args, "--input", "-", "--output", path, stdin=encoded(["a", "b", "d"]))
    assert again.exit_code == 0
    assert [row["index"] for row in rows_of(path)] == [0, 1, 2]


def test_a_reader_that_leaves_ends_the_batch_without_a_word(
    spec_cli: SpecCli, models: Models
) -> None:
    process = endless(spec_cli, models)
    feed(process, "a", "b")
    read_line(process)
    assert process.stdout is not None
    process.stdout.close()
    feed(process, "c", "d")
    process.stdout = None
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 141
    assert b"Traceback" not in stderr and b"error" not in stderr


@pytest.fixture(scope="module")
def exact(spec_cli: SpecCli, models: Models) -> tuple[str, ...]:
    return ("run", "--seed", "3", "-n", "24", *models.pair, "--exact", "on", "--input", "-")


@pytest.mark.parametrize("n", ["2", "4"])
def test_lines_answered_together_are_those_answered_one_by_one(
    spec_cli: SpecCli, exact: tuple[str, ...], n: str
) -> None:
    stdin = encoded([*LINES, {"prompt": ""}, *LINES[::-1]])
    alone = spec_cli(*exact, stdin=stdin)
    together = spec_cli(*exact, "--parallel", n, stdin=stdin)
    assert "one by one" not in together.stderr
    assert (alone.exit_code, together.exit_code) == (7, 7)
    assert [steady(row) for row in together.events] == [steady(row) for row in alone.events]
    assert len(together.events) == 11


def test_a_line_alone_is_answered_though_others_could_join_it(
    spec_cli: SpecCli, exact: tuple[str, ...]
) -> None:
    process = spec_cli.start(*exact, "--parallel", "3", stdin=subprocess.PIPE)
    for index, line in enumerate(["a", "b"]):
        feed(process, line)
        assert json.loads(read_line(process))["index"] == index
    process.send_signal(SIGINT)
    assert ended(process).exit_code == 130


def test_a_signal_ends_lines_answered_together(spec_cli: SpecCli, models: Models) -> None:
    process = endless(spec_cli, models, "--parallel", "2", "--exact", "off")
    feed(process, "a", ENDLESS, "b")
    assert json.loads(read_line(process))["index"] == 0
    process.send_signal(SIGINT)
    run = ended(process)
    assert (run.exit_code, run.stdout) == (130, b"")
    assert "Traceback" not in run.stderr


def test_a_batch_can_go_on_with_more_lines_at_a_time(
    spec_cli: SpecCli, exact: tuple[str, ...], lines: Path, tmp_path: Path
) -> None:
    path = tmp_path / "out.jsonl"
    args = (*exact[:-1], lines, "--output", path)
    spec_cli(*args)
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:2]))
    again = spec_cli(*args, "--parallel", "2")
    assert (again.exit_code, again.stdout) == (0, b"")
    assert [steady(row) for row in rows_of(path)] == [steady(json.loads(line)) for line in whole]


@pytest.mark.parametrize("n", ["0", "17"])
def test_a_number_of_lines_that_no_pass_holds_is_refused(call: Call, n: str) -> None:
    call("run", "--input", "-", "--parallel", n).fails(2, "--parallel is", "from 1 to 16")


@pytest.mark.parametrize("n", ["1", "2"])
def test_a_grammar_holds_for_every_line(
    spec_cli: SpecCli, exact: tuple[str, ...], models: Models, n: str
) -> None:
    grammar = 'root ::= "yes" [a-f]* "." | "no" [g-z]* "."'
    options = ("--grammar", grammar, "--temp", "2")
    prompts = ["a", "bb", "hello"]
    run = spec_cli(*exact, *options, "--parallel", n, stdin=encoded(prompts))
    assert [row["text"][:2] in ("ye", "no") for row in run.events] == [True] * 3
    args = (*exact[:-2], *options, "--json")
    alone = [spec_cli(*args, prompt).json["text"] for prompt in prompts]
    assert [row["text"] for row in run.events] == alone


@pytest.mark.parametrize("n", ["1", "2"])
def test_a_line_that_its_grammar_leaves_no_way_out_does_not_end_the_others(
    spec_cli: SpecCli, exact: tuple[str, ...], n: str
) -> None:
    # Half of them begin with what leads to a character that the model cannot write.
    options = ("--grammar", 'root ::= [a-m] "." | [n-z] "\u00e9"', "--temp", "2")
    lines = [{"prompt": "a", "seed": seed} for seed in range(8)]
    run = spec_cli(*exact, *options, "--parallel", n, stdin=encoded(lines))
    assert run.exit_code == 7
    assert [row["index"] for row in run.events] == list(range(8))
    failed = [row for row in run.events if "error" in row]
    assert 0 < len(failed) < 8
    assert all("allows no token of this model" in row["error"]["message"] for row in failed)
