"""A group of options is one argument to a command, and options to whoever looks at it."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Annotated, get_type_hints

import typer
from typer.testing import CliRunner

from spec_cli.cli.grouped import grouped

Size = Annotated[int, typer.Option("--size", "-s", help="How large.")]
Name = Annotated[str, typer.Option("--name", help="What it is called.")]


@dataclass(frozen=True, slots=True)
class Shape:
    size: Size = 3
    round: Annotated[bool, typer.Option("--round")] = False


def told(*args: str) -> str:
    app = typer.Typer()

    @app.command()
    @grouped
    def tell(*, name: Name = "it", shape: Shape, loud: bool = False) -> None:
        """Tell what was given."""
        print(name, shape, loud)

    done = CliRunner().invoke(app, args)
    assert done.exit_code == 0, done.output
    return done.output.strip()


def test_options_of_a_group_are_given_as_any_other_and_arrive_together() -> None:
    assert told() == "it Shape(size=3, round=False) False"
    assert told("-s", "5", "--name", "x", "--loud", "--round") == "x Shape(size=5, round=True) True"


def test_the_help_shows_them_in_their_place() -> None:
    text = told("--help")
    at = [text.index(flag) for flag in ("--name", "--size", "--round", "--loud")]
    assert at == sorted(at) and "How large." in text and "Tell what was given." in text


def test_the_signature_and_the_hints_are_those_of_the_options() -> None:
    @grouped
    def command(*, shape: Shape) -> None:
        """Nothing."""

    assert list(signature(command).parameters) == ["size", "round"]
    assert get_type_hints(command, include_extras=True)["size"] == Size
