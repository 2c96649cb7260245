"""What a batch tells: its rows, which are those of docs/json.md, and its progress on stderr."""

from __future__ import annotations

import io
import re
from pathlib import Path

from spec_cli.batch.answer import Answer
from spec_cli.batch.request import Failure, Request
from spec_cli.batch.results import dump
from spec_cli.batch.tally import Tally
from spec_cli.errors import UsageError
from spec_cli.events import DraftingOff, Finished, FinishReason, Notice, PromptProgress
from spec_cli.render.batch import BatchProgress
from spec_cli.render.batch_rows import row_of
from spec_cli.settings import GenerationSettings
from spec_cli.spec.stats import RoundCount, RunStats
from spec_cli.terminal import Terminal

DOCS = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")


def answer() -> Answer:
    stats = RunStats(n_prompt=5)
    stats.add_round(RoundCount(2, 1, 2), draft_s=0.0, verify_s=1.0, host_s=0.0)
    request = Request(4, "key", "a", "hi", (), None, GenerationSettings(seed=9), False)
    return Answer(request, "text", "thought", Finished(FinishReason.LENGTH, (1, 2), stats))


def failure() -> Failure:
    return Failure(5, "other", None, UsageError("bad", hint="mend it"))


def documented() -> set[str]:
    section = DOCS.partition("\n## The lines of `run --input`\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `([\w.]+)` \|", section, flags=re.MULTILINE))


def test_every_field_of_a_row_is_documented_and_every_documented_field_is_there() -> None:
    found = set(row_of(answer()))
    for name, value in row_of(failure()).items():
        found |= {f"error.{inner}" for inner in value} if name == "error" else {name}
    assert found == documented()


def test_a_row_begins_with_its_schema_and_tells_the_answer() -> None:
    row = row_of(answer())
    assert dump(row).startswith('{"schema": "spec-cli/batch/1", "index": 4, "id": "a"')
    assert (row["text"], row["finish_reason"], row["seed"], row["key"]) == (
        *("text", "length"),
        *(9, "key"),
    )
    assert row["usage"] == {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}


def test_a_failure_has_its_error_and_no_answer() -> None:
    row = row_of(failure())
    assert row["error"] == {"message": "bad", "hint": "mend it", "code": 2}
    assert row.keys() == {"schema", "index", "id", "error", "key"}


def told(tally: Tally, *events: Notice | DraftingOff | PromptProgress, quiet: bool = False) -> str:
    """All of stderr, where the clock advances by a second at every look."""
    stderr = io.StringIO()
    terminal = Terminal(
        io.StringIO(),
        io.StringIO(),
        stderr,
        stdin_is_tty=False,
        stdout_is_tty=False,
        stderr_is_tty=False,
        color=False,
        animate=False,
    )
    ticks = iter(range(100))
    progress = BatchProgress(
        terminal,
        tally,
        n_lines=None,
        quiet=quiet,
        animate=False,
        clock=lambda: float(next(ticks)),
    )
    with progress:
        for event in events:
            progress.handle(event)
    progress.exactness = "bit-exact"
    progress.summarise()
    return stderr.getvalue()


def test_the_summary_has_counts_speed_and_acceptance() -> None:
    tally = Tally(n_found=2, n_answered=3, n_failed=1)
    tally.add_round(RoundCount(4, 3, 4))
    lines = told(tally, PromptProgress(0, 5)).splitlines()
    assert lines[0] == "lines  3 answered, 2 found in the output, 1 failed"
    assert re.fullmatch(r"speed  [\d.]+ tok/s; 4 tokens in [\d.]+ s, prompts included", lines[1])
    assert lines[2:] == ["draft  3/4 accepted (75 %), 4.0 tok/pass", "text   bit-exact"]


def test_why_nothing_was_drafted_is_told() -> None:
    assert "draft  off: too dear\n" in told(Tally(n_answered=1), DraftingOff("too dear"))


def test_a_notice_is_told_once_whatever_its_numbers() -> None:
    notices = [Notice(f"{n} times as long", "look", "warning") for n in (2, 3)]
    text = told(Tally(), *notices, Notice("another"))
    assert text.startswith("warning: 2 times as long\nhint: look\nnote: another\n")


def test_quiet_tells_warnings_alone() -> None:
    notices = (Notice("w", level="warning"), Notice("n"))
    assert told(Tally(n_answered=1), *notices, quiet=True) == "warning: w\n"


def test_a_tally_counts_answers_and_failures() -> None:
    tally = Tally(n_found=1)
    tally.add(answer())
    tally.add(failure())
    assert (tally.n_answered, tally.n_failed, tally.n_done) == (1, 1, 3)
    assert tally.acceptance_rate is None and tally.acceptance_length is None
