"""The commands of `spec-cli models`; alone, it lists."""

from __future__ import annotations

import typer

from spec_cli.cli.guard import guarded
from spec_cli.cli.late import Unloaded, group_of
from spec_cli.cli.models.options import AsJson, Files
from spec_cli.errors import UsageError

COMMANDS = {
    "list": Unloaded(
        "spec_cli.cli.models.listing:list_models",
        "List the pairs known by name; `*` marks the default.",
    ),
    "show": Unloaded(
        "spec_cli.cli.models.show:show", "Show everything known about a pair or a model."
    ),
    "pull": Unloaded(
        "spec_cli.cli.models.pull:pull",
        "Download a model, or both models of a pair, into the Hugging Face cache.",
    ),
    "rm": Unloaded(
        "spec_cli.cli.models.remove:rm",
        "Delete a pair or model: its cached files, copies of its draft, and its measurements.",
    ),
    "path": Unloaded(
        "spec_cli.cli.models.path:path",
        "Print the path of a model's file and nothing else; of a split model, the first part.",
    ),
    "check": Unloaded(
        "spec_cli.cli.models.check:check",
        "Check whether a draft fits a target, and predict what drafting would gain here.",
    ),
    "suggest": Unloaded(
        "spec_cli.cli.models.suggest:suggest",
        "Find drafts for a target, in the cache and among the pairs known by name.",
    ),
    "add": Unloaded(
        "spec_cli.cli.models.edit:add",
        "Give a target and its draft a name, in the models.toml of your configuration directory.",
    ),
    "forget": Unloaded(
        "spec_cli.cli.models.edit:forget",
        "Remove a pair from the models.toml of your configuration directory; delete no files.",
    ),
}

group = typer.Typer(cls=group_of(COMMANDS), rich_markup_mode="rich")


@group.callback(invoke_without_command=True)
@guarded
def models(context: typer.Context, files: Files = False, as_json: AsJson = False) -> None:
    """List, inspect, download, delete and pair up models. Alone, it lists the pairs.

    \b
    Examples:
      spec-cli models
      spec-cli models show qwen3-8b
      spec-cli models suggest ./target.gguf
    """
    if context.invoked_subcommand is None:
        from spec_cli.cli.models.listing import list_models

        list_models(files=files, as_json=as_json)
    elif files or as_json:
        option = "--json" if as_json else "--files"
        hint = f"write `spec-cli models {context.invoked_subcommand} {option}`"
        raise UsageError(f"{option} stands before the command", hint=hint)
