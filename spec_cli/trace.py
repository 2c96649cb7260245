"""A record of a run, round by round, from which all its figures follow. See docs/json.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from spec_cli.errors import SpecError, UsageError
from spec_cli.events import Event, Finished, RoundDone
from spec_cli.spec.costs import CostTable
from spec_cli.whole_file import open_private

SCHEMA = "spec-cli/trace/1"

Object = dict[str, object]


class TraceFile:
    """A file that receives one JSON object a line, each at once and whole.

    It can be read by its owner only: it holds the whole prompt. Use as a context manager.
    """

    def __init__(self, path: Path) -> None:
        """Raises UsageError when `path` cannot be a regular file of the user's."""
        if str(path) == "-":
            raise UsageError("--trace needs a file", hint="stdout is for the text")
        self._path = path
        self._file = open_private(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._file.close()

    def write(self, line: Mapping[str, object]) -> None:
        """Append a line. Raises SpecError when it cannot be written."""
        data = json.dumps(line, allow_nan=False).encode() + b"\n"
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            raise SpecError(f"cannot write the trace {self._path}: {error.strerror}") from None


class Trace:
    """Writes the rounds of one run, after what was known before them."""

    def __init__(
        self, file: TraceFile, header: Mapping[str, object], padded: Callable[[int], int]
    ) -> None:
        """`padded` gives the width that a pass of so many rows really has."""
        self._file = file
        self._padded = padded
        file.write({"line": "header", **header})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        return None

    def handle(self, event: Event) -> None:
        """Write a line for a round, and one for the end."""
        match event:
            case RoundDone():
                self._file.write({"line": "round"} | _round(event, self._padded(event.width)))
            case Finished():
                self._file.write({"line": "end"} | _end(event))
            case _:
                pass


def costs_object(costs: CostTable | None) -> Object | None:
    """What the policy knows of this machine: seconds of a pass by its rows, and of a guess."""
    if costs is None:
        return None
    return {
        "widths": costs.target.widths,
        "pass_s": costs.target.seconds,
        "draft_token_s": costs.draft_token_s,
    }


def _round(done: RoundDone, padded_width: int) -> Object:
    detail = done.detail
    assert detail is not None, "the engine tells what a round did"
    draft = detail.draft
    evidence = [(known.source, known.level) for known in draft.evidence]
    return {
        "index": done.index,
        "position": detail.position,
        "draft": draft.tokens,
        "sources": [source for source, _ in evidence],
        "levels": [level for _, level in evidence],
        "checked": done.n_drafted,
        "accepted": done.n_accepted,
        "committed": detail.committed,
        "origins": detail.origins,
        "near_ties": detail.n_near_ties,
        "expected": detail.n_expected,
        "width": done.width,
        "padded_width": padded_width,
        "draft_s": done.draft_s,
        "verify_s": done.verify_s,
        "host_s": done.host_s,
        "plain_step_s": done.plain_step_s,
    }


def _end(finished: Finished) -> Object:
    return {
        "finish_reason": finished.reason,
        "stop": finished.stop,
        "cached": finished.stats.n_cached,
        "prefill_s": finished.stats.prefill_s,
        "ttft_s": finished.stats.ttft_s,
    }
