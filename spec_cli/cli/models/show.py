"""`spec-cli models show`: everything known of a pair or of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from spec_cli.cli.models.facts import (
    Fact,
    header_json,
    measured_json,
    model_facts,
    model_json,
    prediction_json,
)
from spec_cli.cli.models.options import AsJson, Name
from spec_cli.cli.models.tables import cell, print_json, print_lines
from spec_cli.cli.surroundings import state_store
from spec_cli.errors import PairError
from spec_cli.gguf import Header
from spec_cli.headers import cached_header
from spec_cli.measured import Measurements
from spec_cli.modelref import ModelRef, Pair
from spec_cli.pairing import check_pair
from spec_cli.places import copies_dir
from spec_cli.prediction import Prediction, basis_of, predict, shown_by
from spec_cli.registry import Registry, load_registry, origin
from spec_cli.terminal import detect

SCHEMA = "spec-cli/model/1"


def show(name: Name, as_json: AsJson = False) -> None:
    """Show everything known about a pair or a model.

    Its files, what their headers say, what was measured on this machine, and what drafting
    is expected to gain. Nothing is loaded, downloaded or measured.
    """
    terminal, registry = detect(), load_registry()
    pair = registry.pair(name)
    measurements = Measurements(state_store())
    headers = [cached_header(ref) for ref in pair.models]
    prediction = _prediction(headers, measurements)
    if as_json:
        models = [_model(*model, measurements) for model in zip(pair.models, headers, strict=True)]
        print_json(_as_json(pair, registry, models, prediction), terminal)
        return
    lines = [cell(pair.name), *_lines(_pair_facts(pair, registry, prediction))]
    for role, ref, header in zip(("target", "draft"), pair.models, headers, strict=False):
        facts = _lines(model_facts(ref, header, measurements))
        lines += ["", f"{role}  {cell(ref.name)}", *facts]
    print_lines(lines, terminal)


def _pair_facts(pair: Pair, registry: Registry, prediction: Prediction | str) -> Iterator[Fact]:
    if path := registry.origins.get(pair.name):
        yield "defined", f"{path} ({origin(path)})"
        yield "default", "yes" if pair is registry.default else "no"
    if pair.notes:
        yield "notes", cell(pair.notes)
    if pair.draft_tokens:
        yield "draft tokens", str(pair.draft_tokens)
    yield "expected", prediction if isinstance(prediction, str) else prediction.sentence


def _lines(found: Iterable[Fact]) -> list[str]:
    rows = list(found)
    width = max(len(label) for label, _ in rows)
    return [f"  {label.ljust(width)}  {value}" for label, value in rows]


def _prediction(headers: Sequence[Header | None], measurements: Measurements) -> Prediction | str:
    """What drafting is expected to gain, or why that is not known."""
    if len(headers) < 2:
        return "no draft model: guesses are copies of earlier text, whose gain depends on the text"
    target, draft = headers
    if target is None or draft is None:
        return "not known before both files are here"
    try:
        check_pair(target, draft)
    except PairError as error:
        return error.message
    here = (target, draft, measurements, copies_dir())
    return predict(basis_of(*here, are_here=True), shown_by(*here))


def _as_json(
    pair: Pair,
    registry: Registry,
    models: Sequence[dict[str, object]],
    prediction: Prediction | str,
) -> dict[str, object]:
    path = registry.origins.get(pair.name)
    return {
        "schema": SCHEMA,
        "name": pair.name,
        "from": path and str(path),
        "default": pair is registry.default,
        "notes": pair.notes,
        "draft_tokens": pair.draft_tokens,
        "target": models[0],
        "draft": models[1] if len(models) > 1 else None,
        "prediction": None if isinstance(prediction, str) else prediction_json(prediction),
    }


def _model(ref: ModelRef, header: Header | None, measurements: Measurements) -> dict[str, object]:
    target = measurements.target(header.path) if header else None
    guess = measurements.draft_times(header.path, {}) if header else None
    return {
        **model_json(ref),
        "header": header and header_json(header),
        "measured": target and measured_json(target),
        "guess_ms": guess and 1000 * guess(1),
    }
