"""The arguments and options that the commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from spec_cli.cli.completion import complete_draft_model, complete_pair

_FORMS = "`user/repo:QUANT`, `hf://user/repo/x.gguf`, or a path"

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help=f"A pair from `spec-cli models`, {_FORMS}.",
        autocompletion=complete_pair,
    ),
]
Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help=f"The target: {_FORMS}; a pair's name means its target.",
        autocompletion=complete_pair,
    ),
]
Draft = Annotated[
    str | None,
    typer.Argument(
        metavar="DRAFT",
        help="The draft model, named the same way.",
        show_default=False,
        autocompletion=complete_draft_model,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Files = Annotated[
    bool, typer.Option("--files", help="List the GGUF files in the Hugging Face cache instead.")
]
