"""A measurement once its options are read: the pair is loaded, runs are made and shown."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from spec_cli.bench.archive import Archive, Entry, open_export
from spec_cli.bench.compare import Earlier, read_earlier
from spec_cli.bench.machine import load_average, this_machine
from spec_cli.bench.matrix import Arm, Matrix
from spec_cli.bench.report import Report
from spec_cli.bench.run import applicable, bench_pair
from spec_cli.bench.synthetic import outlook
from spec_cli.cli.encode import encode_measured
from spec_cli.cli.info import describe
from spec_cli.cli.pairs import fetch_pair
from spec_cli.cli.signals import Interrupts
from spec_cli.cli.surroundings import surroundings
from spec_cli.errors import Cancelled, CheckError
from spec_cli.events import Notice
from spec_cli.modelref import Pair
from spec_cli.pairs import LocalPair
from spec_cli.render.bench import print_bench, print_outlook
from spec_cli.render.bench_blocks import BenchInfo
from spec_cli.render.bench_plot import check_plot, write_plot
from spec_cli.render.bench_progress import BenchProgress
from spec_cli.render.bench_setup import setup_row
from spec_cli.render.notices import Notices
from spec_cli.render.options import Format
from spec_cli.render.status import Status
from spec_cli.row_file import RowFile
from spec_cli.session import Session
from spec_cli.settings import DrafterKind, SessionSettings
from spec_cli.terminal import Terminal


@dataclass(frozen=True, slots=True)
class Output:
    """Where results go; `command` gives the command line that runs an arm."""

    form: Format
    command: Callable[[Arm], str]
    earlier: Earlier | None
    file: RowFile[Entry] | None
    plot: Path | None


def open_output(
    form: Format,
    command: Callable[[Arm], str],
    matrix: Matrix,
    *,
    compare: Path | None,
    export: Path | None,
    plot: Path | None,
) -> Output:
    """The output that the options ask for, its files open or read. Raises UsageError."""
    if plot is not None:
        check_plot(plot)
    earlier = read_earlier(compare, matrix) if compare else None
    return Output(form, command, earlier, open_export(export) if export else None, plot)


def bench_on(
    pair: Pair,
    matrix: Matrix,
    settings: SessionSettings,
    terminal: Terminal,
    output: Output,
    acceptance: float | None,
    *,
    offline: bool,
) -> None:
    """Load the pair, then measure or reckon. Raises CheckError when texts differ."""
    files = fetch_pair(pair, terminal, offline=offline, quiet=False)
    notices: list[Notice] = []
    status = Status(terminal, quiet=False)
    failure = None
    with Interrupts() as interrupts:
        environment = surroundings(interrupts, notices, status)
        draft = files.draft.path if files.draft else None
        try:
            with status, Session(files.target.path, draft, settings, environment) as session:
                tokens = encode_measured(session, matrix.prompts, cancelled=interrupts)
                session.prepare(max(map(len, tokens.values())), matrix.max_tokens)
                matrix = applicable(matrix, session)
                status.close()
                with Notices(terminal.stderr, quiet=False, beside_text=False) as shown:
                    for notice in notices:
                        shown.handle(notice)
                if acceptance is not None:
                    _reckon(session, terminal, output.form, acceptance)
                else:
                    failure = _measure(session, files, matrix, tokens, terminal, output).failure
        except Cancelled:
            raise typer.Exit(interrupts.exit_code) from None
        if interrupts():
            raise typer.Exit(interrupts.exit_code)
    if failure:
        raise CheckError(failure, hint="run `spec-cli verify` to find the cause")


def _measure(
    session: Session,
    files: LocalPair,
    matrix: Matrix,
    tokens: dict[str, list[int]],
    terminal: Terminal,
    output: Output,
) -> Report:
    """Make the runs, and print the report; of what was finished when interrupted."""
    n_longest = max(map(len, tokens.values()))
    generation = matrix.generation(matrix.temps[0])
    info = describe(session, files, generation, n_prompt=n_longest, load_s=0.0)
    machine = this_machine()
    setup = setup_row(
        info,
        machine,
        matrix,
        target=files.target,
        draft=files.draft,
        n_gpu_layers=session.settings.n_gpu_layers,
    )
    with BenchProgress(terminal) as progress:
        report = bench_pair(
            session,
            matrix,
            tokens,
            Archive(output.file, setup),
            clock=time.perf_counter,
            load=load_average,
            progress=progress.show,
        )
    command = output.command(report.verdict.arm)
    shown = BenchInfo(info, machine, setup, output.earlier, command)
    print_bench(terminal, output.form, report, shown)
    if output.plot is not None and report.runs:
        write_plot(output.plot, report, session.costs.target if session.costs else None)
    return report


def _reckon(session: Session, terminal: Terminal, form: Format, acceptance: float) -> None:
    """Print what each drafter could gain by the session's cost table."""
    assert session.costs is not None
    free = replace(session.costs, draft_token_s=0.0)
    costs = {DrafterKind.MODEL: session.costs, DrafterKind.NGRAM: free}
    if session.draft_header is None:
        del costs[DrafterKind.MODEL]
    outlooks = {
        str(kind): outlook(table, acceptance, session.k_max) for kind, table in costs.items()
    }
    print_outlook(terminal, form, outlooks, acceptance)
