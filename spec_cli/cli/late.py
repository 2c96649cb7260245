"""Commands that are loaded when they are asked for: help need not wait for all that they use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from spec_cli.cli.guard import guarded
from spec_cli.cli.usage import Command, Group


@dataclass(frozen=True, slots=True)
class Unloaded:
    """A command that is not loaded yet; `place` is a function or a Typer app, `module:attribute`.

    `summary` is the first line of its help. `takes_settings`: its options may be given beforehand.
    """

    place: str
    summary: str
    takes_settings: bool = False


class LateCommand(TyperCommand):
    """Stands for a command; the real one takes over when its arguments are to be parsed."""

    def __init__(self, name: str, unloaded: Unloaded) -> None:
        super().__init__(name, help=unloaded.summary)
        self.takes_settings = unloaded.takes_settings
        self._place = unloaded.place

    @cached_property
    def loaded(self) -> TyperCommand | TyperGroup:
        """The command itself."""
        module, _, attribute = self._place.partition(":")
        found = getattr(import_module(module), attribute)
        if isinstance(found, typer.Typer):
            return get_group(found)
        alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
        if self.takes_settings:
            from spec_cli.cli.config_command import ConfiguredCommand

            alone.command(self.name, cls=ConfiguredCommand)(found)
        else:
            alone.command(self.name, cls=Command)(guarded(found))
        command = get_command(alone)
        assert isinstance(command, TyperCommand)
        return command

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """That of the command itself."""
        return self.loaded.make_context(*args, **extra)


def group_of(commands: Mapping[str, Unloaded]) -> type[TyperGroup]:
    """The class of a group that has these commands, by name."""

    class LateGroup(Group):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            for name, unloaded in commands.items():
                self.add_command(LateCommand(name, unloaded))

        def get_params(self, ctx: Any) -> list[Any]:
            """Those of the group. A flag that nobody gave is False: Typer has None, and would load
            pydantic to convert it."""
            params = super().get_params(ctx)
            for option in params:
                if option.default is None and getattr(option, "is_flag", False):
                    option.default = False
            return params

    return LateGroup


def real(command: Any) -> Any:
    """The command itself, where `command` only stands for it."""
    return command.loaded if isinstance(command, LateCommand) else command


def commands_with_settings(group: Any) -> dict[str, TyperCommand]:
    """The commands of `group` whose options may be given beforehand, by name."""
    late = [c for c in group.commands.values() if isinstance(c, LateCommand) and c.takes_settings]
    loaded = [command.loaded for command in late]
    return {str(command.name): command for command in loaded if isinstance(command, TyperCommand)}
