"""What goes to which stream."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import GREEDY, N_TOKENS, Done, SpecCli
from tests.cli.tiny_models import Models

SUMMARY = re.compile(r"speed  [^\n]+\n(draft  [^\n]+\n)?text   [^\n]+\nrun    [^\n]+\n")


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
        {"COLUMNS": "20", "TERM": "xterm-256color"},
        {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "COLUMNS": "x"},
    ],
    ids=["plain", "narrow", "ascii"],
)
def test_the_environment_changes_neither_text_nor_summary(
    spec_cli: SpecCli, args: tuple[str, ...], text: bytes, env: dict[str, str]
) -> None:
    run = spec_cli(*args, env=env)
    assert run.stdout == text
    assert SUMMARY.fullmatch(run.stderr)
    assert "\x1b" not in run.stderr


@pytest.mark.parametrize(
    ("options", "env"),
    [
        ((), {"FORCE_COLOR": "1"}),
        (("--color", "always"), {"NO_COLOR": "1", "TERM": "dumb"}),
        ((), {"SPEC_CLI_COLOR": "always"}),
    ],
)
def test_colour_that_is_forced_is_in_the_summary_and_not_in_the_text(
    spec_cli: SpecCli,
    args: tuple[str, ...],
    text: bytes,
    options: tuple[str, ...],
    env: dict[str, str],
) -> None:
    run = spec_cli(*args, *options, env=env)
    assert run.stdout == text
    assert run.stderr.startswith("\x1b[2mspeed")


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
