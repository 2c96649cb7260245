"""`spec-cli models show`: everything known of a pair or of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spec_cli.cli.models import facts
from spec_cli.cli.models.facts import Fact, model_facts, model_json
from spec_cli.cli.models.listing import AsJson
from spec_cli.cli.models.names import Name
from spec_cli.cli.models.tables import cell, print_json, print_lines
from spec_cli.cli.surroundings import copies_dir, state_store
from spec_cli.errors import PairError
from spec_cli.headers import cached_header
from spec_cli.measured import Measurements
from spec_cli.modelref import ModelRef, Pair
from spec_cli.pairing import check_pair
from spec_cli.prediction import Prediction, basis_of, predict
from spec_cli.registry import Registry, load_registry, origin
from spec_cli.terminal import detect

SCHEMA = "spec-cli/model/1"


def show(name: Name, as_json: AsJson = False) -> None:
    """Show everything known of a pair or of a model.

    Its files, what they say about themselves, what was measured on this machine, and what
    drafting is expected to gain. Nothing is loaded, fetched or measured.
    """
    terminal, registry = detect(), load_registry()
    pair = registry.pair(name)
    measurements = Measurements(state_store())
    prediction = _prediction(pair, measurements)
    if as_json:
        print_json(_as_json(pair, registry, measurements, prediction), terminal)
        return
    lines = [cell(pair.name), *_lines(_pair_facts(pair, registry, prediction))]
    for role, ref in _roles(pair):
        lines += ["", f"{role}  {cell(ref.name)}", *_lines(model_facts(ref, measurements))]
    print_lines(lines, terminal)


def _roles(pair: Pair) -> Iterator[tuple[str, ModelRef]]:
    yield from zip(("target", "draft"), pair.models, strict=False)


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


def _prediction(pair: Pair, measurements: Measurements) -> Prediction | str:
    """What drafting is expected to gain, or why that is not known."""
    if pair.draft is None:
        return "no draft model: n-grams propose, and what they gain is in the text"
    target, draft = cached_header(pair.target), cached_header(pair.draft)
    if target is None or draft is None:
        return "not known before both files are here"
    try:
        check_pair(target, draft)
    except PairError as error:
        return error.message
    return predict(basis_of(target, draft, measurements, copies_dir(), are_here=True))


def _as_json(
    pair: Pair, registry: Registry, measurements: Measurements, prediction: Prediction | str
) -> dict[str, object]:
    path = registry.origins.get(pair.name)
    models = {role: _model(ref, measurements) for role, ref in _roles(pair)}
    return {
        "schema": SCHEMA,
        "name": pair.name,
        "from": path and str(path),
        "default": pair is registry.default,
        "notes": pair.notes,
        "draft_tokens": pair.draft_tokens,
        "target": models["target"],
        "draft": models.get("draft"),
        "prediction": None if isinstance(prediction, str) else facts.prediction_json(prediction),
    }


def _model(ref: ModelRef, measurements: Measurements) -> dict[str, object]:
    header = cached_header(ref)
    target = measurements.target(header.path) if header else None
    return {
        **model_json(ref),
        "header": header and facts.header_json(header),
        "measured": target and facts.measured_json(target),
    }
