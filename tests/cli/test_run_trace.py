"""`--trace`: every figure of a run follows from it."""

from __future__ import annotations

import json
import re
import signal
import stat
from collections.abc import Iterable
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import pytest

from spec_cli.spec.stats import MIN_PLAIN_STEPS
from spec_cli.trace import TraceFile
from tests.cli.conftest import GREEDY, N_TOKENS, Call, SpecCli, wait_until
from tests.cli.tiny_models import Models

DOCS = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")

Lines = list[dict[str, Any]]


def lines_of(path: Path) -> Lines:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(
    scope="module",
    params=[("-k", "3"), (), ("--no-draft",), ("--accept", "rejection", "-k", "4")],
    ids=["fixed", "auto", "plain", "rejection"],
)
def traced(
    request: pytest.FixtureRequest, call: Call, models: Models, tmp_path_factory: Any
) -> tuple[Lines, dict[str, Any]]:
    """The lines of a trace, and the object of the same run."""
    path = tmp_path_factory.mktemp("trace") / "trace.jsonl"
    sampled = ("--temp", "0.7", "--seed", "3") if "rejection" in request.param else ("--temp", "0")
    args = ("run", "hello there, hello there", "-n", str(N_TOKENS), *models.pair)
    run = call(*args, *sampled, *request.param, "--json", "--trace", path)
    return lines_of(path), run.json


def test_all_figures_of_the_run_follow_from_its_trace(
    traced: tuple[Lines, dict[str, Any]],
) -> None:
    (header, *rounds, end), whole = traced
    drafts = [r for r in rounds if r["checked"]]
    n_drafted, n_accepted = sum(r["checked"] for r in rounds), sum(r["accepted"] for r in rounds)
    tokens = [token for r in rounds for token in r["committed"]]
    draft_s, verify_s, host_s = (
        added(r[name] for r in rounds) for name in ("draft_s", "verify_s", "host_s")
    )
    decode_s = draft_s + verify_s + host_s
    deepest = max((r["checked"] for r in rounds), default=0)
    most = max((r["accepted"] for r in drafts), default=-1)
    n_prompt = len(header["prompt_tokens"])
    n_read = n_prompt - end["cached"]

    assert whole["tokens"] == tokens
    assert (whole["finish_reason"], whole["stop"]) == (end["finish_reason"], end["stop"])
    assert whole["usage"] == {
        "prompt_tokens": n_prompt,
        "completion_tokens": len(tokens),
        "total_tokens": n_prompt + len(tokens),
    }
    assert whole["speculative"] == {
        "num_rounds": len(rounds),
        "num_drafts": len(drafts),
        "num_draft_tokens": n_drafted,
        "num_accepted_tokens": n_accepted,
        "draft_acceptance_rate": n_accepted / n_drafted if n_drafted else None,
        "mean_acceptance_length": len(tokens) / len(rounds),
        "drafted_per_pos": [sum(r["checked"] > i for r in drafts) for i in range(deepest)],
        "accepted_per_pos": [sum(r["accepted"] > i for r in drafts) for i in range(deepest)],
        "acceptance_histogram": [sum(r["accepted"] == n for r in drafts) for n in range(most + 1)],
    }
    assert whole["timings"] == {
        "cache_n": end["cached"],
        "prompt_n": n_read,
        "prompt_ms": 1000 * end["prefill_s"],
        "prompt_per_token_ms": 1000 * (1 / (n_read / end["prefill_s"])),
        "prompt_per_second": n_read / end["prefill_s"],
        "predicted_n": len(tokens),
        "predicted_ms": 1000 * decode_s,
        "predicted_per_token_ms": 1000 * (1 / (len(tokens) / decode_s)),
        "predicted_per_second": len(tokens) / decode_s,
        "draft_n": n_drafted,
        "draft_n_accepted": n_accepted,
    }
    assert whole["ttft_ms"] == 1000 * end["ttft_s"]
    assert (whole["draft_ms"], whole["verify_ms"], whole["host_ms"]) == (
        1000 * draft_s,
        1000 * verify_s,
        1000 * host_s,
    )
    assert whole["speedup"] == speedup(rounds, len(tokens), decode_s)
    counts_ties = whole["accept"] in ("greedy", "coupled") and whole["exactness"]["mode"] == "fast"
    n_ties = sum(r["near_ties"] for r in rounds) if counts_ties else None
    assert whole["exactness"] == header["exactness"] | {"near_ties": n_ties}
    same = ("model", "drafter", "draft_tokens", "accept", "seed", "sampling", "system", "load_ms")
    assert all(whole[name] == header[name] for name in same)


def added(seconds: Iterable[float]) -> float:
    """One by one: `sum` may round less."""
    return reduce(add, seconds, 0.0)


def speedup(rounds: Lines, n_tokens: int, decode_s: float) -> Any:
    """By the definition: n tokens of plain steps over the time of the rounds."""
    plain = [r["verify_s"] + r["host_s"] for r in rounds if not r["checked"]]
    measured = len(plain) >= MIN_PLAIN_STEPS
    step_s = added(plain) / len(plain) if measured else rounds[-1]["plain_step_s"]
    if step_s is None:
        return None
    basis = "measured" if measured else "estimated"
    return {"ratio": n_tokens * step_s / decode_s, "basis": basis}


def test_a_round_says_what_was_drafted_why_and_what_came_of_it(
    traced: tuple[Lines, dict[str, Any]],
) -> None:
    (header, *rounds, _), _ = traced
    position = len(header["prompt_tokens"])
    for index, r in enumerate(rounds):
        assert (r["index"], r["position"]) == (index, position)
        n, kept = r["checked"], r["accepted"]
        assert r["width"] == n + 1 <= r["padded_width"]
        assert len(r["draft"]) == len(r["sources"]) == len(r["levels"]) >= n
        assert r["committed"][:kept] == r["draft"][:kept]
        assert r["origins"][:kept] == ["draft"] * kept
        last = "plain" if not n else "bonus" if kept == n else "correction"
        assert r["origins"][kept:] in ([last], [])
        assert len(r["origins"]) == len(r["committed"])
        assert set(r["sources"]) <= {"model", "copy"}
        position += len(r["committed"])


def test_what_the_policy_expects_is_told_where_it_expects_something(
    traced: tuple[Lines, dict[str, Any]],
) -> None:
    (header, *rounds, _), _ = traced
    expected = [r["expected"] for r in rounds if r["expected"] is not None]
    if header["draft_tokens"] != "auto":
        assert expected == []
    assert all(1 <= r["expected"] <= r["width"] for r in rounds if r["expected"] is not None)


def documented(heading: str) -> set[str]:
    section = re.split(r"^##+ ", DOCS.split(f"# {heading}\n", 1)[1], flags=re.M)[0]
    return set(re.findall(r"^\| `([\w.]+)` \|", section, flags=re.M))


def test_every_field_of_a_trace_is_documented_and_every_documented_field_is_there(
    traced: tuple[Lines, dict[str, Any]],
) -> None:
    (header, *rounds, end), whole = traced
    of_start = whole.keys() - {"schema", "exactness"}
    assert header.keys() - of_start - {"line"} == documented("The `header` line")
    assert header["schema"] == "spec-cli/trace/1"
    for line in rounds:
        assert line.keys() - {"line"} == documented("The `round` line")
    assert end.keys() - {"line"} == documented("The `end` line")


def test_a_trace_is_its_owners_alone(call: Call, models: Models, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    args = (*GREEDY, "-n", "3", "-m", models.target, "--trace")
    call(*args, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (tmp_path / "link").symlink_to(path)
    call(*args, tmp_path / "link").fails(2, "cannot write", "it is a link")
    call(*args, "-").fails(2, "--trace needs a file")


def test_what_two_runs_write_to_one_trace_stays_in_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with TraceFile(path) as one:
        one.write({"of": 1})
        with TraceFile(path) as other:
            one.write({"of": 1})
            other.write({"of": 2})
            one.write({"of": 1})
    assert lines_of(path) == [{"of": 1}, {"of": 2}, {"of": 1}]


def test_the_text_is_the_same_with_a_trace(call: Call, models: Models, tmp_path: Path) -> None:
    args = (*GREEDY, "-n", str(N_TOKENS), *models.pair, "-k", "3", "-q")
    assert call(*args, "--trace", tmp_path / "t") == call(*args)


def test_a_killed_run_leaves_whole_lines(spec_cli: SpecCli, models: Models, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    process = spec_cli.start(*GREEDY, "-c", "60000", *models.pair, "-k", "2", "--trace", path)
    wait_until(lambda: path.exists() and path.read_bytes().count(b'"round"') >= 20, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    header, *rounds = lines_of(path)
    assert header["line"] == "header"
    assert [r["index"] for r in rounds] == list(range(len(rounds)))
    assert path.read_bytes().endswith(b"\n")
