"""What a model thinks before it answers: on stderr or in JSON, never in the pipe."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import GREEDY, N_TOKENS, Call, Done, SpecCli
from tests.cli.emulator import printed
from tests.cli.test_run_pty import Terminal, line
from tests.cli.tiny_models import Models

PROMPT = "<|im_start|>user\nhello there<|im_end|>\n<|im_start|>assistant\n<think>\n"
GIVEN = "Hm. </think>So"
ARGS = (*GREEDY, "-n", str(N_TOKENS), "--no-draft")


@dataclass(frozen=True)
class Thinker:
    """A model that thinks, and what it says."""

    path: Path
    tokens: list[int]
    reasoning: str
    answer: str

    @property
    def args(self) -> tuple[str, ...]:
        return (*ARGS, "-m", str(self.path))


@pytest.fixture(scope="module")
def thinker(call: Call, models: Models) -> Thinker:
    plain = call(
        *("run", "--raw", PROMPT, "--temp", "0", "-n", str(N_TOKENS)),
        *("-m", models.target, "--no-draft", "--json"),
    ).json
    text: str = plain["text"]
    used = PROMPT + GIVEN + "\n "
    end = next(c for i, c in enumerate(text) if i > 5 and c not in used + text[:i])
    reasoning, _, answer = text.partition(end)
    answer = answer.replace(end, "</think>").lstrip()
    assert reasoning.strip() and answer
    return Thinker(models.thinking(end), plain["tokens"], reasoning.strip(), answer)


def test_the_pipe_gets_the_answer_and_stderr_the_reasoning(call: Call, thinker: Thinker) -> None:
    run = call(*thinker.args)
    assert run.stdout.decode() == thinker.answer + "\n"
    assert run.stderr.startswith(f"{thinker.reasoning}\n\n")
    assert "\x1b" not in run.stderr


@pytest.mark.parametrize("option", ["--hide-reasoning", "-q", "--json"])
def test_reasoning_can_be_left_out_of_stderr(call: Call, thinker: Thinker, option: str) -> None:
    run = call(*thinker.args, option)
    assert thinker.reasoning not in run.stderr


def test_json_has_the_reasoning_beside_the_text(call: Call, thinker: Thinker) -> None:
    whole = call(*thinker.args, "--json").json
    assert (whole["reasoning"], whole["text"]) == (thinker.reasoning, thinker.answer)
    assert whole["tokens"] == thinker.tokens


@pytest.mark.parametrize("k", ["1", "5"])
def test_lines_of_json_tell_reasoning_and_text_apart_whoever_drafts(
    call: Call, models: Models, thinker: Thinker, k: str
) -> None:
    drafting = ("--drafter", "ngram", "-k", k)
    lines = call(*GREEDY, "-n", str(N_TOKENS), "-m", thinker.path, *drafting, "--jsonl").events

    def text(event: str) -> str:
        return "".join(line["text"] for line in lines if line["event"] == event)

    assert (text("reasoning"), text("text")) == (thinker.reasoning, thinker.answer)
    tokens = [t for line in lines if line["event"] in ("reasoning", "text") for t in line["tokens"]]
    assert tokens == thinker.tokens


def test_a_stop_string_is_looked_for_in_the_answer_only(call: Call, thinker: Thinker) -> None:
    early, late = thinker.reasoning[2:4], thinker.answer[3:6]
    run = call(*thinker.args, "--stop", late, "--json").json
    assert run["reasoning"] == thinker.reasoning
    assert run["text"] == thinker.answer.partition(late)[0]
    run = call(*thinker.args, "--stop", early, "--json").json
    assert run["reasoning"] == thinker.reasoning


def test_an_answer_that_does_not_begin_is_told_in_a_notice(call: Call, thinker: Thinker) -> None:
    run = call(*thinker.args, "-n", "4")
    assert run.exit_code == 0
    assert run.stdout == b""
    assert "warning: the model did not end its reasoning: there is no answer\n" in run.stderr


def test_the_template_decides_whether_to_think_and_the_switch_decides_over_it(
    call: Call, thinker: Thinker
) -> None:
    think = call(*thinker.args, "--think", "--json").json
    assert think["tokens"] == thinker.tokens
    for option in (("--no-think",), ("--template-var", "enable_thinking=false")):
        run = call(*thinker.args, *option, "--json").json
        assert run["reasoning"] is None
        assert run["tokens"] != thinker.tokens
        assert run["usage"]["prompt_tokens"] > think["usage"]["prompt_tokens"]


def test_a_template_without_a_switch_refuses_it(call: Call, models: Models) -> None:
    run = call(*ARGS, "-m", models.target, "--no-think")
    run.fails(2, "no switch for thinking", "`--template-var")
    call("run", "hi", "--raw", "--think").fails(2, "`--think` has no place")


def test_models_that_do_not_think_are_not_touched(call: Call, models: Models, plain: Done) -> None:
    args = (*ARGS, "-m", models.target)
    run = call(*args, "--hide-reasoning", "--json").json
    assert (run["text"], run["tokens"]) == (plain.json["text"], plain.json["tokens"])
    assert run["reasoning"] is None
    assert call(*args).stdout.decode() == plain.json["text"] + "\n"


def test_a_raw_prompt_is_not_looked_at_for_reasoning(call: Call, thinker: Thinker) -> None:
    run = call("run", "--raw", PROMPT, *thinker.args[2:], "--json").json
    assert run["reasoning"] is None
    assert thinker.reasoning in run["text"] and "</think>" in run["text"]


def test_a_prefill_may_go_on_with_the_reasoning_or_end_it(call: Call, thinker: Thinker) -> None:
    whole: dict[str, Any] = call(*thinker.args, "--prefill", GIVEN, "--json").json
    assert whole["reasoning"] == "Hm."
    assert whole["text"].startswith("So")
    whole = call(*thinker.args, "-n", "3", "--prefill", "Hm.", "--json").json
    assert whole["reasoning"].startswith("Hm.") and whole["text"] == ""


def test_both_streams_in_one_pipe_show_the_reasoning_first(
    spec_cli: SpecCli, thinker: Thinker
) -> None:
    run = spec_cli(*thinker.args, shell='"$@" 2>&1')
    assert run.stdout.decode().startswith(f"{thinker.reasoning}\n\n{thinker.answer}\n")


def test_on_a_terminal_the_reasoning_stands_above_the_answer(
    spec_cli: SpecCli, thinker: Thinker
) -> None:
    screen = Terminal(spec_cli)(line(spec_cli, *thinker.args))
    shown = printed(f"{thinker.reasoning}\n\n{thinker.answer}", 80, 24)
    assert screen.rows == [row for row in shown if row]
    screen.assert_in_order()


def test_a_redirected_answer_leaves_the_reasoning_on_the_terminal(
    spec_cli: SpecCli, thinker: Thinker, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    screen = Terminal(spec_cli)(f"{line(spec_cli, *thinker.args)} > {out}")
    assert out.read_text() == thinker.answer + "\n"
    assert screen.rows == [row for row in printed(thinker.reasoning, 80, 24) if row]
    assert "\x1b[2m" in screen.sent
    screen.assert_in_order()
