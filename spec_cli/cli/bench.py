"""`spec-cli bench`: does drafting pay, on this machine, with this pair, for these prompts?"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import typer

from spec_cli.bench.archive import Archive, ExportFile
from spec_cli.bench.compare import Earlier, read_earlier
from spec_cli.bench.machine import load_average, this_machine
from spec_cli.bench.matrix import Arm, Matrix, make_arms
from spec_cli.bench.report import Report
from spec_cli.bench.run import applicable, bench_pair
from spec_cli.bench.synthetic import outlook
from spec_cli.cli import bench_options as bopt
from spec_cli.cli import options as opt
from spec_cli.cli import verify_options as vopt
from spec_cli.cli.display_options import Color
from spec_cli.cli.info import describe
from spec_cli.cli.inputs import encode_measured
from spec_cli.cli.pairs import LocalPair, choose_pair, fetch_pair
from spec_cli.cli.signals import Interrupts
from spec_cli.cli.surroundings import surroundings
from spec_cli.errors import Cancelled, CheckError
from spec_cli.events import Notice
from spec_cli.registry import load_registry
from spec_cli.render.bench import print_bench, print_outlook
from spec_cli.render.bench_blocks import BenchInfo
from spec_cli.render.bench_formats import Format
from spec_cli.render.bench_plot import check_plot, write_plot
from spec_cli.render.bench_progress import BenchProgress
from spec_cli.render.bench_setup import setup_row
from spec_cli.render.notices import Notices
from spec_cli.render.status import Status
from spec_cli.session import Session
from spec_cli.settings import ALL_LAYERS, DrafterKind, SessionSettings
from spec_cli.terminal import ColorMode, Terminal, detect

_SESSION = SessionSettings()


@dataclass(frozen=True, slots=True)
class _Size:
    """How much is measured unless an option says otherwise."""

    draft_tokens: str
    max_tokens: int
    n_rounds: int


_QUICK = _Size("auto", max_tokens=64, n_rounds=1)
_FULL = _Size("4,auto", max_tokens=128, n_rounds=2)


@dataclass(frozen=True, slots=True)
class _Output:
    """Where results go; `command` gives the command line that runs an arm."""

    form: Format
    command: Callable[[Arm], str]
    earlier: Earlier | None
    file: ExportFile | None
    plot: Path | None


def bench(
    pair: vopt.PairName = None,
    model: opt.Model = None,
    draft_model: opt.DraftModel = None,
    offline: opt.Offline = False,
    prompts: bopt.Prompts = None,
    kind: bopt.Kinds = None,
    per_kind: bopt.PerKind = None,
    drafter: bopt.Drafters = "auto",
    draft_tokens: bopt.Lengths = None,
    accept: bopt.Accepts = "coupled",
    exact: opt.ExactMode = _SESSION.exact,
    temp: bopt.Temps = "0",
    seed: vopt.Seed = 1,
    max_tokens: bopt.MaxTokens = None,
    rounds: bopt.Rounds = None,
    quick: bopt.Quick = False,
    export: bopt.Export = None,
    compare: bopt.Compare = None,
    plot: bopt.Plot = None,
    form: bopt.Form = Format.TEXT,
    synthetic: bopt.Synthetic = None,
    no_tui: opt.NoTui = False,
    color: Color = ColorMode.AUTO,
    ctx_size: opt.CtxSize = None,
    threads: opt.Threads = None,
    gpu_layers: opt.GpuLayers = "auto",
    device: opt.Device = None,
) -> None:
    """Measure plain decoding against any list of settings, and say which to use.

    Each prompt is answered by every setting, one right after another, in random
    order, between two runs of plain decoding: the ratio of their times is the
    speed-up. Means are over prompts, with 95 % intervals; what the machine does
    besides shows in the plain runs, and such groups are measured again.

    Without options: 42 prompts of 7 kinds, 128 tokens, drafts of 4 tokens and
    `auto`, two rounds; an hour on a slow CPU. `--quick` takes minutes.

    \b
    Examples:
      spec-cli bench --quick
      spec-cli bench -k 2,4,8,auto --export runs.jsonl
      spec-cli bench --synthetic 0.8
    """
    name = vopt.one_name(pair, model)
    terminal = detect(color, animate=not no_tui)
    if plot is not None:
        check_plot(plot)
    acceptance = bopt.acceptance_of(synthetic)
    size = _QUICK if quick else _FULL
    drafters = vopt.comma_list("--drafter", drafter, bopt.drafter_of)
    chosen = choose_pair(load_registry(), name, draft_model, bopt.kind_to_load(drafters))
    matrix = Matrix(
        prompts=bopt.chosen_prompts(prompts, kind, 1 if quick else per_kind),
        temps=vopt.comma_list("--temp", temp, vopt.temp_of),
        arms=make_arms(
            bopt.distinct(drafters, has_draft=chosen.draft is not None),
            vopt.comma_list("--accept", accept, bopt.accept_of),
            vopt.comma_list("--draft-tokens", draft_tokens or size.draft_tokens, bopt.length_of),
        ),
        max_tokens=size.max_tokens if max_tokens is None else max_tokens,
        n_rounds=size.n_rounds if rounds is None else rounds,
        seed=seed,
    )
    settings = SessionSettings(
        drafter=bopt.kind_to_load(drafters),
        # A fixed length: the drafter is loaded and drafts also where it cannot pay.
        draft_tokens=max(arm.draft_tokens or 1 for arm in matrix.arms),
        n_ctx=ctx_size,
        n_threads=threads,
        n_gpu_layers=opt.count("--gpu-layers", gpu_layers, auto=None, all_=ALL_LAYERS),
        device=device,
        exact=exact,
    )
    output = _Output(
        form,
        partial(bopt.run_command, name, draft_model, settings, matrix.temps),
        read_earlier(compare, matrix) if compare else None,
        ExportFile(export) if export else None,
        plot,
    )
    files = fetch_pair(chosen, terminal, offline=offline, quiet=False)
    _bench(files, matrix, settings, terminal, output, acceptance)


def _bench(
    files: LocalPair,
    matrix: Matrix,
    settings: SessionSettings,
    terminal: Terminal,
    output: _Output,
    acceptance: float | None,
) -> None:
    """Load the pair, then measure or reckon. Raises CheckError when texts differ."""
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
    output: _Output,
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
