"""The options of `spec-cli run` for many prompts, and what does not go together with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from spec_cli.cli.options import require_one
from spec_cli.errors import UsageError

STREAM = "-"

_BATCH = "Many prompts"

Input = Annotated[
    str | None,
    typer.Option(
        "--input",
        metavar="FILE",
        help='Answer each line of FILE: JSON with `"prompt"` or `"messages"`. `-` is stdin.',
        rich_help_panel=_BATCH,
    ),
]
Output = Annotated[
    str,
    typer.Option(
        "--output",
        metavar="FILE",
        help="Where the results go, a JSON object a line. A FILE that has some is continued.",
        show_default="stdout",
        rich_help_panel=_BATCH,
    ),
]


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Where lines come from and results go; `-` is a standard stream.

    `has_seed`: the seed was asked for, not drawn. `quiet`: nothing but warnings on stderr.
    `no_tui`: no live display.
    """

    source: str
    output: str
    has_seed: bool
    quiet: bool
    no_tui: bool


def batch_options(
    source: str | None,
    output: str,
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
        if output != STREAM:
            raise UsageError("`--output` is for many prompts", hint="give them with `--input`")
        return None
    for name, is_given in others.items():
        require_one("--input", True, name, is_given)
    return BatchOptions(source, output, has_seed, quiet, no_tui)
