"""Settings: the options of commands that may be given beforehand, as the commands declare them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args, get_type_hints

from typer.core import TyperCommand, TyperOption

from spec_cli.cli.accepted import Accepted
from spec_cli.cli.verify_options import PairName

PREFIX = "SPEC_CLI_"

_BOOLS = {"1": True, "true": True, "0": False, "false": False}
_FILE_METAVARS = ("FILE", "DIR")
_STANDING_FILES = ("chat-template",)  # named once for a model, and only read
_OTHER_WORK = "it asks for something other than the usual work"
_FOR_ONE_RUN = {
    "estimate": _OTHER_WORK,
    "synthetic": _OTHER_WORK,
    "logprobs": "it has no place in plain text",
}
_PROJECT_PANELS = ("Models", "Drafting", "Sampling", "Output", "Machine")
_READER = "scripts rely on what is printed"
_USERS_OWN = {
    "index": "only you decide whether answers are kept",
    "offline": "only you decide whether the network is used",
    "echo": _READER,
    "json": _READER,
    "jsonl": _READER,
    "format": _READER,
}


class Scope(StrEnum):
    """Where a value can come from besides the command line."""

    ENVIRONMENT = "environment"
    PROJECT = "project"
    USER = "user"


@dataclass(frozen=True, slots=True)
class Setting:
    """One option of a command. `keys` are its names in files, the usual one first.

    `declared` is its annotation. Where two commands share it, the option means the same to both.
    `parameters` are the names of the option, and of an argument that may stand in its place.
    """

    option: TyperOption
    declared: Any
    keys: tuple[str, ...]
    parameters: tuple[str, ...]

    @property
    def key(self) -> str:
        """Its usual name."""
        return self.keys[0]

    @property
    def flag(self) -> str:
        """Its usual flag."""
        return f"--{self.key}"

    @property
    def variables(self) -> tuple[str, ...]:
        """Its names in the environment."""
        return tuple(PREFIX + key.upper().replace("-", "_") for key in self.keys)

    def refusal(self, scope: Scope) -> str | None:
        """Why it cannot be set there; None where it can."""
        if self._names_file and self.key not in _STANDING_FILES:
            return "it names a file for a single run"
        if self.key in _FOR_ONE_RUN:
            return _FOR_ONE_RUN[self.key]
        if scope is not Scope.PROJECT:
            return None
        if self._panel not in _PROJECT_PANELS:
            return "only you decide what is asked"
        return _USERS_OWN.get(self.key)

    @property
    def accepted(self) -> Accepted:
        """What values it takes."""
        return Accepted(self.option)

    def from_text(self, text: str) -> object:
        """What the option's parser takes for the `text` of a variable. Raises ValueError."""
        if self.accepted.kind is bool:
            if text.lower() not in _BOOLS:
                raise ValueError(text)
            return _BOOLS[text.lower()]
        return [text] if self.accepted.is_repeatable else text

    def from_toml(self, value: object) -> object:
        """What the option's parser takes for a value of a file. Raises ValueError."""
        items = value if isinstance(value, list) else [value]
        if self.accepted.is_repeatable:
            _require_types(items, str)
            return items
        if self.accepted.is_list:
            _require_types(items, str, int, float)
            return ",".join(map(str, items))
        if self.accepted.kind is bool:
            _require_types([value], bool)
            return value
        _require_types([value], *self._toml_types)
        return str(value)

    @property
    def _panel(self) -> object:
        """The panel of the help in which the option is declared to stand."""
        return get_args(self.declared)[1].rich_help_panel

    @property
    def _toml_types(self) -> tuple[type, ...]:
        if self.accepted.kind is float:
            return (int, float)
        if self.accepted.kind is int:
            return (int,)
        return (str, int) if self.accepted.is_number_or_word else (str,)

    @property
    def _names_file(self) -> bool:
        kind = self.accepted.kind
        is_path = kind is Path or get_args(kind) == (Path,)
        return is_path or any(word.startswith(_FILE_METAVARS) for word in self.accepted.metavars)


def settings_of(command: TyperCommand) -> dict[str, Setting]:
    """The options of `command` by all their names in files, in the order of their declaration.

    They are called as their long flags. An argument that names the model stands for `--model`.
    """
    hints = get_type_hints(command.callback, include_extras=True)
    stand_ins = {"model": [name for name, hint in hints.items() if hint == PairName]}
    found: dict[str, Setting] = {}
    for option in command.params:
        if isinstance(option, TyperOption):
            keys = tuple(flag[2:] for flag in option.opts if flag.startswith("--"))
            parameters = (option.name, *stand_ins.get(option.name, ()))
            setting = Setting(option, hints[option.name], keys, parameters)
            found.update(dict.fromkeys(keys, setting))
    return found


def _require_types(values: list[object], *allowed: type) -> None:
    if not all(type(value) in allowed for value in values):  # to isinstance, True is an int
        raise ValueError(values)
