"""The options of `spec-cli run` for many prompts, and what does not go together with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from spec_cli.cli.option_values import refuse_both
from spec_cli.errors import UsageError, wrong_value
from spec_cli.spec.settings import MAX_ROWS

STREAM = "-"  # a standard stream, in place of a file's name

_BATCH = "Many prompts"

Input = Annotated[
    str | None,
    typer.Option(
        "--input",
        metavar="FILE",
        help='Answer each line of FILE, JSON with `"prompt"` or `"messages"`; `-` means stdin.',
        rich_help_panel=_BATCH,
    ),
]
Parallel = Annotated[
    int,
    typer.Option(
        "--parallel",
        metavar="N",
        help="Answer N lines at a time, in shared passes.",
        rich_help_panel=_BATCH,
    ),
]


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Where lines come from and results go: a file, or STREAM.

    `has_seed`: the seed was asked for, not drawn. `quiet`: nothing but warnings on stderr.
    `no_tui`: no live display.
    """

    source: str
    output: str
    parallel: int
    has_seed: bool
    quiet: bool
    no_tui: bool


def batch_options(
    source: str | None,
    output: Path | None,
    parallel: int,
    *,
    has_seed: bool,
    quiet: bool,
    no_tui: bool,
    others: Mapping[str, bool],
) -> BatchOptions | None:
    """What was asked for; None where it is one prompt.

    `others` says of options for one prompt whether they were given. Raises UsageError.
    """
    if source is None:
        if parallel != 1:
            raise UsageError("`--parallel` is for many prompts", hint="give them with `--input`")
        return None
    if not 1 <= parallel <= MAX_ROWS:
        raise wrong_value("--parallel", parallel, f"from 1 to {MAX_ROWS}")
    for name, is_given in others.items():
        refuse_both("--input", True, name, is_given)
    return BatchOptions(source, str(output or STREAM), parallel, has_seed, quiet, no_tui)
