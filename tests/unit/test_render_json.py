"""JSON output: its fields are those of docs/json.md, its figures follow from its counts."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spec_cli.events import (
    DraftingOff,
    Event,
    Finished,
    FinishReason,
    Notice,
    Origin,
    PromptText,
    ReasoningDelta,
    RoundDone,
    ScoredToken,
    TextDelta,
    TokenLogprob,
    TokensScored,
)
from spec_cli.render.info import RunInfo
from spec_cli.render.json import JsonLines, JsonObject
from spec_cli.render.stdout import Stdout
from spec_cli.spec.stats import RunStats
from tests.cli.scripted_run import INFO, TEXT, scripted_events

DOCS = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
FREE_FORM = ("sampling", "system.versions")  # objects whose keys are not ours to list
SUB_OBJECTS = ("start", "end")  # described in words: parts of the object


def written(
    renderer_type: type[JsonObject | JsonLines], events: Sequence[Event], info: RunInfo = INFO
) -> str:
    raw = io.BytesIO()
    with renderer_type(Stdout(io.TextIOWrapper(raw, encoding="ascii")), info) as renderer:
        for event in events:
            renderer.handle(event)
    return raw.getvalue().decode()


def run_object(events: Sequence[Event], info: RunInfo = INFO) -> Any:
    return json.loads(written(JsonObject, events, info))


def run_lines(events: Sequence[Event], info: RunInfo = INFO) -> list[Any]:
    return [json.loads(line) for line in written(JsonLines, events, info).splitlines()]


def paths(value: object, prefix: str = "") -> set[str]:
    """Dotted paths of all leaves."""
    if not isinstance(value, dict) or prefix in FREE_FORM:
        return {prefix}
    found = (paths(item, f"{prefix}.{key}".lstrip(".")) for key, item in value.items())
    return set().union(*found)


def documented(heading: str) -> set[str]:
    section = re.split(r"^##+ ", DOCS.split(f"# {heading}\n", 1)[1], flags=re.M)[0]
    return set(re.findall(r"^\| `([\w.]+)` \|", section, flags=re.M))


THOUGHT = ReasoningDelta("Hm.", (), Origin.PLAIN)
A, END = TokenLogprob(97, "a", b"a", -0.5), TokenLogprob(2, "<end>", None, -1.5)
SCORES = TokensScored((ScoredToken(A, (A, END)), ScoredToken(END, ())))
EVENTS = [SCORES, THOUGHT, *scripted_events(TEXT, drafting_off_after=30)]


def test_every_field_of_the_object_is_documented_and_every_documented_field_is_there() -> None:
    emitted = {
        re.sub(r"^model\.draft\..*", "model.draft", path) for path in paths(run_object(EVENTS))
    }
    assert emitted == documented("The object")


def test_every_field_of_a_line_is_documented_and_every_documented_field_is_there() -> None:
    lines = run_lines(EVENTS)
    names = {line["event"] for line in lines}
    assert names == set(re.findall(r"^### `(\w+)`$", DOCS, flags=re.M))
    for name in names - set(SUB_OBJECTS):
        emitted = {path for line in lines if line["event"] == name for path in paths(line)}
        assert emitted - {"event"} == documented(f"`{name}`"), name


def test_the_end_line_is_the_object_without_its_text() -> None:
    *_, end = run_lines(EVENTS)
    whole = run_object(EVENTS)
    texts = {"text": TEXT, "reasoning": "Hm.", "logprobs": None}
    assert {**end, **texts} == {**whole, "event": "end"}


def test_scores_are_in_the_object_and_in_lines_where_they_are_asked_for() -> None:
    a: dict[str, object] = {"token": "a", "id": 97, "logprob": -0.5, "bytes": [97]}
    end: dict[str, object] = {"token": "<end>", "id": 2, "logprob": -1.5, "bytes": None}
    content = [a | {"top_logprobs": [a, end]}, end | {"top_logprobs": []}]
    info = replace(INFO, has_logprobs=True)
    assert run_object([*EVENTS[:1], *EVENTS], info)["logprobs"] == {"content": 2 * content}
    assert run_object(EVENTS[1:], info)["logprobs"] == {"content": []}
    assert run_lines(EVENTS, info)[1] == {"event": "logprobs", "content": content}


def test_the_start_line_is_the_part_of_the_object_known_before() -> None:
    start, *_, end = run_lines(EVENTS)
    assert all(end[key] == value for key, value in start.items() if key != "event")
    assert set(start) >= {"schema", "model", "seed", "sampling", "system"}


def test_text_lines_add_up_to_the_object() -> None:
    lines = [line for line in run_lines(EVENTS) if line["event"] == "text"]
    whole = run_object(EVENTS)
    assert "".join(line["text"] for line in lines) == whole["text"] == TEXT
    assert [token for line in lines for token in line["tokens"]] == whole["tokens"]


def test_reasoning_is_apart_from_the_text() -> None:
    thoughts = [ReasoningDelta(text, (), Origin.PLAIN) for text in ("a", "b")]
    end = Finished(FinishReason.STOP, (), RunStats())
    events = [PromptText("p"), *thoughts, TextDelta("c", (), Origin.GIVEN), end]
    whole = run_object(events, replace(INFO, prompt="p", prefill="c"))
    assert (whole["reasoning"], whole["text"]) == ("ab", "c")
    assert (whole["prompt"], whole["prefill"]) == ("p", "c")
    lines = run_lines(events)
    assert [(line["event"], line["text"]) for line in lines if "text" in line] == [
        ("reasoning", "a"),
        ("reasoning", "b"),
        ("text", "c"),
    ]


def test_the_figures_follow_from_the_counts() -> None:
    whole = run_object(EVENTS)
    spec, timings = whole["speculative"], whole["timings"]
    rounds = [line for line in run_lines(EVENTS) if line["event"] == "round"]
    assert spec["num_rounds"] == len(rounds)
    assert spec["num_drafts"] == sum(line["drafted"] > 0 for line in rounds)
    assert spec["num_draft_tokens"] == sum(line["drafted"] for line in rounds)
    assert spec["num_accepted_tokens"] == sum(line["accepted"] for line in rounds)
    assert spec["draft_acceptance_rate"] == spec["num_accepted_tokens"] / spec["num_draft_tokens"]
    assert spec["mean_acceptance_length"] == timings["predicted_n"] / spec["num_rounds"]
    assert sum(spec["drafted_per_pos"]) == spec["num_draft_tokens"] == timings["draft_n"]
    assert sum(spec["accepted_per_pos"]) == spec["num_accepted_tokens"]
    assert len(spec["accepted_per_pos"]) == len(spec["drafted_per_pos"])
    assert sum(spec["acceptance_histogram"]) == spec["num_drafts"]
    assert timings["predicted_n"] == len(whole["tokens"]) == whole["usage"]["completion_tokens"]
    assert timings["predicted_ms"] == pytest.approx(
        whole["draft_ms"] + whole["verify_ms"] + whole["host_ms"]
    )


def test_accepted_per_position_has_a_zero_where_nothing_was_accepted() -> None:
    stats = RunStats(drafted_at=[2, 2, 1], accepted_at=[1])
    whole = run_object([Finished(FinishReason.STOP, (), stats)])
    assert whole["speculative"]["accepted_per_pos"] == [1, 0, 0]


def test_a_run_without_a_token_has_nulls_and_no_nan() -> None:
    stats = RunStats()
    whole = run_object([Finished(FinishReason.INTERRUPTED, (), stats)], replace(INFO, draft=None))
    assert whole["finish_reason"] == "interrupted"
    assert (whole["text"], whole["reasoning"]) == ("", None)
    assert whole["model"]["draft"] is None
    assert whole["speedup"] is None
    assert whole["ttft_ms"] is None
    assert whole["speculative"]["draft_acceptance_rate"] is None
    assert whole["timings"]["predicted_per_token_ms"] is None


def test_without_an_end_there_is_no_object() -> None:
    assert written(JsonObject, EVENTS[:-1]) == ""


def test_each_line_is_out_before_the_next_event() -> None:
    raw = io.BytesIO()
    with JsonLines(Stdout(io.TextIOWrapper(raw)), INFO) as renderer:
        events: list[Event] = [TextDelta("a", (1,), Origin.PLAIN), Notice("b")]
        for n, event in enumerate(events, start=2):
            renderer.handle(event)
            assert raw.getvalue().count(b"\n") == n
            assert raw.getvalue().endswith(b"\n")


def test_text_is_utf8_and_untouched_by_the_locale() -> None:
    text = "界\x1b[1m\u2028\n"
    whole = run_object(
        [TextDelta(text, (1,), Origin.PLAIN), Finished(FinishReason.STOP, (1,), RunStats())]
    )
    assert whole["text"] == text


def test_the_reason_given_last_is_the_reason() -> None:
    ends: list[Event] = [DraftingOff("too slow"), Finished(FinishReason.STOP, (), RunStats())]
    info = replace(INFO, drafting_off="from the start")
    assert run_object(ends, info)["drafting_off"] == "too slow"
    assert run_object(ends[1:], info)["drafting_off"] == "from the start"
    assert run_lines(ends, info)[-1]["drafting_off"] == "too slow"


def test_a_round_is_in_milliseconds() -> None:
    line = run_lines([RoundDone(3, 5, 4, 2, 3, 0.5, 0.25, 0.125)])[1]
    assert (line["draft_ms"], line["verify_ms"], line["host_ms"]) == (500, 250, 125)
    assert (line["index"], line["width"], line["drafted"], line["accepted"]) == (3, 5, 4, 2)
    assert line["emitted"] == 3
