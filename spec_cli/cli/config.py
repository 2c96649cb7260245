"""`spec-cli config`: which settings hold, and where each of them comes from."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any

import typer

from spec_cli.cli.config_command import (
    configured_commands,
    load_configuration,
    parsed,
    show_notices,
)
from spec_cli.cli.config_file import Given
from spec_cli.cli.config_settings import Scope, Setting, settings_of
from spec_cli.cli.config_sources import CONFIG_VARIABLE, NO_CONFIG, user_file
from spec_cli.cli.guard import guarded
from spec_cli.cli.usage import Command, Group
from spec_cli.errors import UsageError, one_of
from spec_cli.names import nearest
from spec_cli.render.blocks import aligned
from spec_cli.render.inert import one_line
from spec_cli.render.stdout import Stdout
from spec_cli.terminal import detect

SCHEMA = "spec-cli/config/1"
_DEFAULT = "default"

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="Show the settings in effect, and where each comes from.",
)


def show(
    context: typer.Context,
    command: Annotated[
        str, typer.Argument(metavar="COMMAND", help="The command whose settings to show.")
    ] = "run",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show each setting of a command, its value, and where the value comes from.

    \b
    Examples:
      spec-cli config show
      SPEC_CLI_TEMP=0.2 spec-cli config show
      spec-cli config show bench --json
    """
    commands = configured_commands(context)
    if command not in commands:
        near = nearest(command, commands)
        hint = f"did you mean `{near}`?" if near else f"give {one_of(commands)}"
        raise UsageError(f"`{command}` is not a command with settings", hint=hint)
    configuration = load_configuration(commands)
    show_notices(configuration)
    rows = []
    for setting in dict.fromkeys(settings_of(commands[command]).values()):
        if setting.refusal(Scope.USER) is None:
            given = configuration.given(command, setting)
            value = setting.option.default
            rows.append((setting, given, parsed(setting, given, context) if given else value))
    stdout = Stdout(detect().stdout)
    if as_json:
        settings = [_as_json(*row) for row in rows]
        report = {"schema": SCHEMA, "command": command, "settings": settings}
        stdout.write(json.dumps(report, indent=2) + "\n")
        return
    texts = [(s.key, _text(s, given, value), _origin(given)) for s, given, value in rows]
    stdout.write("".join(f"{line}\n" for line in aligned(texts)))


def path() -> None:
    """Print the path of your settings file, which need not exist yet."""
    if os.environ.get(CONFIG_VARIABLE) == NO_CONFIG:
        raise UsageError(f"`{CONFIG_VARIABLE}={NO_CONFIG}` is set: no file is read")
    Stdout(detect().stdout).write(f"{user_file(os.environ)}\n")


app.command("show", cls=Command)(guarded(show))
app.command("path", cls=Command)(guarded(path))


def _text(setting: Setting, given: Given | None, value: Any) -> str:
    """A value for people: words for what is decided later, on one line."""
    if given is None and isinstance(setting.option.show_default, str):
        return setting.option.show_default
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return one_line(", ".join(value) if isinstance(value, list) else str(value))


def _origin(given: Given | None) -> str:
    if given is None:
        return _DEFAULT
    origin = given.origin
    return one_line(origin.name if origin.line is None else f"{origin.name}:{origin.line}")


def _as_json(setting: Setting, given: Given | None, value: Any) -> dict[str, object]:
    origin = given and given.origin
    return {
        "key": setting.key,
        "value": value,
        "origin": {
            "kind": str(origin.scope) if origin else _DEFAULT,
            "name": origin and origin.name,
            "line": origin and origin.line,
        },
    }
