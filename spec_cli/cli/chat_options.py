"""The options of `spec-cli chat` that no other command has."""

from __future__ import annotations

from typing import Annotated

import typer

Message = Annotated[
    str | None,
    typer.Argument(
        metavar="MESSAGE",
        help="The first message or command; more come from the terminal or a pipe.",
        show_default=False,
    ),
]
DropOldest = Annotated[
    bool,
    typer.Option(
        "--drop-oldest",
        help="When the context is full, drop the oldest turns instead of refusing a message.",
        rich_help_panel="Prompt",
    ),
]
