"""Generated text to standard output, the moment it is final."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from rich.color import ColorSystem
from rich.style import Style

from spec_cli.events import Event, Finished, Origin, PromptText, TextDelta
from spec_cli.render.base import Renderer
from spec_cli.render.inert import inert
from spec_cli.render.stdout import Stdout

_UNSTYLED = Style()


class PipeText(Renderer):
    """The text, byte for byte, and a final newline if it lacks it; nothing for none."""

    def __init__(self, stdout: Stdout) -> None:
        self._stdout = stdout
        self._last = ""

    def handle(self, event: Event) -> None:
        """Write the text of a delta; complete the last line at the end."""
        match event:
            case PromptText(text=text) | TextDelta(text=text) if text:
                self._stdout.write(text)
                self._last = text[-1]
            case Finished() if self._last not in ("", "\n"):
                self._stdout.write("\n")
            case _:
                pass


class Writer(Protocol):
    """Writes text of one kind to the terminal."""

    def write(self, text: str) -> None:
        """Write `text`, which is not empty."""


class TerminalText(Renderer):
    """The text on a terminal: made inert, coloured by origin on request.

    The cursor is at the start of a line when the run has ended, however it ended.
    """

    def __init__(
        self,
        stdout: Stdout,
        styles: Mapping[Origin, Style] | None = None,
        *,
        reasoning: Writer | None = None,
    ) -> None:
        """`reasoning` writes to the same terminal what comes before the answer."""
        self._stdout = stdout
        self._styles = styles
        self._reasoning = reasoning
        self._in_line = False

    @property
    def styled(self) -> bool:
        """The text is coloured by origin."""
        return self._styles is not None

    def handle(self, event: Event) -> None:
        """Write the text of a delta; end the last line at the end."""
        match event:
            case PromptText(text=text) if text:
                self.write(text, Origin.GIVEN)
            case TextDelta(text=text, origin=origin) if text:
                self.write(text, origin)
            case Finished():
                self.end_line()
            case _:
                pass

    def write(self, text: str, origin: Origin | None) -> None:
        """Write `text`, which is not empty; without an origin it is reasoning."""
        self._in_line = not text.endswith("\n")
        if origin is None:
            assert self._reasoning is not None
            self._reasoning.write(text)
            return
        shown = inert(text)
        if self._styles:
            style = self._styles.get(origin, _UNSTYLED)
            shown = style.render(shown, color_system=ColorSystem.STANDARD)
        self._stdout.write(shown)

    def end_line(self) -> None:
        """Move to the start of a line, unless the cursor is there already."""
        if self._in_line:
            self._in_line = False
            self._stdout.write("\n")

    def __exit__(self, *exc: object) -> None:
        self.end_line()
