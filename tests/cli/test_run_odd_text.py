"""Text nobody expects, terminals nobody has: what comes out is the model's text all the same."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import GREEDY, N_TOKENS, Call, Done, SpecCli
from tests.cli.tiny_models import Models

RAW = ("run", "--raw", "--temp", "0", "-n", "4", "--json", "--no-draft")
ODD = {
    "nul": "a\x00b",
    "controls": "".join(map(chr, range(1, 32))),
    "escape": "\x1b[31mred\x1b]0;title\x07",
    "crlf": "one\r\ntwo\r\n",
    "combining": "e" + "\u0301" * 500,
    "right to left": "\u202eabc\u202c",
    "astral": "🦙👩‍👩‍👧‍👦" * 50,
    "noncharacters": "\ufffe\uffff\U0010ffff",
    "markup": "[bold]x[/bold] [/] :smile: {{ x }} {% y %} %s %n",
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_odd_characters_are_text_like_any_other(call: Call, models: Models, text: str) -> None:
    from_stdin = call(*RAW, "-m", models.target, "-c", "4000", stdin=text.encode())
    assert from_stdin.exit_code == 0, from_stdin.stderr
    n_bytes = len(text.encode())
    assert from_stdin.json["usage"]["prompt_tokens"] == n_bytes  # every byte is a token here
    if "\0" not in text:
        from_argument = call(*RAW, "-m", models.target, "-c", "4000", "--", text)
        assert from_argument.json["tokens"] == from_stdin.json["tokens"]


def test_control_characters_of_the_model_reach_a_pipe_untouched(call: Call, models: Models) -> None:
    args = ("run", "hi", "--temp", "1.5", "--seed", "3", "-n", "300", "-m", models.babble, "-q")
    text = call(*args, "--json", "--no-draft").json["text"]
    assert any(ord(c) < 32 and c not in "\n\t" for c in text)
    assert call(*args, "--no-draft").stdout == text.encode() + b"\n" * (not text.endswith("\n"))


ENVIRONMENTS = {
    "C": {"LC_ALL": "C"},
    "C without UTF-8": {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    "ascii": {"PYTHONIOENCODING": "ascii:strict"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "no columns": {"COLUMNS": "0", "LINES": "0"},
    "negative columns": {"COLUMNS": "-5"},
    "20 columns": {"COLUMNS": "20"},
    "no terminal": {"TERM": ""},
    "unknown terminal": {"TERM": "no-such-terminal"},
    "forced colour": {"FORCE_COLOR": "1"},
}


@pytest.mark.parametrize("env", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_the_environment_does_not_change_a_byte_of_stdout(
    spec_cli: SpecCli, models: Models, env: dict[str, str]
) -> None:
    args = ("run", "--temp", "0", "-n", "40", "-m", models.babble, "--no-draft")
    usual, run = (spec_cli(*args, stdin="é世🦙".encode(), env=e) for e in ({}, env))
    assert run.exit_code == 0, run.stderr
    assert run.stdout == usual.stdout
    assert "Traceback" not in run.stderr
    assert ("\x1b" in run.stderr) == ("FORCE_COLOR" in env)


@pytest.mark.parametrize("env", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_lists_and_help_are_printed_in_any_environment(
    spec_cli: SpecCli, env: dict[str, str]
) -> None:
    for command in (("models",), ("--help",), ("run", "--help"), ("models", "--json")):
        run = spec_cli(*command, env=env)
        assert run.exit_code == 0, run.stderr
        assert run.stdout


def test_a_path_that_is_not_utf_8_is_printed_as_it_is(
    spec_cli: SpecCli, models: Models, tmp_path: Path
) -> None:
    path = tmp_path / os.fsdecode(b"mod\xe8le.gguf")
    path.write_bytes(models.target.read_bytes())
    run = spec_cli("pull", path)
    assert (run.exit_code, run.stdout) == (0, os.fsencode(path) + b"\n")


@pytest.mark.parametrize("piece", ["a", "xy", "0", "=", "é", "世", " ", "\n", "ab1-"])
def test_a_megabyte_in_one_line_is_refused_for_its_length(
    call: Call, models: Models, piece: str
) -> None:
    text = (piece * (1 << 20))[: 1 << 20]
    run = call(*RAW, "-m", models.target, stdin=b"x" + text.encode())
    run.fails(2, "the prompt has ", " tokens, but the context holds 512")


@pytest.mark.parametrize("n_more", [-1, 0, 1])
def test_a_context_of_about_the_prompts_length(
    call: Call, models: Models, plain: Done, n_more: int
) -> None:
    n_prompt = plain.json["usage"]["prompt_tokens"]
    n_ctx = n_prompt + n_more
    run = call(*GREEDY, "-n", str(N_TOKENS), *models.pair, "-k", "4", "--json", "-c", str(n_ctx))
    if n_more < 0:
        run.fails(2, f"has {n_prompt} tokens", f"holds {n_ctx}")
        return
    # The last token needs no cell: nothing comes after it.
    assert run.json["tokens"] == plain.json["tokens"][: n_more + 1]
    assert run.json["finish_reason"] == "length"


@pytest.mark.parametrize(
    "options",
    [
        ("-k", "63"),
        ("-k", "63", "-b", "64"),
        ("-k", "63", "-c", "80"),
        ("-k", "auto", "-b", "1"),
        ("-k", "1", "-b", "2"),
        ("--repeat-last-n", "2147483647"),
        ("--top-k", "1"),
        ("--top-k", "2147483647"),
        ("--min-p", "1"),
        ("--top-p", "1e-300"),
        ("--seed", str(2**64 - 1)),
    ],
    ids=" ".join,
)
def test_the_ends_of_each_range_leave_greedy_text_as_it_is(
    call: Call, models: Models, plain: Done, options: tuple[str, ...]
) -> None:
    run = call(*GREEDY, "-n", str(N_TOKENS), *models.pair, *options, "--json")
    assert run.exit_code == 0, run.stderr
    tokens = run.json["tokens"]
    assert len(tokens) >= 20 and tokens == plain.json["tokens"][: len(tokens)]


@pytest.mark.parametrize("temp", ["1e-300", "0.0001"])
def test_a_tiny_temperature_is_greedy(call: Call, models: Models, plain: Done, temp: str) -> None:
    run = call("run", "hello there", "--temp", temp, "-n", str(N_TOKENS), *models.pair, "--json")
    assert run.json["tokens"] == plain.json["tokens"]


def test_an_absurd_temperature_draws_from_what_the_filters_leave(
    call: Call, models: Models
) -> None:
    args = ("run", "hi", "--temp", "1e300", "--seed", "1", "-n", "50", "--json")
    run = call(*args, *models.pair, "-k", "4")
    assert run.exit_code == 0, run.stderr
    assert run.json["tokens"] == call(*args, "-m", models.target, "--no-draft").json["tokens"]
    assert len(set(run.json["tokens"])) > 5


def test_no_tokens_are_asked_for_and_none_come(call: Call, models: Models) -> None:
    run = call("run", "hi", "-n", "0", *models.pair, "--json")
    assert (run.exit_code, run.json["tokens"], run.json["text"]) == (0, [], "")
    assert call("run", "hi", "-n", "0", *models.pair, "-q") == Done(0, b"", "")
    assert json.loads(call("run", "hi", "-n", "0", *models.pair, "--json").stdout)
