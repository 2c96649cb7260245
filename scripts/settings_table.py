"""Write the table of settings in docs/configuration.md, from the options as they are declared."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from typer.main import get_command

from spec_cli.cli.app import app
from spec_cli.cli.config_settings import Scope, Setting, settings_of
from spec_cli.cli.late import commands_with_settings

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"
_TABLE = re.compile(r"(?<=<!-- settings -->\n).*?(?=<!-- end -->)", re.DOTALL)


def with_table(document: str) -> str:
    """`document` with the table between its two marks made anew."""
    rows = ["| Key | Value | Default | Where | Project file |", "|---|---|---|---|---|", *_rows()]
    return _TABLE.sub(lambda _: "\n".join(rows) + "\n", document)


def _rows() -> Iterator[str]:
    """One for each meaning of a key: the options that are declared once, for several commands."""
    commands = commands_with_settings(get_command(app))
    meanings: dict[Any, tuple[Setting, list[str]]] = {}
    for name, command in commands.items():
        for setting in dict.fromkeys(settings_of(command).values()):
            meanings.setdefault(setting.declared, (setting, []))[1].append(name)
    seen: set[str] = set()
    for setting, names in meanings.values():
        if setting.refusal(Scope.USER) is None:
            where = ", ".join(f"`[{name}]`" for name in names)
            if setting.key not in seen:
                where = "every command" if len(names) == len(commands) else ", ".join(names)
            yield _row(setting, where)
        seen.add(setting.key)


def _row(setting: Setting, where: str) -> str:
    keys = ", ".join(f"`{key}`" for key in setting.keys)
    refusal = setting.refusal(Scope.PROJECT)
    in_project = f"no: {refusal}" if refusal else "yes"
    cells = (keys, setting.accepted.words, _default(setting), where, in_project)
    return f"| {' | '.join(cells)} |"


def _default(setting: Setting) -> str:
    option = setting.option
    if isinstance(option.show_default, str):
        return option.show_default
    value = option.default
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value.value if isinstance(value, Enum) else value)


if __name__ == "__main__":
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(with_table(text), encoding="utf-8")
    sys.stderr.write(f"wrote the table of {DOCUMENT.name}\n")
