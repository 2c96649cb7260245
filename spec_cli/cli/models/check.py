"""`spec-cli models check`: do two models make a pair, and would it pay here?"""

from __future__ import annotations

from typing import Annotated

import typer

from spec_cli.cli.models.facts import prediction_json
from spec_cli.cli.models.options import AsJson, Draft, Target
from spec_cli.cli.models.tables import cell, print_json, print_lines
from spec_cli.cli.surroundings import state_store
from spec_cli.compatibility import Compatibility, compare
from spec_cli.errors import ModelError
from spec_cli.headers import find_headers
from spec_cli.learned import GREEDY_RULE
from spec_cli.measured import Measurements
from spec_cli.places import copies_dir
from spec_cli.prediction import Expectation, Prediction, basis_of, predict, shown_by
from spec_cli.registry import load_registry
from spec_cli.render.blocks import aligned
from spec_cli.render.style import percent
from spec_cli.spec.forecast import Forecast
from spec_cli.terminal import detect

SCHEMA = "spec-cli/model-check/1"

Offline = Annotated[bool, typer.Option("--offline", help="Do not read headers from the hub.")]


def check(
    target: Target, draft: Draft = None, offline: Offline = False, as_json: AsJson = False
) -> None:
    """Check whether a draft fits a target, and predict what drafting would gain here.

    Only headers are read; for a file that is not on this machine, its first megabytes are read
    from the hub. Without DRAFT, the pair's own draft is checked. Exit code 5: they do not fit.

    \b
    Examples:
      spec-cli models check qwen3-8b
      spec-cli models check ./target.gguf Qwen/Qwen3-0.6B-GGUF:Q8_0
    """
    terminal, registry = detect(), load_registry()
    pair = registry.pair(target)
    draft_ref = pair.draft if draft is None else registry.model(draft)
    if draft_ref is None:
        hint = "name one, or see what `spec-cli models suggest` finds"
        raise ModelError(f"`{target}` has no draft model", hint=hint)

    def say(message: str) -> None:
        terminal.stderr.write(f"{message}\n")

    refs = [pair.target, draft_ref]
    (ours, theirs), are_here = find_headers(refs, offline=offline, on_remote=say)
    found = compare(ours, theirs)
    prediction = None
    if found.report is not None:
        measurements = Measurements(state_store())
        here = (ours, theirs, measurements, copies_dir())
        prediction = predict(
            basis_of(*here, are_here=are_here), shown_by(*here) if are_here else {}
        )
    if as_json:
        print_json(_as_json(found, prediction), terminal)
    else:
        print_lines(_lines(found, prediction), terminal)
    if found.problem is not None:
        raise found.problem


def _lines(found: Compatibility, prediction: Prediction | None) -> list[str]:
    rows = [(a.name, cell(a.target), cell(a.draft)) for a in found.aspects]
    lines = [*aligned([("", "target", "draft"), *rows]), ""]
    n_equal, n_common = found.n_equal_ids, found.n_common_ids
    lines.append(f"{n_equal:,} of {n_common:,} common token ids stand for the same text")
    for note in found.notes:
        hint = f" ({note.hint})" if note.hint else ""
        lines.append(f"{note.level}: {note.message}{hint}")
    return [*lines, "", *_outlook(prediction)] if prediction else lines


def _outlook(prediction: Prediction) -> list[str]:
    basis = prediction.basis
    if not basis.k_max:
        return [prediction.sentence]
    table = [
        ("guesses right", "speed-up", "best fixed length", ""),
        *(_row(known.forecast, _origin(known)) for known in prediction.expected),
        *(_row(supposed, "") for supposed in prediction.forecasts),
    ]
    checks = ", ".join(
        f"{n} in {basis.check_cost(n):.2f}" for n in (1, 3, 7, 15) if n <= basis.k_max
    )
    return [
        f"costs {basis.source}",
        f"in plain steps: a guess {basis.draft_cost:.2f}; checking {checks}",
        "the draft model alone, without what copies of earlier text gain:",
        *([verdict] if (verdict := basis.costs.verdict(basis.k_max)) else []),
        *aligned(table),
    ]


def _row(of: Forecast, origin: str) -> tuple[str, ...]:
    return (percent(of.acceptance), f"{of.auto:.2f}x", f"-k {of.k}: {of.fixed:.2f}x", origin)


def _origin(known: Expectation) -> str:
    return f"{'`--temp 0`' if known.rule == GREEDY_RULE else 'sampled'}, {known.source}"


def _as_json(found: Compatibility, prediction: Prediction | None) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "fits": found.report is not None,
        "problem": found.problem and found.problem.message,
        "shared_ids": found.report and found.report.n_shared,
        "equal_ids": found.n_equal_ids,
        "notes": [note.message for note in found.notes],
        "aspects": {a.name: {"target": a.target, "draft": a.draft} for a in found.aspects},
        "prediction": prediction and prediction_json(prediction),
    }
