"""What goes to which stream, and what happens where one of them is closed, full or left."""

from __future__ import annotations

import json
import os
import re
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.conftest import GREEDY, N_TOKENS, Done, Models, SpecCli, finished

SUMMARY = re.compile(r"speed  [^\n]+\n(draft  [^\n]+\n)?run    [^\n]+\n")

needs_dev_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")


@pytest.fixture(scope="module")
def args(models: Models) -> tuple[str, ...]:
    return (*GREEDY, "-n", str(N_TOKENS), *models.pair, "-k", "4")


@pytest.fixture(scope="module")
def text(plain: Done) -> bytes:
    """What stdout has to hold."""
    return f"{plain.json['text']}\n".encode()


def test_stdout_is_the_text_and_stderr_the_summary(
    spec_cli: SpecCli, args: tuple[str, ...], text: bytes
) -> None:
    run = spec_cli(*args)
    assert run.stdout == text
    assert SUMMARY.fullmatch(run.stderr)
    assert "accepted" in run.stderr
    assert run.exit_code == 0


def test_quiet_leaves_nothing_on_stderr(
    spec_cli: SpecCli, args: tuple[str, ...], text: bytes
) -> None:
    assert spec_cli(*args, "-q") == Done(0, text, "")


def test_a_verbose_run_shows_the_log_of_llama_cpp_on_stderr_only(
    spec_cli: SpecCli, args: tuple[str, ...], text: bytes
) -> None:
    run = spec_cli(*args, "-v")
    assert run.stdout == text
    assert "llama_model_loader: " in run.stderr


def test_both_streams_in_one_pipe_stay_in_order_and_in_lines(
    spec_cli: SpecCli, args: tuple[str, ...], text: bytes
) -> None:
    run = spec_cli(*args, shell='"$@" 2>&1 | cat -v')
    assert run.stdout.startswith(text)
    assert SUMMARY.fullmatch(run.stdout.removeprefix(text).decode())


@pytest.mark.parametrize(
    "env",
    [
        {"NO_COLOR": "1", "TERM": "dumb", "CI": "1"},
        {"FORCE_COLOR": "1", "COLUMNS": "20", "TERM": "xterm-256color"},
        {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "COLUMNS": "x"},
    ],
    ids=["plain", "colour", "ascii"],
)
def test_the_environment_changes_neither_text_nor_summary(
    spec_cli: SpecCli, args: tuple[str, ...], text: bytes, env: dict[str, str]
) -> None:
    run = spec_cli(*args, env=env)
    assert run.stdout == text
    assert SUMMARY.fullmatch(run.stderr)
    assert "\x1b" not in run.stderr


def test_an_empty_environment_is_enough(
    spec_cli: SpecCli, args: tuple[str, ...], text: bytes
) -> None:
    shell = 'exec env -i PYTHONPATH="$PYTHONPATH" XDG_STATE_HOME="$XDG_STATE_HOME" "$@"'
    assert spec_cli(*args, shell=shell).stdout == text


def test_text_is_utf_8_in_any_locale(spec_cli: SpecCli, models: Models) -> None:
    args = ("run", "héllo 世界 🙂", "--temp", "0", "-n", "40", "-m", models.babble)
    told = spec_cli(*args, "--json", env={"LC_ALL": "C.UTF-8"}).json["text"]
    assert not told.isascii()
    run = spec_cli(*args, env={"LC_ALL": "C"})
    assert run.stdout == told.encode() + b"\n"


def test_a_text_that_ends_in_a_line_end_gets_no_second_one(
    spec_cli: SpecCli, models: Models
) -> None:
    wild = ("--temp", "3", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--seed", "5")
    args = ("run", "hi", *wild, "-m", models.target, "--no-draft")
    tokens = spec_cli(*args, "-n", "400", "--json").json["tokens"]
    n = tokens.index(ord("\n")) + 1
    run = spec_cli(*args, "-n", str(n), "--json")
    assert run.json["text"].endswith("\n")
    assert spec_cli(*args, "-n", str(n)).stdout == run.json["text"].encode()


def test_a_reader_that_leaves_ends_the_run_without_a_word(
    spec_cli: SpecCli, models: Models, text: bytes
) -> None:
    process = spec_cli.start(*GREEDY, *models.pair, "-k", "4")
    assert process.stdout is not None
    assert process.stdout.read(20) == text[:20]
    process.stdout.close()
    process.stdout = None
    run = finished(process)
    assert (run.exit_code, run.stderr) == (141, "")


@pytest.mark.parametrize("options", [("--jsonl",), ("--json",), ()])
def test_a_reader_that_never_reads_ends_the_run_without_a_word(
    spec_cli: SpecCli, args: tuple[str, ...], options: tuple[str, ...]
) -> None:
    run = spec_cli(*args, *options, shell='"$@" | true')
    assert (run.stdout, run.stderr) == (b"", "")


def test_text_is_whole_when_nobody_reads_stderr(
    spec_cli: SpecCli, args: tuple[str, ...], text: bytes
) -> None:
    process = spec_cli.start(*args)
    assert process.stderr is not None
    process.stderr.close()
    process.stderr = None
    stdout, _ = process.communicate(timeout=60)
    assert stdout == text


@pytest.mark.parametrize(
    "redirect", ["2>&-", "<&-", "<&- 2>&-", pytest.param("2>/dev/full", marks=needs_dev_full)]
)
def test_text_is_whole_where_another_stream_is_closed_or_full(
    spec_cli: SpecCli, args: tuple[str, ...], text: bytes, redirect: str
) -> None:
    run = spec_cli(*args, shell=f'"$@" {redirect}')
    assert run.stdout == text
    assert run.exit_code == 0 or "full" in redirect


def test_json_is_whole_where_stderr_is_closed(spec_cli: SpecCli, args: tuple[str, ...]) -> None:
    run = spec_cli(*args, "--json", "--gpu-layers", "1", shell='"$@" 2>&-')
    assert len(run.json["tokens"]) == N_TOKENS


def test_an_error_does_not_go_to_stdout_where_stderr_is_closed(spec_cli: SpecCli) -> None:
    run = spec_cli("run", "hi", "-m", "./none.gguf", shell='"$@" 2>&-')
    assert run == Done(3, b"", "")


@needs_dev_full
def test_an_error_keeps_its_exit_code_where_it_cannot_be_written(spec_cli: SpecCli) -> None:
    run = spec_cli("run", "hi", "-m", "./none.gguf", shell='"$@" 2>/dev/full')
    assert run == Done(3, b"", "")


def test_a_closed_stdout_is_no_crash(spec_cli: SpecCli, args: tuple[str, ...]) -> None:
    run = spec_cli(*args, shell='"$@" >&-')
    assert "Traceback" not in run.stderr
    assert "AttributeError" not in run.stderr


@pytest.mark.parametrize("options", [(), ("--json",), ("--jsonl",)])
@needs_dev_full
def test_a_full_disk_is_one_error(
    spec_cli: SpecCli, args: tuple[str, ...], options: tuple[str, ...]
) -> None:
    run = spec_cli(*args, *options, "-q", shell='"$@" >/dev/full')
    assert run.exit_code not in (0, 120)
    assert run.stderr.startswith("error: ")
    assert "No space left on device" in run.stderr
    assert "Traceback" not in run.stderr
    assert "Exception ignored" not in run.stderr
    assert len(run.stderr.splitlines()) <= 2


buffered_or_not = pytest.mark.parametrize(
    "env", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["buffered", "unbuffered"]
)


@buffered_or_not
def test_json_that_was_written_in_part_is_an_error(
    spec_cli: SpecCli, models: Models, tmp_path: Path, env: dict[str, str]
) -> None:
    out = tmp_path / "out.json"
    args = ("run", "hi", "-n", "20", "-m", models.target, "--no-draft", "--json")
    run = spec_cli(*args, shell=f'ulimit -f 1; "$@" > {out}', env=env)
    assert 0 < out.stat().st_size <= 1024
    assert run.exit_code != 0
    assert "File too large" in run.stderr


@buffered_or_not
def test_a_slow_reader_of_a_pipe_that_does_not_block_gets_everything(
    spec_cli: SpecCli, models: Models, env: dict[str, str]
) -> None:
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    args = (*GREEDY, "-n", "480", "-m", models.target, "--no-draft", "--jsonl")
    process = subprocess.Popen(
        [*spec_cli.program, *args],
        stdin=subprocess.DEVNULL,
        stdout=write_end,
        stderr=subprocess.PIPE,
        env=spec_cli.environ(env),
    )
    os.close(write_end)
    with os.fdopen(read_end, "rb") as reader:
        with suppress(subprocess.TimeoutExpired):
            process.wait(3)  # more than the pipe holds has to wait for its reader
        lines = reader.read().splitlines()
    run = finished(process)
    assert run.exit_code == 0, run.stderr
    assert json.loads(lines[-1])["event"] == "end"
    assert len(lines) > 480


@pytest.mark.parametrize("redirect", ["0>/dev/null", "0>>state.txt"])
def test_a_stdin_that_cannot_be_read_is_as_good_as_none(
    spec_cli: SpecCli, args: tuple[str, ...], text: bytes, redirect: str
) -> None:
    # nohup leaves a program such a stdin.
    run = spec_cli(*args, "-q", shell=f'"$@" {redirect}')
    assert run == Done(0, text, "")


def test_state_that_cannot_be_kept_is_no_trouble(
    spec_cli: SpecCli, args: tuple[str, ...], text: bytes
) -> None:
    run = spec_cli(*args[:-2], "-q", env={"XDG_STATE_HOME": "/dev/null/state"})
    assert run == Done(0, text, "")


def test_state_that_is_damaged_is_measured_anew(
    spec_cli: SpecCli, models: Models, text: bytes, tmp_path: Path
) -> None:
    args = (*GREEDY, "-n", str(N_TOKENS), "-m", models.target, "-q")
    env = {"XDG_STATE_HOME": str(tmp_path)}
    spec_cli(*args, env=env)
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert kept
    for path in kept:
        path.write_bytes(b"\xff{")
    assert spec_cli(*args, env=env) == Done(0, text, "")


def test_control_characters_of_the_model_are_kept_in_a_pipe(
    spec_cli: SpecCli, models: Models
) -> None:
    args = ("run", "hi", "--temp", "2", "--seed", "3", "-n", "200", "-m", models.babble)
    told = spec_cli(*args, "--json").json["text"]
    assert any(c < " " for c in told)
    assert spec_cli(*args).stdout == told.encode() + b"\n"


def test_a_request_for_a_gpu_that_is_not_there_warns_once(
    spec_cli: SpecCli, args: tuple[str, ...], text: bytes
) -> None:
    run = spec_cli(*args, "-q", "--gpu-layers", "99")
    assert run.stdout == text
    assert run.stderr.count("warning: ") == 1
    assert "GPU" in run.stderr
