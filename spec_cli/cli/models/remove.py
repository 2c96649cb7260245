"""`spec-cli models rm`: deleting what is here of a pair."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.filesize import decimal

from spec_cli.cli.models.options import Name
from spec_cli.cli.models.tables import print_lines
from spec_cli.cli.surroundings import state_store
from spec_cli.errors import ModelError, UsageError
from spec_cli.leftovers import size_bytes
from spec_cli.measured import Measurements
from spec_cli.places import copies_dir
from spec_cli.registry import load_registry
from spec_cli.removal import Removal, plan_removal
from spec_cli.terminal import Terminal, detect


def rm(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be deleted, and stop.")
    ] = False,
) -> None:
    """Delete a pair or model: its cached files, copies of its draft, and its measurements.

    What interrupted downloads left behind is deleted as well. A file that another cached pair
    needs is kept, unless you name the model itself. Entries in models.toml are kept:
    `spec-cli models forget` removes those.
    """
    terminal, registry = detect(), load_registry()
    pair = registry.pair(name)
    others = [other for other in registry.pairs.values() if other.name != pair.name]
    removal = plan_removal(
        pair.models,
        others if name in registry.pairs else (),
        copies=copies_dir(),
        measurements=Measurements(state_store()),
    )
    if not removal:
        reasons = "; ".join(f"`{model}`: {reason}" for model, reason in removal.kept.items())
        raise ModelError(f"there is nothing to delete: {reasons}")
    lines = list(_lines(removal))
    if dry_run:
        print_lines(lines, terminal)
        return
    if not yes and not _confirmed(lines, removal, terminal):
        terminal.stderr.write("nothing was deleted\n")
        return
    freed = decimal(removal.freed_bytes)
    removal.carry_out()
    terminal.stderr.write(f"deleted {_summary(removal)}: {freed} freed\n")


def _lines(removal: Removal) -> Iterator[str]:
    for model in removal.models:
        yield f"delete {model.path}, {decimal(model.size_bytes)}"
    for copy in removal.copies:
        yield f"delete {copy}, {decimal(copy.stat().st_size)}"
    for partial in removal.partials:
        yield f"delete {partial}, {decimal(size_bytes(partial))}, unfinished"
    if locks := _count(removal.n_locks, "lock file"):
        yield f"delete {locks}"
    if measurements := _count(len(removal.measurements), "measurement"):
        yield f"delete {measurements}"
    for name, reason in removal.kept.items():
        yield f"keep {name}: {reason}"
    yield f"frees {decimal(removal.freed_bytes)}"


def _summary(removal: Removal) -> str:
    counts = [
        _count(len(removal.models), "model"),
        _count(len(removal.partials), "partial file"),
        _count(len(removal.copies), "draft copy", "draft copies"),
        _count(removal.n_locks, "lock file"),
        _count(len(removal.measurements), "measurement"),
    ]
    return ", ".join(filter(None, counts))


def _count(n: int, one: str, many: str | None = None) -> str:
    """`2 models`; nothing where there is none."""
    return f"{n:,} {one if n == 1 else many or f'{one}s'}" if n else ""


def _confirmed(lines: list[str], removal: Removal, terminal: Terminal) -> bool:
    """Whether the user agrees. Raises UsageError where nobody can be asked."""
    if not (terminal.stdin_is_tty and terminal.stderr_is_tty):
        raise UsageError(
            f"this deletes {decimal(removal.freed_bytes)}, and there is no terminal to ask on",
            hint="add `--yes`, or see with `--dry-run` what it deletes",
        )
    terminal.stderr.write("".join(f"{line}\n" for line in lines) + "go on? [y/N] ")
    terminal.stderr.flush()
    return terminal.stdin.readline().strip().lower() in ("y", "yes")
