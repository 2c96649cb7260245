"""What a model says to itself, on standard error: never among the text that others read."""

from __future__ import annotations

from typing import TextIO

from rich.color import ColorSystem
from rich.style import Style

from spec_cli.events import Event, Finished, ReasoningDelta, TextDelta
from spec_cli.render.base import Renderer
from spec_cli.render.inert import inert
from spec_cli.render.stdout import Stdout

PARTING = "\n\n"  # between the reasoning and the answer, where one terminal shows both


class ReasoningText(Renderer):
    """Writes reasoning the moment it comes, and a blank line after it."""

    def __init__(self, stderr: TextIO, style: Style) -> None:
        self._stderr = Stdout(stderr)
        self._style = style
        self._is_open = False

    def handle(self, event: Event) -> None:
        """Write the text of a delta; end it when the answer begins, or nothing more comes."""
        match event:
            case ReasoningDelta(text=text) if text:
                self._is_open = True
                self.write(text)
            case TextDelta(text=text) if text:
                self._end()
            case Finished():
                self._end()
            case _:
                pass

    def write(self, text: str) -> None:
        """Write `text`, which is not empty."""
        self._stderr.write(self._style.render(inert(text), color_system=ColorSystem.STANDARD))

    def __exit__(self, *exc: object) -> None:
        self._end()

    def _end(self) -> None:
        if self._is_open:
            self._is_open = False
            self._stderr.write(PARTING)
