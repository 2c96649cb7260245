"""Record a command on a terminal as an SVG image.

docs/session.svg, the screen just before the panel leaves it, is made by

    python scripts/record_session.py docs/session.svg --with position --columns 90 --lines 30 -- \\
        spec-cli run --temp 0 -n 200 -f spec_cli/names.py \\
        "Rename nearest to closest and word to typed. Only the code."
"""

from __future__ import annotations

import argparse
import io
import re
import shlex
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pexpect
import pyte
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_DIM, _DIM_OFF, _GREY, _NO_COLOR = 2, 22, 90, 39  # SGR; pyte knows no dim, so it is made grey
_COLORS = {"brown": "yellow", "brightbrown": "bright_yellow"}  # pyte's names, and Rich's


class _Screen(pyte.Screen):  # type: ignore[misc]
    def select_graphic_rendition(self, *attributes: int) -> None:
        """Take dim text for grey text."""
        shown: list[int] = []
        for attribute in attributes:
            shown += {_DIM: [_GREY], _DIM_OFF: [_DIM_OFF, _NO_COLOR]}.get(attribute, [attribute])
        super().select_graphic_rendition(*shown)


def record(command: list[str], columns: int, lines: int) -> list[bytes]:
    """What `command` writes to a terminal, as it comes."""
    child = pexpect.spawn(command[0], command[1:], dimensions=(lines, columns), timeout=None)
    written = [f"$ {shlex.join(command)}\r\n".encode()]
    while data := _read(child):
        written.append(data)
    child.close()
    return written


def _read(child: pexpect.spawn) -> bytes:
    """What has come since the last look; nothing at the end."""
    try:
        return bytes(child.read_nonblocking(65536))
    except pexpect.EOF:
        return b""


def last_screen(written: list[bytes], columns: int, lines: int, text: str) -> list[Text]:
    """The last screen on which `text` stands. Raises ValueError where there is none."""
    screen = _Screen(columns, lines)
    stream = pyte.ByteStream(screen)
    rows: list[Text] = []
    for data in written:
        stream.feed(data)
        if any(text in row for row in screen.display):
            rows = list(_rows(screen))
    if not rows:
        raise ValueError(f"`{text}` is on no screen")
    return rows


def _rows(screen: pyte.Screen) -> Iterator[Text]:
    """The rows of `screen`, in colour, down to the last that holds anything."""
    last = max((y for y, row in enumerate(screen.display) if row.strip()), default=-1)
    for y in range(last + 1):
        row = Text(no_wrap=True)
        chars = [screen.buffer[y][x] for x in range(screen.columns)]
        for style, run in groupby(chars, key=_style):
            row.append("".join(char.data for char in run), style)
        row.rstrip()
        yield row


def _style(char: pyte.screens.Char) -> Style:
    return Style(
        color=_color(char.fg), bgcolor=_color(char.bg), bold=char.bold, italic=char.italics
    )


def _color(name: str) -> Color | None:
    if name == "default":
        return None
    if len(name) == 6 and set(name) <= set("0123456789abcdef"):
        return Color.parse(f"#{name}")
    return Color.parse(_COLORS.get(name, name.replace("bright", "bright_")))


def svg(rows: list[Text], columns: int, title: str) -> str:
    """An image of a terminal with `rows` in it."""
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True)
    for row in rows:
        console.print(row, overflow="ignore", crop=False)
    image = console.export_svg(title=title, unique_id="session")
    return _FONTS.sub("", image)  # a viewer would fetch them from the network


def main() -> None:
    """Read the command line, record, and write the image."""
    parser = argparse.ArgumentParser(description="Record a command on a terminal as an SVG image.")
    parser.add_argument("file", type=Path, help="the image to write")
    parser.add_argument("--with", dest="text", default="", help="the last screen with this text")
    parser.add_argument("--columns", type=int, default=88)
    parser.add_argument("--lines", type=int, default=24)
    parser.add_argument("command", nargs="+", help="what to run")
    wanted = parser.parse_args()
    written = record(wanted.command, wanted.columns, wanted.lines)
    rows = last_screen(written, wanted.columns, wanted.lines, wanted.text)
    wanted.file.write_text(svg(rows, wanted.columns, wanted.command[0]), encoding="utf-8")


if __name__ == "__main__":
    main()
