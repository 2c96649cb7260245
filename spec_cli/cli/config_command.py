"""Commands whose options may be given beforehand, by the environment or in files."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from typing import Any

import typer
from typer.core import TyperCommand

from spec_cli.cli.config_file import Given
from spec_cli.cli.config_settings import Scope, Setting, settings_of
from spec_cli.cli.config_sources import Configuration, is_anything_given, read_files
from spec_cli.cli.guard import guarded
from spec_cli.cli.late import commands_with_settings
from spec_cli.cli.usage import Command
from spec_cli.errors import SpecError
from spec_cli.render.notices import Notices
from spec_cli.terminal import detect


class ConfiguredCommand(Command):
    """A guarded command. What its command line leaves open is looked up before it runs.

    An error that speaks of such an option says where the value came from.
    """

    def invoke(self, ctx: Any) -> Any:
        """Settle the options, and call the command. Leaves by `typer.Exit` or normally."""
        return guarded(self._run)(ctx)

    def _run(self, ctx: typer.Context) -> None:
        used = self._settle(ctx) if is_anything_given(os.environ) else {}
        try:
            super().invoke(ctx)
        except SpecError as error:
            error.message += _origins(error.message, used)
            raise

    def _settle(self, ctx: typer.Context) -> dict[str, Given]:
        """Look up what the command line leaves open; what was found, by flag. Raises UsageError.

        This loads every command that takes settings, to tell a wrong name from one of another.
        """
        configuration = load_configuration(configured_commands(ctx))
        show_notices(configuration)
        used: dict[str, Given] = {}
        for setting in dict.fromkeys(settings_of(self).values()):
            if any(_is_typed(name, ctx) for name in setting.parameters):
                continue
            if given := configuration.given(str(self.name), setting):
                ctx.params[setting.option.name] = parsed(setting, given, ctx)
                used[setting.flag] = given
        return used


def configured_commands(ctx: typer.Context) -> dict[str, TyperCommand]:
    """The commands of this program that take settings, by name."""
    return commands_with_settings(ctx.find_root().command)


def load_configuration(commands: Mapping[str, TyperCommand]) -> Configuration:
    """What was given beforehand. Raises UsageError."""
    settings = {name: settings_of(command) for name, command in commands.items()}
    return Configuration(settings, os.environ, read_files(os.environ))


def show_notices(configuration: Configuration) -> None:
    """Tell the user what is wrong with the environment."""
    with Notices(detect().stderr, quiet=False, beside_text=False) as shown:
        for notice in configuration.notices():
            shown.handle(notice)


def parsed(setting: Setting, given: Given, ctx: typer.Context) -> Any:
    """The value as the option's own parser understands it. Raises UsageError."""
    try:
        if given.origin.scope is Scope.ENVIRONMENT:
            value = setting.from_text(str(given.value))
        else:
            value = setting.from_toml(given.value)
        value = setting.option.process_value(ctx, value)
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(value)
        return value
    except (ValueError, typer.BadParameter):
        error = setting.accepted.refusal(setting.flag, given.value)
        error.message += _origin(given)
        raise error from None


def _is_typed(parameter: str, ctx: typer.Context) -> bool:
    source = ctx.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def _origins(message: str, used: Mapping[str, Given]) -> str:
    """Where the values that an error's `message` speaks of came from, in brackets."""
    named = {f: g for f, g in used.items() if re.search(rf"{re.escape(f)}(?![\w-])", message)}
    if not named:
        named = {f: g for f, g in used.items() if f"`{g.value}`" in message}
    if len(named) == 1:
        return _origin(*named.values())
    sources = ", ".join(f"{flag} from {given.origin}" for flag, given in named.items())
    return f" ({sources})" if sources else ""


def _origin(given: Given) -> str:
    return f" (from {given.origin})"
