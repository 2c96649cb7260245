"""A whole measurement on a prepared session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from spec_cli.bench.archive import Archive
from spec_cli.bench.matrix import Matrix
from spec_cli.bench.report import Report
from spec_cli.bench.runner import Runner, Step
from spec_cli.errors import Cancelled, UsageError
from spec_cli.session import Session
from spec_cli.settings import DrafterKind


def bench_pair(
    session: Session,
    matrix: Matrix,
    prompts: Mapping[str, Sequence[int]],
    archive: Archive,
    *,
    clock: Callable[[], float],
    load: Callable[[], float | None],
    progress: Callable[[Step], None],
) -> Report:
    """The report; when cancelled, of what was finished. Arguments are those of `Runner`."""
    runner = Runner(session, matrix, prompts, archive, clock=clock, load=load, progress=progress)
    interrupted = False
    try:
        runner.run()
    except Cancelled:
        interrupted = True
    return Report(matrix, tuple(archive.runs(matrix)), session.plan, interrupted)


def applicable(matrix: Matrix, session: Session) -> Matrix:
    """The part of `matrix` that differs here. Raises UsageError when nothing would be drafted."""
    if session.drafting_off is not None:
        by_width = session.plan.rollback.works and session.plan.max_width == 1
        raise UsageError(
            f"there is nothing to compare: {session.drafting_off}",
            hint="use `--exact off`" if by_width else None,
        )
    needing = [arm.drafter for arm in matrix.arms if arm.drafter.needs_model]
    if needing and session.drafter_name == DrafterKind.NGRAM:
        raise UsageError(
            f"`--drafter {needing[0]}` cannot be measured: the draft's memory is recurrent, "
            "and does not go back to what it was",
            hint="name another one with `--draft-model`, or use `--drafter ngram`",
        )
    return matrix if session.plan.max_width is None else matrix.limited(session.k_max)
