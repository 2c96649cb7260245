"""A verification once its options are read: the pair is loaded, and texts are compared."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from spec_cli.cli.encode import encode_measured
from spec_cli.cli.info import describe
from spec_cli.cli.pairs import fetch_pair
from spec_cli.cli.signals import Interrupts
from spec_cli.cli.surroundings import surroundings
from spec_cli.errors import Cancelled, CheckError, UsageError
from spec_cli.events import Notice
from spec_cli.modelref import Pair
from spec_cli.pairs import LocalPair
from spec_cli.render.info import RunInfo
from spec_cli.render.notices import Notices
from spec_cli.render.status import Status
from spec_cli.render.verify import print_report
from spec_cli.render.verify_json import print_json
from spec_cli.session import Session
from spec_cli.settings import SessionSettings
from spec_cli.terminal import Terminal
from spec_cli.verify.archive import Archive, open_save
from spec_cli.verify.matrix import Matrix
from spec_cli.verify.run import verify_pair


def verify_on(
    pair: Pair,
    matrix: Matrix,
    settings: SessionSettings,
    terminal: Terminal,
    *,
    offline: bool,
    save: Path | None,
    n_rounds: int,
    as_json: bool,
) -> None:
    """Load the pair, verify, and print what was found. Raises CheckError when it failed."""
    saved = open_save(save) if save is not None else None
    files = fetch_pair(pair, terminal, offline=offline, quiet=False)
    notices: list[Notice] = []
    status = Status(terminal, quiet=False)
    with Interrupts() as interrupts:
        environment = surroundings(interrupts, notices, status)
        draft = files.draft.path if files.draft else None
        started = time.perf_counter()
        try:
            with status, Session(files.target.path, draft, settings, environment) as session:
                tokens = encode_measured(session, matrix.prompts, cancelled=interrupts)
                n_longest = max(map(len, tokens.values()))
                session.prepare(n_longest, matrix.max_tokens)
                matrix = _drafted(matrix, session)
                info = describe(
                    session,
                    files,
                    matrix.generation(matrix.temps[0]),
                    n_prompt=n_longest,
                    load_s=time.perf_counter() - started,
                )
                report = verify_pair(
                    session,
                    matrix,
                    tokens,
                    Archive(saved, _configuration(files, matrix, settings, info)),
                    n_rounds=n_rounds,
                    cancelled=interrupts,
                    progress=status.show,
                )
                status.close()
                with Notices(terminal.stderr, quiet=False, beside_text=False) as shown:
                    for notice in notices:
                        shown.handle(notice)
                show = print_json if as_json else print_report
                show(terminal, report, matrix, info, _speller(session))
        except Cancelled:
            raise typer.Exit(interrupts.exit_code) from None
        if interrupts():
            raise typer.Exit(interrupts.exit_code)
    if report.failure:
        raise CheckError(report.failure)


def _drafted(matrix: Matrix, session: Session) -> Matrix:
    """The part of `matrix` that differs here. Raises UsageError when nothing would be drafted."""
    if session.drafting_off is not None:
        by_width = session.plan.rollback.works and session.plan.max_width == 1
        raise UsageError(
            f"there is nothing to verify: {session.drafting_off}",
            hint="use `--exact off`" if by_width else None,
        )
    return matrix if session.plan.max_width is None else matrix.limited(session.k_max)


def _speller(session: Session) -> Callable[[int], str]:
    model = session.model
    return lambda token: model.piece(token).decode("utf-8", "replace") or model.token_text(token)


def _configuration(
    files: LocalPair, matrix: Matrix, settings: SessionSettings, info: RunInfo
) -> dict[str, Any]:
    """All that a text depends on besides prompt, temperature and who drafts."""
    plan = info.plan
    models = {"target": files.target, "draft": files.draft}
    return {
        **{
            role: {"file": model.path.name, "size_bytes": model.size_bytes} if model else None
            for role, model in models.items()
        },
        "plan": {
            "kernels": asdict(plan.kernels),
            "widths": plan.widths,
            "max_difference": plan.max_difference,
        },
        "seed": matrix.seed,
        "max_tokens": matrix.max_tokens,
        "sampling": {k: v for k, v in info.sampling.items() if k != "temp"},
        "n_ctx": info.n_ctx,
        "n_threads": info.n_threads,
        "n_gpu_layers": settings.n_gpu_layers,
        "device": info.device,
        "versions": dict(info.versions),
    }
