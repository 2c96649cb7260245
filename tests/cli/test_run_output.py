"""Where the text of a run goes, and what goes before it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import GREEDY, N_TOKENS, Call, Done, SpecCli, wait_until
from tests.cli.tiny_models import Models

RENDERED = "<|im_start|>user\nhello there<|im_end|>\n<|im_start|>assistant\n"


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture(scope="module")
def args(models: Models) -> tuple[str, ...]:
    return (*GREEDY, "-n", str(N_TOKENS), *models.pair, "-k", "3", "-q")


@pytest.fixture(scope="module")
def text(plain: Done) -> str:
    return str(plain.json["text"])


@pytest.mark.parametrize("flag", ["-o", "--output"])
def test_a_file_gets_what_stdout_would_have_got(
    call: Call, args: tuple[str, ...], text: str, tmp_path: Path, flag: str
) -> None:
    path = tmp_path / "out.txt"
    assert call(*args, flag, path) == Done(0, b"", "")
    assert path.read_text() == text + "\n"
    assert names_in(tmp_path) == ["out.txt"]


def test_a_dash_is_stdout(call: Call, args: tuple[str, ...], text: str) -> None:
    assert call(*args, "-o", "-").stdout.decode() == text + "\n"


def test_json_goes_to_the_file(
    call: Call, args: tuple[str, ...], text: str, tmp_path: Path
) -> None:
    path = tmp_path / "out.json"
    assert call(*args, "--json", "-o", path).stdout == b""
    assert json.loads(path.read_text())["text"] == text


def test_the_input_may_be_the_output(
    call: Call, args: tuple[str, ...], text: str, tmp_path: Path
) -> None:
    path = tmp_path / "hello.txt"
    path.write_text("hello there\n")
    call("run", "-f", path, "-o", path, *args[2:])
    assert path.read_text() == text + "\n"


@pytest.mark.parametrize("other", ["--trace", "--prompt-cache"])
def test_two_records_of_a_run_cannot_be_one_file(
    call: Call, args: tuple[str, ...], tmp_path: Path, other: str
) -> None:
    place = tmp_path / "record"
    run = call(*args, "-o", place, other, place)
    run.fails(2, f"--output and {other} name the same file, {place}")
    assert not place.exists()
    (tmp_path / "link").symlink_to(place)
    for same in (tmp_path / "x" / ".." / "record", tmp_path / "link"):
        call(*args, "-o", same, other, place).fails(2, "name the same file")


def test_an_output_that_cannot_be_leaves_an_older_trace_alone(
    call: Call, args: tuple[str, ...], tmp_path: Path
) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text("older")
    call(*args, "--trace", trace, "-o", tmp_path).fails(2, "cannot write")
    assert trace.read_text() == "older"


def test_a_run_that_fails_leaves_the_file_as_it_was(
    call: Call, models: Models, tmp_path: Path
) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    call("run", "x" * 600, "-m", models.target, "--raw", "-o", path).fails(2, "600")
    assert path.read_text() == "old"
    assert names_in(tmp_path) == ["out.txt"]


@pytest.mark.parametrize("name", [".", "no/such/file", os.devnull])
def test_a_file_that_cannot_be_is_told_before_anything_is_loaded(
    call: Call, tmp_path: Path, models: Models, name: str
) -> None:
    bad = models.directory / "not-a-model.gguf"
    bad.write_bytes(b"no")
    for option in ("-o", "--trace"):
        run = call("run", "hi", "-m", bad, option, tmp_path / name)
        run.fails(2, "cannot write")
    assert names_in(tmp_path) == []


def test_a_file_that_takes_no_more_is_named_and_nothing_is_left(
    spec_cli: SpecCli, models: Models, tmp_path: Path
) -> None:
    path = tmp_path / "answer.json"
    args = (*GREEDY, "-n", "20", "-m", models.target, "--json", "-q", "-o", path)
    run = spec_cli(*args, shell='ulimit -f 1; "$@"')
    assert (run.exit_code, run.stderr) == (1, f"error: cannot write {path}: File too large\n")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_run_leaves_its_text_in_the_file(
    spec_cli: SpecCli, models: Models, text: str, tmp_path: Path
) -> None:
    path, trace = tmp_path / "out.txt", tmp_path / "trace.jsonl"
    endless = (*GREEDY, "-c", "60000", "-k", "2", *models.pair)
    process = spec_cli.start(*endless, "-o", path, "--trace", trace)
    wait_until(lambda: trace.exists() and trace.read_bytes().count(b'"round"') >= 20, process)
    assert not path.exists()
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 130
    assert path.read_text().startswith(text[:20])
    assert b"; interrupted\n" in stderr
    assert json.loads(trace.read_text().splitlines()[-1])["finish_reason"] == "interrupted"


def test_the_answer_begins_with_the_prefill(call: Call, args: tuple[str, ...], text: str) -> None:
    given = text[:7]
    whole = call(*args, "--prefill", given, "-n", str(N_TOKENS - 7), "--json").json
    assert whole["text"] == text
    assert whole["prefill"] == given
    assert whole["usage"]["completion_tokens"] == N_TOKENS - 7
    n_prompt = call(*args, "--json").json["usage"]["prompt_tokens"]
    assert whole["usage"]["prompt_tokens"] == n_prompt + 7
    assert call(*args, "--prefill", given, "-n", "0").stdout.decode() == given + "\n"


def test_a_control_token_in_a_prefill_is_text(call: Call, args: tuple[str, ...]) -> None:
    spelled = "a<|im_end|>b"
    n_prompt = call(*args, "--json").json["usage"]["prompt_tokens"]
    whole = call(*args, "--prefill", spelled, "--json").json
    assert whole["text"].startswith(spelled)
    assert whole["usage"]["prompt_tokens"] == n_prompt + len(spelled)


def test_a_stop_string_in_the_prefill_stops_nothing(
    call: Call, args: tuple[str, ...], text: str
) -> None:
    given = text[:6]
    run = call(*args, "--prefill", given, "--stop", given, "-n", "8", "--json").json
    assert len(run["text"]) > 6


def test_echo_shows_the_prompt_as_the_model_got_it(
    call: Call, args: tuple[str, ...], text: str
) -> None:
    assert call(*args, "--echo").stdout.decode() == RENDERED + text + "\n"
    run = call(*args, "--echo", "--prefill", text[:4], "-n", "2")
    assert run.stdout.decode() == RENDERED + text[:6] + "\n"


def test_echo_of_a_raw_prompt_is_the_prompt_gone_on_with(call: Call, models: Models) -> None:
    args = ("run", "--raw", "hello there", "--temp", "0", "-n", "9", "-m", models.target, "-q")
    assert call(*args, "--echo").stdout == b"hello there" + call(*args).stdout


def test_json_has_the_prompt_where_it_was_asked_for(
    call: Call, args: tuple[str, ...], text: str
) -> None:
    whole = call(*args, "--echo", "--json").json
    assert (whole["prompt"], whole["text"]) == (RENDERED, text)
    assert call(*args, "--json").json["prompt"] is None


def test_a_system_prompt_may_come_from_a_file(
    call: Call, args: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "system.txt"
    path.write_bytes(b"\xef\xbb\xbfBe brief.\n")
    expected = call(*args, "--system", "Be brief.", "--echo").stdout
    assert b"Be brief.<|im_end|>" in expected
    assert call(*args, "--system-file", path, "--echo").stdout == expected


def test_a_system_prompt_that_cannot_be_read_is_told(
    call: Call, models: Models, tmp_path: Path
) -> None:
    path = tmp_path / "system.txt"
    args = ("run", "hi", "-m", models.target, "--system-file", path)
    call(*args).fails(2, "cannot read the system prompt", "No such file")
    path.write_bytes(b"\xff")
    call(*args).fails(2, "not valid UTF-8")
    call(*args, "--system", "x").fails(2, "--system and --system-file exclude each other")


@pytest.mark.parametrize(
    "option",
    [("--prefill", "x"), ("--template-var", "a=1"), ("--no-think",), ("--system", "x")],
    ids=lambda option: option[0],
)
def test_a_raw_prompt_takes_nothing_that_is_the_templates(
    call: Call, models: Models, option: tuple[str, ...]
) -> None:
    run = call("run", "--raw", "hi", "-m", models.target, *option)
    run.fails(2, f"`{option[0]}` has no place")


def test_a_variable_that_the_template_does_not_read_is_refused(call: Call, models: Models) -> None:
    run = call("run", "hi", "-m", models.target, "--template-var", "messags=1")
    run.fails(2, "does not read the variable `messags`", "did you mean `messages`?")
