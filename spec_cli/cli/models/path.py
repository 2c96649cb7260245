"""`spec-cli models path`: where a model's file is, for scripts."""

from __future__ import annotations

from typing import Annotated

import typer

from spec_cli import download
from spec_cli.cli.models.options import Name
from spec_cli.errors import ModelError
from spec_cli.registry import load_registry
from spec_cli.terminal import detect


def path(
    name: Name,
    draft: Annotated[
        bool,
        typer.Option(
            "--draft", help="Print the path of the pair's draft model instead of its target."
        ),
    ] = False,
) -> None:
    """Print the path of a model's file and nothing else; of a split model, the first part.

    \b
    Example:
      llama-bench -m "$(spec-cli models path qwen3-8b)"
    """
    pair = load_registry().pair(name)
    ref = pair.draft if draft else pair.target
    if ref is None:
        raise ModelError(f"`{name}` has no draft model")
    found = download.cached(ref)
    if found is None:
        raise ModelError(f"`{ref.name}` is not in the cache", hint=f"run `spec-cli pull {name}`")
    detect().stdout.write(f"{found.path}\n")
