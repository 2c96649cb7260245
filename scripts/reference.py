"""Write docs/reference.md and the man page docs/spec-cli.1, from the commands as declared.

Exit codes, variables and files are in tables of other documents, and come from there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from command_tree import Command, Parameter, commands

from spec_cli import __version__

ROOT = Path(__file__).resolve().parent.parent
REFERENCE, MAN_PAGE = ROOT / "docs" / "reference.md", ROOT / "docs" / "spec-cli.1"
_EXIT_CODES = ("README.md", "Exit codes")
_VARIABLES = ("docs/configuration.md", "Environment")
_FILES = ("docs/files.md", "Where")
_SPAN = re.compile(r"(`[^`]+`)")
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")


def reference() -> str:
    """The reference as Markdown."""
    parts = ["# Command line", _introduction(), *map(_section, commands())]
    codes = ["| Code | Meaning |", "|---|---|", *(f"| {c} | {m} |" for c, m in table(*_EXIT_CODES))]
    return "\n\n".join([*parts, "## Exit codes", "\n".join(codes)]) + "\n"


def table(document: str, heading: str) -> list[list[str]]:
    """The rows of the first table below a heading of a document, as cells, without its head."""
    text = (ROOT / document).read_text(encoding="utf-8")
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def _introduction() -> str:
    return (
        "Every command explains itself with `-h` or `--help`. Options may come before or after "
        "arguments; after `--`, everything is an argument. Defaults can be changed: see "
        "[configuration.md](configuration.md).\n\n"
        "`python scripts/reference.py` writes this page and the man page from the program."
    )


def _section(command: Command) -> str:
    parts = [f"## {command.name}", f"    {command.usage}", command.description]
    if command.examples:
        parts.append("\n".join(f"    {line}" for line in ("# Examples", *command.examples)))
    parts += [_panel(heading, rows) for heading, rows in command.panels.items()]
    return "\n\n".join(parts)


def _panel(heading: str, parameters: tuple[Parameter, ...]) -> str:
    rows = [f"| {heading} | Meaning | Default |", "|---|---|---|"]
    for parameter in parameters:
        cells = (f"`{parameter.written}`", parameter.help, parameter.default)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def man_page() -> str:
    """The man page, in the macros of man(7)."""
    return "\n".join(_man_lines()) + "\n"


def _man_lines() -> Iterator[str]:
    root, *others = commands()
    yield f'.TH SPEC-CLI 1 "" "spec-cli {__version__}" "User Commands"'
    yield from (".SH NAME", "spec\\-cli \\- run a language model by speculative decoding")
    yield from (".SH SYNOPSIS", f".B {_roff(root.usage)}")
    yield from (".SH DESCRIPTION", _roff(root.description), ".PP")
    yield "The answer is on standard output, everything else on standard error."
    yield "Every command explains itself with \\fB\\-\\-help\\fR."
    yield from _man_options(root)
    yield ".SH COMMANDS"
    for command in others:
        yield from _man_command(command)
    for heading, source in (
        ("EXIT STATUS", _EXIT_CODES),
        ("ENVIRONMENT", _VARIABLES),
        ("FILES", _FILES),
    ):
        yield f".SH {heading}"
        for name, meaning, *_ in table(*source):
            yield from (".TP", _bold(name.replace("`", "")), _roff(meaning))


def _man_command(command: Command) -> Iterator[str]:
    yield from (f".SS {_roff(command.usage)}", _roff(command.description))
    yield from _man_options(command)
    if command.examples:
        yield from (".PP", "Examples:", ".PP", ".nf", ".RS", *map(_roff, command.examples))
        yield from (".RE", ".fi")


def _man_options(command: Command) -> Iterator[str]:
    for parameters in command.panels.values():
        for parameter in parameters:
            default = f" Default: {parameter.default}." if parameter.default else ""
            yield from (".TP", _bold(parameter.written), _roff(parameter.help + default))


def _bold(text: str) -> str:
    return f"\\fB{_roff(text)}\\fR"


def _roff(text: str) -> str:
    """`text` as roff: paragraphs apart, code in bold, nothing taken for a request or an escape."""
    text = _LINK.sub(r"\1", text).replace("\\", "\\e").replace("-", "\\-")
    text = _SPAN.sub(lambda span: f"\\fB{span[0][1:-1]}\\fR", text)
    return re.sub(r"^(?=[.'])", "\\&", text, flags=re.MULTILINE).replace("\n\n", "\n.PP\n")


def main() -> None:
    """Write both."""
    for path, text in ((REFERENCE, reference()), (MAN_PAGE, man_page())):
        path.write_text(text, encoding="utf-8")
        sys.stderr.write(f"wrote {path.name}\n")


if __name__ == "__main__":
    main()
