"""`--json` and `--jsonl`: valid, complete, and with figures that add up."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.conftest import GREEDY, N_TOKENS, Call, Done
from tests.cli.tiny_models import Models

FIXED = ("model", "drafter", "draft_tokens", "seed", "sampling", "tokens", "finish_reason", "usage")


@pytest.fixture(scope="module")
def args(models: Models) -> tuple[str, ...]:
    return (*GREEDY, "-n", str(N_TOKENS), *models.pair, "-k", "3", "--seed", "7")


@pytest.fixture(scope="module")
def whole(call: Call, args: tuple[str, ...]) -> dict[str, Any]:
    return call(*args, "--json").json


@pytest.fixture(scope="module")
def lines(call: Call, args: tuple[str, ...]) -> list[dict[str, Any]]:
    return call(*args, "--jsonl").events


def test_stdout_is_one_line_and_its_text_that_of_a_plain_run(
    call: Call, args: tuple[str, ...], whole: dict[str, Any]
) -> None:
    run = call(*args, "--json")
    assert run.stdout.count(b"\n") == 1 and run.stdout.endswith(b"}\n")
    assert call(*args).stdout.decode() == whole["text"] + "\n"


def test_tokens_are_counted_once_everywhere(whole: dict[str, Any], plain: Done) -> None:
    usage, timings = whole["usage"], whole["timings"]
    assert len(whole["tokens"]) == usage["completion_tokens"] == timings["predicted_n"] == N_TOKENS
    assert usage["prompt_tokens"] == timings["prompt_n"] == plain.json["usage"]["prompt_tokens"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_figures_of_the_drafts_follow_from_each_other(whole: dict[str, Any]) -> None:
    spec, timings = whole["speculative"], whole["timings"]
    n_drafted, n_accepted = spec["num_draft_tokens"], spec["num_accepted_tokens"]
    assert 0 < n_accepted < n_drafted
    assert (timings["draft_n"], timings["draft_n_accepted"]) == (n_drafted, n_accepted)
    assert spec["draft_acceptance_rate"] == pytest.approx(n_accepted / n_drafted)
    assert spec["mean_acceptance_length"] == pytest.approx(N_TOKENS / spec["num_rounds"])
    # Each round commits what was accepted and one token more.
    assert spec["num_rounds"] + n_accepted == N_TOKENS
    assert sum(spec["drafted_per_pos"]) == n_drafted
    assert sum(spec["accepted_per_pos"]) == n_accepted
    assert spec["drafted_per_pos"][0] == spec["num_drafts"] == sum(spec["acceptance_histogram"])
    assert sum(n * times for n, times in enumerate(spec["acceptance_histogram"])) == n_accepted


def test_times_add_up(whole: dict[str, Any]) -> None:
    timings = whole["timings"]
    parts = whole["draft_ms"] + whole["verify_ms"] + whole["host_ms"]
    assert timings["predicted_ms"] == pytest.approx(parts)
    assert timings["predicted_per_second"] == pytest.approx(N_TOKENS / parts * 1000)
    assert min(whole["load_ms"], whole["ttft_ms"], timings["prompt_ms"]) > 0


def test_settings_and_models_are_told(whole: dict[str, Any], models: Models) -> None:
    assert whole["schema"] == "spec-cli/run/1"
    assert whole["model"]["target"]["file"] == models.target.name
    assert whole["model"]["draft"]["file"] == models.draft.name
    assert (whole["drafter"], whole["draft_tokens"], whole["seed"]) == ("chain", 3, 7)
    assert whole["sampling"]["temp"] == 0
    assert whole["finish_reason"] == "length"
    assert whole["drafting_off"] is None


def test_lines_begin_and_end_with_what_the_object_says(
    lines: list[dict[str, Any]], whole: dict[str, Any]
) -> None:
    start, *between, end = lines
    assert (start["event"], end["event"]) == ("start", "end")
    assert {event["event"] for event in between} == {"text", "round"}
    assert start["seed"] == 7
    assert {name: end[name] for name in FIXED} == {name: whole[name] for name in FIXED}
    assert end.keys() - {"event"} == whole.keys() - {"text", "reasoning", "logprobs"}


def test_lines_together_give_the_text_and_its_tokens(
    lines: list[dict[str, Any]], whole: dict[str, Any]
) -> None:
    texts = [event for event in lines if event["event"] == "text"]
    assert "".join(event["text"] for event in texts) == whole["text"]
    assert [token for event in texts for token in event["tokens"]] == whole["tokens"]
    origins = {event["origin"] for event in texts}
    assert {"draft", "correction"} <= origins <= {"draft", "correction", "bonus", "plain"}


def test_lines_of_rounds_sum_up_to_the_counts_at_the_end(lines: list[dict[str, Any]]) -> None:
    rounds = [event for event in lines if event["event"] == "round"]
    spec = lines[-1]["speculative"]
    assert [event["index"] for event in rounds] == list(range(spec["num_rounds"]))
    assert sum(event["drafted"] for event in rounds) == spec["num_draft_tokens"]
    assert sum(event["accepted"] for event in rounds) == spec["num_accepted_tokens"]
    assert sum(event["emitted"] for event in rounds) == N_TOKENS
    assert all(event["width"] == event["drafted"] + 1 for event in rounds)


def test_an_answer_without_tokens_is_whole(call: Call, models: Models) -> None:
    empty = call(*GREEDY, "-n", "0", *models.pair, "-k", "3", "--json").json
    assert (empty["text"], empty["tokens"], empty["finish_reason"]) == ("", [], "length")
    assert empty["speculative"]["draft_acceptance_rate"] is None
    assert empty["ttft_ms"] is None


def test_any_bytes_of_a_model_make_valid_json(call: Call, models: Models) -> None:
    args = ("run", "héllo 世界", "--temp", "2", "--seed", "3", "-n", "200", "-m", models.babble)
    whole = call(*args, "--json").json
    lines = call(*args, "--jsonl").events
    assert "\ufffd" in whole["text"] and not whole["text"].isprintable()
    assert "".join(e["text"] for e in lines if e["event"] == "text") == whole["text"]


def test_a_run_that_fails_gives_no_json(call: Call, models: Models) -> None:
    for form in ("--json", "--jsonl"):
        call("run", "x" * 600, "-m", models.target, "--raw", form).fails(2, "600")


@pytest.mark.parametrize(
    ("options", "drafter"), [(("--no-draft",), "none"), (("--drafter", "ngram"), "ngram")]
)
def test_a_draft_model_that_takes_no_part_is_not_told(
    call: Call, models: Models, options: tuple[str, ...], drafter: str
) -> None:
    run = call(*GREEDY, "-n", "2", *models.pair, *options, "-k", "2", "--json")
    assert (run.json["drafter"], run.json["model"]["draft"]) == (drafter, None)
