"""What is known of one model: from the registry, the cache, its header, and measurements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.filesize import decimal

from spec_cli import download
from spec_cli.cli.models.tables import cell
from spec_cli.draft_copy import copies_of
from spec_cli.errors import ModelError
from spec_cli.gguf import Header, read_header
from spec_cli.measured import MeasuredTarget, Measurements
from spec_cli.modelref import ModelRef, RepoFile
from spec_cli.pairing import parameters
from spec_cli.places import copies_dir
from spec_cli.prediction import Prediction
from spec_cli.spec.forecast import Forecast

Fact = tuple[str, str]
"""A label and a value."""


def model_json(ref: ModelRef) -> dict[str, object]:
    """What the registry and the cache say."""
    known = ref if isinstance(ref, RepoFile) else None
    found = download.find_here(ref)
    return {
        "name": ref.name,
        "repo": known and known.repo,
        "revision": known and known.revision,
        "file": known and known.file,
        "size_bytes": found.size_bytes if found else known and known.size_bytes,
        "sha256": known and known.sha256,
        "license": known and known.license,
        "path": found and str(found.path),
    }


def header_json(header: Header) -> dict[str, object]:
    """What the file says about itself."""
    return {
        "name": header.name,
        "architecture": header.architecture,
        "quant": header.quant,
        "parameters": header.n_params,
        "layers": header.n_layer,
        "context_length": header.context_length,
        "tokens": len(header.vocab.tokens),
        "tokenizer": header.vocab.model,
        "pre_tokenizer": header.vocab.pre,
        "chat_template": header.chat_template is not None,
    }


def measured_json(target: MeasuredTarget) -> dict[str, object]:
    """What earlier runs measured of a target."""
    times = target.plan.times
    return {
        "exact": target.exact,
        "widths": target.plan.widths,
        "price": target.plan.price,
        "max_logit_difference": target.plan.max_difference,
        "pass_ms": {
            str(width): 1000 * seconds
            for width, seconds in zip(times.widths, times.seconds, strict=True)
        },
        **target.setup,
    }


def prediction_json(prediction: Prediction) -> dict[str, object]:
    """What drafting is expected to gain."""
    basis = prediction.basis
    return {
        "measured": basis.is_measured,
        "source": basis.source,
        "draft_cost": basis.draft_cost,
        "check_cost": [basis.check_cost(n) for n in range(1, basis.k_max + 1)],
        "expected": [
            {
                "rule": known.rule,
                "tokens": known.n_tokens,
                "source": known.source,
                **_forecast_json(known.forecast),
            }
            for known in prediction.expected
        ],
        "forecasts": [_forecast_json(supposed) for supposed in prediction.forecasts],
    }


def _forecast_json(of: Forecast) -> dict[str, object]:
    return {
        "acceptance": of.acceptance,
        "speedup": of.auto,
        "best_k": of.k,
        "fixed_speedup": of.fixed,
    }


def model_facts(ref: ModelRef, header: Header | None, measurements: Measurements) -> Iterator[Fact]:
    """Everything known of a model, from top to bottom."""
    found = download.find_here(ref)
    if isinstance(ref, RepoFile):
        here = found or ref
        yield "file", ref.file or (found.path.name if found else f"that of {ref.quant}")
        yield "repository", f"{ref.repo} at {here.revision or 'its main branch'}"
        yield "sha256", cell(here.sha256)
        yield "licence", cell(ref.license)
        yield "size", decimal(here.size_bytes) if here.size_bytes else "not known"
    yield "path", cell(str(found.path)) if found else "not here"
    if header is not None:
        yield from _header_facts(header)
        yield from _measured_facts(header, measurements)
    elif found is not None:
        yield "header", f"not usable: {_problem(found.path)}"


def _problem(path: Path) -> str:
    """Why there is no usable header."""
    try:
        read_header(path)
    except ModelError as error:
        return error.message
    return "it has just been replaced"


def _header_facts(header: Header) -> Iterator[Fact]:
    vocab = header.vocab
    yield (
        "architecture",
        f"{cell(header.architecture)}, {header.quant or 'of unknown quantisation'}",
    )
    yield "parameters", f"{parameters(header.n_params)}, {cell(header.n_layer)} layers"
    yield "context", f"{cell(header.context_length)} tokens"
    yield "vocabulary", f"{cell(len(vocab.tokens))} tokens, {cell(vocab.model)}, {cell(vocab.pre)}"
    yield "chat template", "yes" if header.chat_template else "no"


def _measured_facts(header: Header, measurements: Measurements) -> Iterator[Fact]:
    """As a target; and as a draft, in the set-up of any target."""
    if target := measurements.target(header.path):
        times = target.plan.padded_times()
        rows = [f"{n} rows {_ms(times(n))}" for n in (2, 4, 8, 16) if n <= times.widths[-1]]
        yield "exactness", target.plan.describe()
        yield "as a target", ", ".join([f"a plain step {_ms(times(1))}", *rows])
    drafts = [("as a draft", header.path)]
    drafts += [("as a Q4_0 copy", copy) for copy in copies_of(header, copies_dir())]
    for label, path in drafts:
        if guess := measurements.draft_times(path, {}):
            yield label, f"a guess {_ms(guess(1))}"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms"
