"""Where the prompt comes from and what becomes of it: told by its tokens and its answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.cli.tiny_models import Models

BOM = b"\xef\xbb\xbf"


@pytest.fixture(scope="module")
def options(models: Models) -> tuple[str, ...]:
    return ("--temp", "0", "-n", "6", "-m", str(models.target), "--no-draft", "-q")


@pytest.fixture(scope="module")
def answer(call: Call, options: tuple[str, ...]) -> bytes:
    """The answer to `material`, a blank line, and `question`."""
    return call("run", "material\n\nquestion", *options).stdout


def n_prompt(call: Call, *args: str, stdin: bytes = b"") -> int:
    n = call("run", *args, "--json", stdin=stdin).json["usage"]["prompt_tokens"]
    assert isinstance(n, int)
    return n


def test_prompts_differ_in_their_answers(
    call: Call, options: tuple[str, ...], answer: bytes
) -> None:
    assert call("run", "question\n\nmaterial", *options).stdout != answer


@pytest.mark.parametrize(
    "material", [b"material", b"material\n", b"material\r\n", BOM + b"material"]
)
def test_stdin_goes_before_the_argument(
    call: Call, options: tuple[str, ...], answer: bytes, material: bytes
) -> None:
    assert call("run", *options, "question", stdin=material).stdout == answer


def test_a_file_goes_before_the_argument_and_stdin_is_left_alone(
    call: Call, options: tuple[str, ...], answer: bytes, tmp_path: Path
) -> None:
    file = tmp_path / "material.txt"
    file.write_bytes(BOM + b"material\n")
    run = call("run", "question", *options, "-f", str(file), stdin=b"something else")
    assert run.stdout == answer


@pytest.mark.parametrize("args", [("-f", "-"), ()], ids=["dash", "none"])
def test_stdin_alone_is_the_whole_prompt(
    call: Call, options: tuple[str, ...], answer: bytes, args: tuple[str, ...]
) -> None:
    run = call("run", *args, *options, stdin=b"material\n\nquestion\n")
    assert run.stdout == answer


def test_words_after_two_dashes_are_the_prompt_whatever_they_begin_with(
    call: Call, options: tuple[str, ...]
) -> None:
    run = call("run", *options, "--", "-5 + 3?")
    assert run.exit_code == 0
    assert run.stdout == call("run", *options, stdin=b"-5 + 3?").stdout


def test_raw_text_is_continued_as_it_is(call: Call, options: tuple[str, ...]) -> None:
    assert n_prompt(call, "--raw", "x y\n", *options) == 4
    assert n_prompt(call, "--raw", "<|im_start|>", *options) == 1
    assert n_prompt(call, "--raw", *options, stdin=b"ab\n") == 3


def test_a_model_without_a_template_needs_raw(call: Call, models: Models) -> None:
    run = call("run", "hi", "-m", models.base, "-n", "2")
    run.fails(2, "no chat template", "`--raw`")
    assert call("run", "hi", "-m", models.base, "-n", "2", "--raw").exit_code == 0


def test_control_tokens_that_a_user_writes_stay_text(call: Call, options: tuple[str, ...]) -> None:
    digits = n_prompt(call, "0123456789", *options)
    assert n_prompt(call, "<|im_end|>", *options) == digits
    assert n_prompt(call, *options, stdin=b"<|im_end|>") == digits
    system = n_prompt(call, "hi", "-s", "0123456789", *options)
    assert n_prompt(call, "hi", "-s", "<|im_end|>", *options) == system


def test_control_tokens_in_a_template_of_the_user_are_control_tokens(
    call: Call, options: tuple[str, ...]
) -> None:
    template = "<|im_start|>{{ messages[0].content }}<|im_end|>"
    assert n_prompt(call, "01234", "--chat-template", template, *options) == 7
    assert n_prompt(call, "<|im_end|>", "--chat-template", template, *options) == 12


def test_a_system_prompt_is_part_of_the_prompt(
    call: Call, options: tuple[str, ...], answer: bytes
) -> None:
    run = call("run", "material\n\nquestion", *options, "-s", "Be brief")
    assert run.stdout != answer


def test_characters_of_several_bytes_and_nul_are_kept(call: Call, options: tuple[str, ...]) -> None:
    assert n_prompt(call, "--raw", "é世🙂", *options) == 2 + 3 + 4
    assert n_prompt(call, "--raw", *options, stdin=b"a\0b") == 3


def test_a_long_prompt_is_evaluated_in_batches(
    call: Call, options: tuple[str, ...], tmp_path: Path
) -> None:
    args = ("run", *options, "x" * 400)
    whole = call(*args)
    assert whole.exit_code == 0
    assert call(*args, "--batch-size", "32").stdout == whole.stdout
