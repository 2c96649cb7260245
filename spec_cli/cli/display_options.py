"""The options for how anything is shown."""

from __future__ import annotations

from typing import Annotated

import typer

from spec_cli.terminal import ColorMode

Color = Annotated[
    ColorMode,
    typer.Option(
        "--color",
        help="When to use colour. `auto`: on terminals, unless `NO_COLOR` or `FORCE_COLOR` is set.",
        rich_help_panel="Output",
    ),
]
