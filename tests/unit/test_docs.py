"""What the documents show can be typed, links lead somewhere, and nothing generated is stale."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from spec_cli import __version__
from spec_cli.calibration import PASS_TIMES
from spec_cli.cli.app import app
from spec_cli.cli.config_settings import settings_of
from spec_cli.cli.config_sources import CONFIG_VARIABLE
from spec_cli.cli.guard import DEBUG_VARIABLE
from spec_cli.cli.late import commands_with_settings, real
from spec_cli.draft_copy import DIGESTS
from spec_cli.exactness import PLANS
from spec_cli.learned import ACCEPTANCE
from spec_cli.state import PARALLEL_PLANS, REHEARSED

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import command_tree
import reference

ROOT = reference.ROOT
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])
TREE: Any = get_command(app)
_OPERATORS = set("|&;<>()")
_PROGRAM = re.compile(r"(?<![\w/~.-])(\.venv/bin/)?spec-cli\b(?![/.'-])")


def block_lines(page: Path) -> Iterator[str]:
    """The lines of blocks of code, those that go on joined."""
    for block in re.findall(r"^```\w*\n.*?^```|(?:^ {4}[^\n]*\n)+", page.read_text(), re.M | re.S):
        yield from block.replace("\\\n", " ").splitlines()


def spans(page: Path) -> list[str]:
    """Code within sentences."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    return re.findall(r"`([^`\n]+)`", prose)


def words_of(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(lexer)


def calls(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Each `spec-cli ...` of the lines, and its words as far as the next operator of the shell."""
    for line in lines:
        if "[OPTIONS]" in line or not _PROGRAM.search(line):
            continue
        words = words_of(line)
        for start in (i for i, word in enumerate(words) if word.rpartition("/")[2] == "spec-cli"):
            rest = words[start + 1 :]
            end = next((i for i, word in enumerate(rest) if set(word) <= _OPERATORS), len(rest))
            yield line.strip(), rest[:end]


def resolved(words: list[str]) -> tuple[Any, list[str]]:
    """The command that `words` name, and what is left of them."""
    command = TREE
    while isinstance(command, TyperGroup) and words and words[0] in command.commands:
        command, words = real(command.commands[words[0]]), words[1:]
    return command, words


def path_of(words: list[str]) -> tuple[str, ...]:
    """Those of `words` that name the command."""
    return tuple(words[: len(words) - len(resolved(words)[1])])


TYPED = [(page, *call) for page in PAGES for call in calls(block_lines(page))]
NAMED = [(page, *call) for page in PAGES for call in calls(spans(page))]
SHOWN = TYPED + NAMED


@pytest.mark.parametrize(("page", "line", "words"), SHOWN, ids=[line for _, line, _ in SHOWN])
def test_every_command_shown_exists_with_its_flags(page: Path, line: str, words: list[str]) -> None:
    command, rest = resolved(words)
    if isinstance(command, TyperGroup):
        assert all(word.startswith("-") for word in rest), f"{page.name}: no such command"
    known = {"-h", "--help", "--"}
    for parameter in command.params:
        known |= {*parameter.opts, *parameter.secondary_opts}
    flags = {word.partition("=")[0] for word in rest if re.match(r"--?[a-zA-Z]", word)}
    assert flags <= known, page.name


@pytest.mark.parametrize(("page", "line", "words"), TYPED, ids=[line for _, line, _ in TYPED])
def test_the_program_takes_every_line_of_a_block(page: Path, line: str, words: list[str]) -> None:
    command, rest = resolved(words)
    if rest != ["--help"]:
        command.make_context(page.name, [*rest])  # raises where the command line is wrong


def test_every_command_that_is_shown_explains_itself() -> None:
    for path in {path_of(words) for _, _, words in SHOWN}:
        assert CliRunner().invoke(app, [*path, "--help"]).exit_code == 0


def test_every_command_is_shown_by_a_page_that_is_not_generated() -> None:
    shown = {path_of(words) for page, _, words in SHOWN if page != reference.REFERENCE}
    assert {tuple(command.name.split()[1:]) for command in command_tree.commands()} <= shown


def test_generated_pages_are_those_of_the_program() -> None:
    assert reference.REFERENCE.read_text() == reference.reference(), "run `make docs`"
    assert reference.MAN_PAGE.read_text() == reference.man_page(), "run `make docs`"


def test_the_reference_has_every_option_of_every_command() -> None:
    text = reference.REFERENCE.read_text()
    for command in command_tree.commands():
        section = text.partition(f"\n## {command.name}\n")[2].partition("\n## ")[0]
        for parameter in resolved(command.name.split()[1:])[0].params:
            if parameter.param_type_name == "option":
                assert all(opt in section for opt in (*parameter.opts, *parameter.secondary_opts))


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff")
def test_the_man_page_is_valid_roff() -> None:
    command = ["groff", "-man", "-Tutf8", "-ww", reference.MAN_PAGE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert f"spec-cli {__version__}" in done.stdout


def test_the_man_page_is_installed() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    shared = build["targets"]["wheel"]["shared-data"]
    assert shared == {"docs/spec-cli.1": "share/man/man1/spec-cli.1"}


def anchors(page: Path) -> set[str]:
    """The names that headings of a page can be linked by."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        file = (page.parent / path) if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def test_the_index_has_every_page() -> None:
    listed = set(re.findall(r"\]\(([^)]+)\)", (DOCS / "README.md").read_text()))
    assert listed == {page.name for page in DOCS.glob("*.md")} - {"README.md"} | {"spec-cli.1"}


def test_variables_that_are_named_exist() -> None:
    commands = commands_with_settings(TREE).values()
    known = {v for c in commands for s in settings_of(c).values() for v in s.variables}
    known |= {CONFIG_VARIABLE, DEBUG_VARIABLE, "SPEC_CLI_BACKEND"}
    for page in PAGES:
        assert set(re.findall(r"\bSPEC_CLI_[A-Z_]*[A-Z]\b", page.read_text())) <= known, page.name


def test_every_kind_of_measurement_is_in_the_table_of_files() -> None:
    rows = reference.table("docs/files.md", "Where")
    named = {path.strip("`").rpartition("/")[2] for path, *_ in rows}
    assert {PLANS, PASS_TIMES, DIGESTS, ACCEPTANCE, REHEARSED, PARALLEL_PLANS} <= named


def test_the_session_is_a_picture_with_the_panel_in_it() -> None:
    picture = ElementTree.parse(DOCS / "session.svg")
    text = "".join(picture.getroot().itertext()).replace("\xa0", " ")
    assert "tok/pass" in text and "spec-cli run" in text


def test_the_changelog_has_this_version() -> None:
    assert f"\n## [{__version__}] - " in (ROOT / "CHANGELOG.md").read_text()
