"""`spec-cli models suggest`: which of the models at hand can draft for a target."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rich.filesize import decimal

from spec_cli import download, hub
from spec_cli.cli.models.options import AsJson, Target
from spec_cli.cli.models.tables import NOTHING, cell, print_json, print_lines, print_rows
from spec_cli.cli.surroundings import state_store
from spec_cli.gguf import Header, read_header
from spec_cli.headers import cached_header, usable_header
from spec_cli.inventory import cached_files
from spec_cli.measured import Measurements
from spec_cli.modelref import ModelRef
from spec_cli.places import copies_dir
from spec_cli.prediction import basis_of
from spec_cli.registry import Registry, load_registry
from spec_cli.suggestion import Candidate, Suggestion, known_drafts
from spec_cli.suggestion import suggest as judge
from spec_cli.terminal import detect

SCHEMA = "spec-cli/model-drafts/1"
_COLUMNS = ("DRAFT", "SIZE", "CACHED", "FITS", "COST")


def suggest(target: Target, as_json: AsJson = False) -> None:
    """Find drafts for a target, in the cache and among the pairs known by name.

    Those that fit come first, the smallest first. COST is the time of one guess, in plain
    steps. Nothing is downloaded.
    """
    terminal, registry = detect(), load_registry()
    ref = registry.model(target)
    local = download.cached(ref)
    header = read_header(local.path) if local else None
    found = judge(header, _candidates(ref, header, registry))
    command = _command(target, found)
    if as_json:
        drafts = [_as_json(one, _cost(header, one)) for one in found]
        print_json({"schema": SCHEMA, "drafts": drafts, "command": command}, terminal)
        return
    if found:
        rows = [_row(one, _cost(header, one)) for one in found]
        print_rows(_COLUMNS, rows, terminal, wrapped=("FITS",))
    print_lines(["", command] if found else [command], terminal)


def _candidates(ref: ModelRef, target: Header | None, registry: Registry) -> Iterator[Candidate]:
    """The drafts known for the target; where its own header is here, all other models that are."""
    known = known_drafts(ref, registry.pairs.values())
    seen = {target.path.resolve()} if target else set()
    for draft in known:
        header = cached_header(draft)
        if header is not None:
            seen.add(header.path.resolve())
        yield Candidate(draft.name, header.n_bytes if header else draft.size_bytes, header)
    for file in cached_files(hub.cache_dir(), registry.files) if target else ():
        if file.content not in seen and (header := usable_header(file.path)):
            yield Candidate(file.name, file.size_bytes, header)


def _cost(target: Header | None, one: Suggestion) -> float | None:
    """What a guess takes, in plain steps, where both headers are here."""
    draft = one.candidate.header
    if target is None or draft is None or not one.fits:
        return None
    measurements = Measurements(state_store())
    return basis_of(target, draft, measurements, copies_dir(), are_here=True).draft_cost


def _command(target: str, found: list[Suggestion]) -> str:
    """The command line to use: with the smallest draft that is here, else with the smallest."""
    fitting = sorted(
        (one for one in found if one.fits), key=lambda one: not one.candidate.is_cached
    )
    words = ["-d", fitting[0].candidate.name] if fitting else ["--drafter", "ngram"]
    return shlex.join(["spec-cli", "run", "-m", target, *words])


def _row(one: Suggestion, cost: float | None) -> tuple[str, ...]:
    size_bytes = one.candidate.size_bytes
    return (
        cell(one.candidate.name),
        NOTHING if size_bytes is None else decimal(size_bytes),
        "yes" if one.candidate.is_cached else "no",
        "yes" if one.fits else cell(f"no: {one.problem}"),
        NOTHING if cost is None else f"{cost:.2f}",
    )


def _as_json(one: Suggestion, cost: float | None) -> dict[str, object]:
    return {
        "name": one.candidate.name,
        "size_bytes": one.candidate.size_bytes,
        "cached": one.candidate.is_cached,
        "fits": one.fits,
        "problem": one.problem,
        "draft_cost": cost,
    }
