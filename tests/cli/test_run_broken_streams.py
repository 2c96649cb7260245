"""A run whose streams are closed, full, left by their readers, or not to be read."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from spec_cli.errors import ExitCode
from tests.cli.conftest import GREEDY, N_TOKENS, Done, SpecCli, finished
from tests.cli.tiny_models import Models

needs_dev_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")


@pytest.fixture(scope="module")
def args(models: Models) -> tuple[str, ...]:
    return (*GREEDY, "-n", str(N_TOKENS), *models.pair, "-k", "4")


@pytest.fixture(scope="module")
def text(plain: Done) -> bytes:
    """What stdout has to hold."""
    return f"{plain.json['text']}\n".encode()


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


# Told at the end, or before the text, too.
told_when = pytest.mark.parametrize("options", [(), ("--gpu-layers", "1")], ids=["end", "before"])


@told_when
def test_text_is_whole_when_nobody_reads_stderr(
    spec_cli: SpecCli, args: tuple[str, ...], text: bytes, options: tuple[str, ...]
) -> None:
    process = spec_cli.start(*args, *options)
    assert process.stderr is not None
    process.stderr.close()
    process.stderr = None
    stdout, _ = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (141, text)


@told_when
@pytest.mark.parametrize(
    "redirect", ["2>&-", "<&-", "<&- 2>&-", pytest.param("2>/dev/full", marks=needs_dev_full)]
)
def test_text_is_whole_where_another_stream_is_closed_or_full(
    spec_cli: SpecCli,
    args: tuple[str, ...],
    text: bytes,
    redirect: str,
    options: tuple[str, ...],
) -> None:
    run = spec_cli(*args, *options, shell=f'"$@" {redirect}')
    assert run.stdout == text
    assert run.exit_code == (ExitCode.UNEXPECTED if "full" in redirect else ExitCode.OK)


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


def test_a_stdin_that_was_asked_for_and_cannot_be_read_is_an_error(
    spec_cli: SpecCli, args: tuple[str, ...]
) -> None:
    spec_cli(*args, "-f", "-", shell='"$@" 0>/dev/null').fails(2, "error: ")
