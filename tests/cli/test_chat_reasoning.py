"""A chat with a model that thinks, and what an answer can be made to follow."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Call, SpecCli
from tests.cli.test_chat_piped import lines
from tests.cli.test_run_pty import Terminal, line
from tests.cli.test_run_reasoning import Thinker, thinker  # noqa: F401
from tests.cli.tiny_models import Models

ENOUGH = ("-n", "50")


@pytest.fixture
def args(thinker: Thinker) -> tuple[str, ...]:  # noqa: F811
    return ("chat", "--temp", "0", *ENOUGH, "--no-draft", "-c", "500", "-m", str(thinker.path))


def test_the_answer_is_on_stdout_and_in_the_conversation_and_the_reasoning_on_stderr(
    call: Call,
    args: tuple[str, ...],
    thinker: Thinker,  # noqa: F811
    tmp_path: Path,
) -> None:
    saved = tmp_path / "saved.json"
    run = call(*args, stdin=lines("hello there", f"/save {saved}"))
    alone = call("run", "hello there", *args[1:])
    assert run.exit_code == 0
    assert run.stdout == alone.stdout
    assert run.stderr.startswith(f"{thinker.reasoning}\n\n")
    (_, answer) = json.loads(saved.read_text())["messages"]
    assert f"{answer['content']}\n".encode() == alone.stdout


@pytest.mark.parametrize("how", ["--hide-reasoning", "-q", "/set reasoning off"])
def test_reasoning_can_be_hidden(
    call: Call,
    args: tuple[str, ...],
    thinker: Thinker,  # noqa: F811
    how: str,
) -> None:
    options, turns = ((), (how,)) if how.startswith("/") else ((how,), ())
    run = call(*args, *options, stdin=lines(*turns, "hello there"))
    assert run.exit_code == 0 and thinker.reasoning not in run.stderr
    assert ("tok/s" in run.stderr) == (how != "-q")


def test_on_a_terminal_the_reasoning_stands_dim_above_the_answer(
    spec_cli: SpecCli,
    args: tuple[str, ...],
    thinker: Thinker,  # noqa: F811
) -> None:
    screen = Terminal(spec_cli)(f"echo hello there | {line(spec_cli, *args).removeprefix('exec ')}")
    reasoning, answer = screen.rows[:2]
    assert reasoning == thinker.reasoning and answer.startswith(thinker.answer)
    assert "\x1b[2m" in screen.sent
    screen.assert_in_order()


def test_figures_can_be_off_while_reasoning_is_shown(
    call: Call,
    args: tuple[str, ...],
    thinker: Thinker,  # noqa: F811
) -> None:
    run = call(*args, stdin=lines("/set stats off", "hello there"))
    assert thinker.reasoning in run.stderr and "tok/s" not in run.stderr


def test_thinking_is_switched_by_an_option_a_variable_or_while_the_chat_runs(
    call: Call,
    args: tuple[str, ...],
    thinker: Thinker,  # noqa: F811
) -> None:
    plain = call(*args, "--no-think", "-q", stdin=lines("hello there"))
    thought = call(*args, "-q", stdin=lines("hello there"))
    assert plain.exit_code == 0 and plain.stdout != thought.stdout
    variable = ("--template-var", "enable_thinking=false")
    assert call(*args, *variable, "-q", stdin=lines("hello there")).stdout == plain.stdout
    turns = lines("/set think off", "hello there", "/clear", "/set think template", "hello there")
    assert call(*args, "-q", stdin=turns).stdout == plain.stdout + thought.stdout


def test_a_template_without_a_switch_or_a_variable_is_told_at_once_and_a_setting_refused(
    call: Call, models: Models
) -> None:
    args = ("chat", "--temp", "0", "-n", "4", "-c", "400", "-m", models.target, "-q")
    for option in (("--think",), ("--template-var", "mood=sad")):
        run = call(*args, *option, stdin=lines("hello"))
        assert run.exit_code == 2 and run.stdout == b""
    run = call(*args, stdin=lines("/set think on", "/set think", "hello"))
    run_without = call(*args, stdin=lines("hello"))
    assert run.exit_code == 2 and "no switch for thinking" in run.stderr
    assert "think  template" in run.stderr and run.stdout == run_without.stdout


def test_a_turn_that_was_only_thought_takes_no_place_in_the_conversation(
    call: Call, args: tuple[str, ...], tmp_path: Path
) -> None:
    saved = tmp_path / "saved.json"
    turns = lines("/set max-tokens 3", "hello there", f"/save {saved}")
    run = call(*args, stdin=turns)
    assert "the model did not end its reasoning" in run.stderr
    assert json.loads(saved.read_text())["messages"] == []


def test_a_grammar_holds_for_every_answer_and_reasoning_is_free(
    call: Call,
    args: tuple[str, ...],
    thinker: Thinker,  # noqa: F811
) -> None:
    grammar = ("--grammar", 'root ::= "yes" [0-9]')
    run = call(*args, *grammar, stdin=lines("hello there", "and then?", "/retry"))
    assert run.exit_code == 0
    assert run.stderr.startswith(f"{thinker.reasoning}\n\n")
    answers = run.stdout.decode().splitlines()
    assert answers and all(re.fullmatch("yes[0-9]", answer) for answer in answers)


def test_answers_follow_a_schema_with_and_without_drafts(call: Call, models: Models) -> None:
    schema = '{"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3}'
    args = ("chat", "--temp", "0", "-c", "500", "-q", "--json-schema", schema)
    turns = lines("hello there", "and then?")
    drafted = call(*args, *models.pair, "-k", "4", stdin=turns)
    plain = call(*args, *models.pair, "--no-draft", stdin=turns)
    assert drafted.exit_code == plain.exit_code == 0
    assert drafted.stdout == plain.stdout
    decoder, text, values = json.JSONDecoder(), drafted.stdout.decode(), []
    while text.strip():
        value, end = decoder.raw_decode(text.lstrip())
        values.append(value)
        text = text.lstrip()[end:]
    assert len(values) == 2 and all(isinstance(n, int) for value in values for n in value)


def test_a_system_prompt_comes_from_a_file_and_biases_count(
    call: Call, models: Models, tmp_path: Path
) -> None:
    path = tmp_path / "system.txt"
    path.write_text("be brief\n")
    args = ("chat", "--temp", "0", "-n", "8", "-c", "400", "-m", str(models.target), "-q")
    of_file = call(*args, "--system-file", path, stdin=lines("/system", "hello"))
    given = call(*args, "--system", "be brief", stdin=lines("/system", "hello"))
    assert of_file == given and "be brief" in of_file.stderr
    call(*args, "--system", "x", "--system-file", path).fails(2, "exclude each other")
    bias = ("--logit-bias", f"{ord('Z')}+99")
    assert call(*args, *bias, "--ignore-eos", stdin=lines("hello")).stdout == b"ZZZZZZZZ\n"
