"""The commands of `spec-cli models`; alone, it lists."""

from __future__ import annotations

from collections.abc import Callable

import typer

from spec_cli.cli.guard import guarded
from spec_cli.cli.models import check, edit, listing, path, pull, remove, show, suggest
from spec_cli.cli.models.listing import AsJson, Files
from spec_cli.cli.usage import Command, Group
from spec_cli.errors import UsageError

group = typer.Typer(cls=Group, rich_markup_mode="rich")


@group.callback(invoke_without_command=True)
@guarded
def models(context: typer.Context, files: Files = False, as_json: AsJson = False) -> None:
    """Models by name: list, look into, fetch, delete, pair up. Alone it lists the pairs.

    \b
    Examples:
      spec-cli models
      spec-cli models show qwen3-8b
      spec-cli models suggest ./target.gguf
    """
    if context.invoked_subcommand is None:
        listing.list_models(files=files, as_json=as_json)
    elif files or as_json:
        option = "--json" if as_json else "--files"
        hint = f"write `spec-cli models {context.invoked_subcommand} {option}`"
        raise UsageError(f"{option} stands before the command", hint=hint)


_COMMANDS: dict[str, Callable[..., None]] = {
    "list": listing.list_models,
    "show": show.show,
    "pull": pull.pull,
    "rm": remove.rm,
    "path": path.path,
    "check": check.check,
    "suggest": suggest.suggest,
    "add": edit.add,
    "forget": edit.forget,
}

for name, command in _COMMANDS.items():
    group.command(name, cls=Command)(guarded(command))
