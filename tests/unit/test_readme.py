"""What the README and the docs say about flags, exit codes and models is what the program does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spec_cli.cli.app import app
from spec_cli.cli.guard import BROKEN_PIPE
from spec_cli.errors import ExitCode
from spec_cli.registry import load_registry

MODELS = ("list", "show", "pull", "rm", "path", "check", "suggest", "add", "forget")
ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text()
COMMANDS = (
    *("run", "chat", "bench", "verify", "pull", "models", "devices", "doctor", "config"),
    *(f"models {name}" for name in MODELS),
)


def help_of(*command: str) -> str:
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    return result.stdout


@pytest.fixture(scope="module")
def flags() -> set[str]:
    text = help_of() + "".join(help_of(*command.split()) for command in COMMANDS)
    return set(re.findall(r"--[a-z][a-z-]+", text))


def test_every_flag_that_the_readme_uses_with_spec_cli_exists(flags: set[str]) -> None:
    used: set[str] = set()
    for line in README.splitlines():
        for command in re.findall(r"spec-cli (?:run|chat|pull|models)[^|`>]*", line):
            used |= set(re.findall(r"(?<!\S)--[a-z][a-z-]+", command))
    assert used and used <= flags


def test_every_flag_in_the_readmes_table_exists(flags: set[str]) -> None:
    rows = [line for line in README.splitlines() if line.startswith("| `-")]
    named = {flag for row in rows for flag in re.findall(r"`(--[a-z][a-z-]+)", row.split("|")[1])}
    assert named and named <= flags


def test_the_readmes_table_of_commands_has_them_all() -> None:
    table = README.partition("## Commands")[2].partition("\n\n")[2].partition("\n\n")[0]
    named = set(re.findall(r"`spec-cli ([a-z]+)`", table))
    assert named == {name for name in COMMANDS if " " not in name}


def test_the_readmes_exit_codes_are_those_of_the_program() -> None:
    table = README.partition("## Exit codes")[2].partition("\n## ")[0]
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", table, flags=re.MULTILINE)}
    assert documented == {*ExitCode, BROKEN_PIPE}


def test_the_pairs_that_the_readme_names_are_in_the_registry() -> None:
    names = set(load_registry([ROOT / "models.toml"]).pairs)
    used = set(re.findall(r"-m ([a-z0-9.-]+)(?=\s)", README)) - {"pip", "spec_cli", "mine"}
    assert {name for name in used if "/" not in name} <= names
    assert f"`{load_registry([ROOT / 'models.toml']).default.name}`" in README


@pytest.mark.parametrize("path", re.findall(r"\]\((?!https?:)([^)#]+)", README))
def test_the_files_that_the_readme_links_to_exist(path: str) -> None:
    assert (ROOT / path).exists()
