"""Runs as flat rows: each carries the whole configuration, so that rows of any day can be joined.

Names of times end in `_s`; `draft_tokens` is a number or `auto`. Documented in docs/json.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from spec_cli.bench.limits import Limits
from spec_cli.bench.matrix import Arm
from spec_cli.bench.measure import Measure, Run
from spec_cli.settings import DrafterKind
from spec_cli.spec.settings import Accept

SCHEMA = "spec-cli/bench-row/1"

Row = dict[str, Any]
Setup = Mapping[str, Any]
"""What all runs of a measurement have in common: column names and values that JSON has."""

_MEASURES = tuple(field.name for field in fields(Measure))
_OF_CELL = ("prompt", "kind", "prompt_sha256", "temp", "round", "attempt", "turn")
_OF_GROUP = ("load", "plain_token_s", "noise")
_DERIVED = ("decode_s", "tokens_per_s", "acceptance_rate", "acceptance_length", "speedup")
_LIMITS = ("oracle_stop", "free_draft")
_OF_ARM = ("drafter", "draft_tokens", "accept")
_RUN_COLUMNS = {"schema", *_OF_ARM, *_OF_CELL, *_OF_GROUP, *_MEASURES, *_DERIVED, *_LIMITS}


def row_of(setup: Setup, run: Run) -> Row:
    """The row of `run`; what can be derived from other columns is there for the reader."""
    measure, limits = run.measure, run.limits
    n_drafted, n_rounds = measure.n_drafted, measure.n_rounds
    return {
        "schema": SCHEMA,
        **setup,
        "drafter": str(run.arm.drafter),
        "draft_tokens": "auto" if run.arm.draft_tokens is None else run.arm.draft_tokens,
        "accept": str(run.arm.accept),
        **{name: getattr(run, name) for name in (*_OF_CELL, *_OF_GROUP)},
        **asdict(measure),
        "drafted_at": list(measure.drafted_at),
        "accepted_at": list(measure.accepted_at),
        "decode_s": measure.decode_s,
        "tokens_per_s": 1 / measure.token_s,
        "acceptance_rate": measure.n_accepted / n_drafted if n_drafted else None,
        "acceptance_length": measure.n_tokens / n_rounds,
        "speedup": run.speedup,
        "oracle_stop": limits.oracle_stop if limits else None,
        "free_draft": limits.free_draft if limits else None,
    }


def run_of(row: Row) -> Run:
    """The run that `row` was made of. Raises KeyError, ValueError or TypeError."""
    k = row["draft_tokens"]
    measures = {name: row[name] for name in _MEASURES}
    measures |= {name: tuple(row[name]) for name in ("drafted_at", "accepted_at")}
    known = row["oracle_stop"] is not None
    return Run(
        arm=Arm(DrafterKind(row["drafter"]), None if k == "auto" else k, Accept(row["accept"])),
        **{name: row[name] for name in (*_OF_CELL, *_OF_GROUP)},
        measure=Measure(**measures),
        limits=Limits(row["oracle_stop"], row["free_draft"]) if known else None,
    )


def setup_of(row: Row) -> Row:
    """The columns that all rows of a measurement share."""
    return {name: value for name, value in row.items() if name not in _RUN_COLUMNS}
