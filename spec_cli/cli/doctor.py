"""`spec-cli doctor`: all that a bug report needs, and what to do about what is wrong."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from spec_cli import __version__, hub, registry, store
from spec_cli.bench.machine import load_average, this_machine
from spec_cli.cli import options as opt
from spec_cli.cli.devices import is_default, memory_of, missing_gpu
from spec_cli.cli.log import redacted
from spec_cli.cli.pairs import fetch_pair
from spec_cli.cli.signals import Interrupts
from spec_cli.cli.surroundings import surroundings
from spec_cli.cpu import cpu_flags, explain_cores, usable_cores
from spec_cli.doctor.pair import pair_section
from spec_cli.doctor.report import Finding, Report, Section, shortened
from spec_cli.doctor.system import (
    Load,
    disk_findings,
    environment_section,
    memory_section,
    unused_instructions,
)
from spec_cli.errors import Cancelled, CheckError, SpecError
from spec_cli.events import Notice
from spec_cli.host_memory import HostMemory, host_memory, swap_in_use
from spec_cli.llama.devices import backends, list_devices
from spec_cli.llama.library import library
from spec_cli.llama.repacking import features
from spec_cli.loader import Environment, Loader
from spec_cli.modelref import Pair
from spec_cli.pairs import choose_pair
from spec_cli.places import copies_dir, state_dir
from spec_cli.render.doctor import report_lines, report_object
from spec_cli.render.status import Status
from spec_cli.render.stdout import Stdout
from spec_cli.session import Session
from spec_cli.settings import SessionSettings
from spec_cli.spec.counts import counted
from spec_cli.terminal import Terminal, detect

Measure = Annotated[
    bool,
    typer.Option("--measure", help="Load the pair, and measure what has not been measured yet."),
]


def doctor(
    model: opt.Model = None,
    draft_model: opt.DraftModel = None,
    measure: Measure = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check this machine and a pair, and say what to do about problems.

    Looks at versions, devices, memory, caches, and the pair; uses no network. The output belongs
    in a bug report: it shows no home directories or secrets. Exit code 7 means that the pair
    cannot run.
    """
    terminal, environ = detect(), dict(os.environ)  # before llama.cpp sets some of its own
    settings = SessionSettings()
    pair = choose_pair(registry.load_registry(), model, draft_model, settings.drafter)
    notices: list[Notice] = []
    try:
        with Interrupts() as interrupts:
            status = Status(terminal, quiet=False)
            environment = surroundings(interrupts, notices, status)
            with status:
                findings = _measure(pair, settings, environment, terminal) if measure else ()
            sections = _sections(pair, settings, environment, environ)
    except Cancelled:
        raise typer.Exit(interrupts.exit_code) from None
    findings += tuple(Finding(notice.message, notice.hint) for notice in notices)
    report = Report((*sections, Section("", (), findings)))
    report = report.mapped(shortened(Path.home())).mapped(redacted)
    text = json.dumps(report_object(report)) if as_json else "\n".join(report_lines(report))
    Stdout(terminal.stdout).write(f"{text}\n")
    if report.failed:
        raise CheckError(report.failed[0].message, hint=report.failed[0].hint)


def _measure(
    pair: Pair, settings: SessionSettings, environment: Environment, terminal: Terminal
) -> tuple[Finding, ...]:
    """Load the pair once, so that its plan and costs are stored. Raises Cancelled."""
    try:
        files = fetch_pair(pair, terminal, offline=True, quiet=True)
        draft = files.draft.path if files.draft else None
        with Session(files.target.path, draft, settings, environment) as session:
            session.prepare(1, 1)
    except SpecError as error:
        return (Finding.of(error),)
    return ()


def _sections(
    pair: Pair, settings: SessionSettings, environment: Environment, environ: dict[str, str]
) -> list[Section]:
    host = host_memory()
    load = Load(load_average(), usable_cores(), swap_in_use())
    try:
        native = [_llama_section(), _devices_section(host)]
        loader = Loader(settings, environment)
        offline, notify = hub.is_offline(), environment.notify
        pairs = [pair_section(pair, loader, settings, offline=offline, notify=notify)]
    except SpecError as error:
        native, pairs = [Section("llama.cpp", (), (Finding.of(error),))], []
    return [
        _versions_section(),
        *native,
        Section("threads", (("used", explain_cores()),)),
        memory_section(host, load),
        _files_section(),
        *pairs,
        environment_section(environ),
    ]


def _versions_section() -> Section:
    packages = ("llama-cpp-python", "numpy", "huggingface-hub", "typer", "rich")
    rows = [
        ("spec-cli", __version__),
        ("Python", f"{platform.python_implementation()} {platform.python_version()}"),
        *((name, version(name)) for name in packages),
        ("system", f"{platform.system()} {platform.release()} {platform.machine()}"),
        ("CPU", this_machine().cpu),
    ]
    return Section("versions", tuple(rows))


def _llama_section() -> Section:
    line = library().system_info
    found = unused_instructions(cpu_flags(), features(line))
    rows = (("built and found", " ".join(line.split())), ("backends", ", ".join(backends())))
    return Section("llama.cpp", rows, tuple(found))


def _devices_section(host: HostMemory) -> Section:
    found = list_devices()
    rows = []
    for device in found:
        free, total = memory_of(device, host)
        used = ", used by default" if is_default(device, found) else ""
        memory = f"{free / 1e9:.1f} of {total / 1e9:.1f} GB free"
        rows.append((device.name, f"{device.kind}, {device.description}, {memory}{used}"))
    gpu = missing_gpu(found)
    return Section("devices", tuple(rows), (Finding(*gpu),) if gpu else ())


def _files_section() -> Section:
    cache = hub.cache_dir()
    copies, state = copies_dir(), state_dir()
    free = {directory: store.free_space(directory) for directory in (cache, copies, state)}
    registries = ", ".join(str(path) for path in registry.registry_paths())
    rows = (
        ("models", f"{cache}, {free[cache] / 1e9:.1f} GB free on its disk"),
        ("draft copies", _contents(copies, copies.glob("*.gguf"))),
        ("measurements", _contents(state, state.glob("*/*.json"))),
        ("registry", registries),
    )
    return Section("files", rows, tuple(_one_per_disk(free)))


def _one_per_disk(free: dict[Path, int]) -> list[Finding]:
    """Directories on one disk are one finding."""
    by_disk = {n_bytes: directory for directory, n_bytes in reversed(free.items())}
    return list(disk_findings({directory: n_bytes for n_bytes, directory in by_disk.items()}))


def _contents(directory: Path, files: Iterable[Path]) -> str:
    sizes = [path.stat().st_size for path in files]
    return f"{directory}, {counted(len(sizes), 'file')}, {sum(sizes) / 1e9:.2f} GB"
