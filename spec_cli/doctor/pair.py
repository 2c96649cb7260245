"""One pair: is it here, does it fit together and into memory, and what is known about its speed?"""

from __future__ import annotations

from collections.abc import Callable

from spec_cli import download
from spec_cli.doctor.report import Finding, Section
from spec_cli.download import LocalModel
from spec_cli.errors import SpecError
from spec_cli.events import Notice
from spec_cli.fitting import first_context
from spec_cli.gguf import Header, read_header
from spec_cli.loader import Loader
from spec_cli.modelref import ModelRef, Pair
from spec_cli.pairing import check_pair
from spec_cli.settings import SessionSettings
from spec_cli.spec.costs import PassTimes
from spec_cli.spec.counts import counted

_NOT_YET = "not measured yet: the first run measures it, or `--measure`"


def pair_section(
    pair: Pair,
    loader: Loader,
    settings: SessionSettings,
    *,
    offline: bool,
    notify: Callable[[Notice], None],
) -> Section:
    """All that can be told about a pair without loading it. `notify` gets what is no failure."""
    title = f"pair {pair.name}"
    rows: list[tuple[str, str]] = []
    try:
        models = _find(pair, rows)
        if models is None:
            message = f"`{pair.name}` is not in the cache, so it was not checked"
            missing = Finding(message, f"`spec-cli pull {pair.name}`", failed=offline)
            return Section(title, tuple(rows), (missing,))
        target, draft = _headers(models, rows, notify)
        _check_memory(target, draft, loader, settings, rows)
    except SpecError as error:
        return Section(title, tuple(rows), (Finding.of(error),))
    plan = loader.stored_plan(target.path)
    rows.append(("exactness", plan.describe() if plan else _NOT_YET))
    rows.append(("costs", _costs(plan.times) if plan else _NOT_YET))
    if draft:
        times = loader.stored_draft_times(draft.path)
        guess = f"{1000 * times(1):.0f} ms with its own file" if times else _NOT_YET
        rows.append(("a guess", guess))
    return Section(title, tuple(rows))


def _costs(times: PassTimes) -> str:
    others = [
        f"{1000 * seconds:.0f} over {width}"
        for width, seconds in zip(times.widths, times.seconds, strict=True)
        if width in (4, 8, 16)
    ]
    step = f"a plain step takes {1000 * times(1):.0f} ms"
    return f"{step}, a pass {', '.join(others)} rows" if others else step


def _find(pair: Pair, rows: list[tuple[str, str]]) -> list[LocalModel] | None:
    """The models of a pair that are here; None where one is not. Raises ModelError."""
    refs: dict[str, ModelRef] = {"target": pair.target}
    if pair.draft:
        refs["draft"] = pair.draft
    found = {role: download.cached(ref) for role, ref in refs.items()}
    for role, model in found.items():
        where = f"{model.path.name}, {model.size_bytes / 1e9:.2f} GB" if model else "not cached"
        rows.append((role, where))
    models = [model for model in found.values() if model]
    return models if len(models) == len(refs) else None


def _headers(
    models: list[LocalModel], rows: list[tuple[str, str]], notify: Callable[[Notice], None]
) -> tuple[Header, Header | None]:
    """Both headers, compared. Raises ModelError or PairError."""
    target, *others = [read_header(model.path) for model in models]
    draft = others[0] if others else None
    if draft:
        report = check_pair(target, draft)
        for note in report.notes:
            notify(note)
        rows.append(("vocabulary", f"shared: {counted(report.n_shared, 'token')}"))
    return target, draft


def _check_memory(
    target: Header,
    draft: Header | None,
    loader: Loader,
    settings: SessionSettings,
    rows: list[tuple[str, str]],
) -> None:
    """Raises ResourceError."""
    n_ctx = first_context(settings, target)
    loader.fitter.fit(target, draft, n_ctx)
    plan = loader.fitter.plan(target, draft, n_ctx)
    needs = [f"{plan.needed(r).resident_bytes / 1e9:.1f} GB of {r.name}" for r in plan.rooms]
    rows.append(
        ("memory", f"fits: it needs {', '.join(needs)} at a context of {counted(n_ctx, 'token')}")
    )
