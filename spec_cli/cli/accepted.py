"""What values an option or an argument takes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, get_origin

from typer.core import TyperArgument, TyperOption

from spec_cli.errors import UsageError, one_of, wrong_value, wrong_word

Parameter = TyperOption | TyperArgument


@dataclass(frozen=True, slots=True)
class Accepted:
    """The values of `parameter`, as it is declared."""

    parameter: Parameter

    @property
    def kind(self) -> Any:
        """Their type."""
        return self.parameter.type_descriptor.annotation

    @property
    def metavars(self) -> list[str]:
        """What stands for a value in the help."""
        return (self.parameter.metavar or "").split("|")

    @property
    def is_repeatable(self) -> bool:
        """Whether there may be several."""
        return get_origin(self.kind) is list

    @property
    def is_list(self) -> bool:
        """Whether one value is a list, with commas."""
        return self.parameter.metavar == "LIST"

    @property
    def is_number_or_word(self) -> bool:
        """Whether it is a number, or a word in its place."""
        return self.kind is str and "N" in self.metavars

    @property
    def choices(self) -> list[str]:
        """All of them, where they are few."""
        is_enum = isinstance(self.kind, type) and issubclass(self.kind, Enum)
        return [str(choice.value) for choice in self.kind] if is_enum else []

    @property
    def words(self) -> str:
        """What a value must be."""
        if self.is_repeatable:
            return "a string or an array of strings"
        if self.is_list:
            return "a string, a number, or an array of them"
        if self.choices:
            return one_of(self.choices)
        if self.is_number_or_word:
            *others, last = ("a number", *(f"`{word}`" for word in self.metavars if word != "N"))
            return f"{', '.join(others)} or {last}"
        words = {bool: "true or false", int: "an integer", float: "a number"}
        return words.get(self.kind, "a string")

    def refusal(self, name: str, value: object) -> UsageError:
        """The error of `value`, which is none of them; `name` is what has it."""
        if self.choices:
            return wrong_word(name, value, self.choices)
        return wrong_value(name, value, self.words)
