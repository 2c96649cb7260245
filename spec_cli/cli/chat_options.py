"""The options of `spec-cli chat` that no other command has."""

from __future__ import annotations

from typing import Annotated

import typer

Message = Annotated[
    str | None,
    typer.Argument(
        metavar="MESSAGE",
        help="The first message, or a command; more come from the terminal or the pipe.",
        show_default=False,
    ),
]
DropOldest = Annotated[
    bool,
    typer.Option(
        "--drop-oldest",
        help="Drop the oldest turns where the context has no more room, instead of refusing.",
        rich_help_panel="Prompt",
    ),
]
