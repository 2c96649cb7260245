"""The commands as Typer has them, as values: what the reference and the man page are made of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from spec_cli.cli.app import app
from spec_cli.cli.late import real

_EXTRAS = re.compile(r"\s*\[(?:default: \(?(.*?)\)?|required)(; .*)?\]$", re.DOTALL)
_EXAMPLES = re.compile(r"\n*\x08\nExamples?:\n(.*)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Parameter:
    """An option or an argument: how it is written, what it does, and what holds without it."""

    written: str
    help: str
    default: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command; `panels` are its parameters by the heading under which the help shows them."""

    name: str
    usage: str
    description: str
    examples: tuple[str, ...]
    panels: dict[str, tuple[Parameter, ...]]


def commands() -> Iterator[Command]:
    """Every command of the program, the program itself first, in the order of the help."""
    root = get_command(app)
    yield from _walk(root, typer.Context(root, info_name="spec-cli"))


def _walk(command: Any, context: typer.Context) -> Iterator[Command]:
    yield _command(command, context)
    if isinstance(command, TyperGroup):
        for name, entry in command.commands.items():
            child = real(entry)
            yield from _walk(child, typer.Context(child, parent=context, info_name=name))


def _command(command: Any, context: typer.Context) -> Command:
    text = (command.help or "").strip()
    examples = _EXAMPLES.search(text)
    panels: dict[str, list[Parameter]] = {}
    for parameter in command.params:
        if record := parameter.get_help_record(context):
            panels.setdefault(_panel(parameter), []).append(_parameter(*record))
    pieces = (piece.strip("{}") for piece in command.collect_usage_pieces(context))
    return Command(
        name=context.command_path,
        usage=" ".join([context.command_path, *pieces]),
        description=_EXAMPLES.sub("", text),
        examples=tuple(line.strip() for line in examples[1].splitlines()) if examples else (),
        panels={heading: tuple(parameters) for heading, parameters in panels.items()},
    )


def _panel(parameter: Any) -> str:
    return parameter.rich_help_panel or f"{parameter.param_type_name.capitalize()}s"


def _parameter(written: str, text: str) -> Parameter:
    extras = _EXTRAS.search(text)
    default = "".join(part or "" for part in extras.groups()) if extras else ""
    return Parameter(written.removesuffix(" <str>"), _EXTRAS.sub("", text), default)
