"""Notices on standard error, never in the middle of a line of generated text."""

from __future__ import annotations

from typing import TextIO

from spec_cli.events import Event, Finished, Notice, PromptText, ReasoningDelta, TextDelta
from spec_cli.render.base import Renderer
from spec_cli.render.inert import inert


class Notices(Renderer):
    """Prints notices; once text flows to the same terminal they wait for its end."""

    def __init__(
        self, stderr: TextIO, *, quiet: bool, beside_text: bool, beside_reasoning: bool = False
    ) -> None:
        """`quiet` leaves warnings only; `beside_text`: stdout and stderr are one terminal;
        `beside_reasoning`: stderr shows it."""
        self._stderr = stderr
        self._quiet = quiet
        self._beside_text = beside_text
        self._beside_reasoning = beside_reasoning
        self._text_flows = False
        self._waiting: list[Notice] = []

    def handle(self, event: Event) -> None:
        """Print a notice, or keep it until the text has ended."""
        match event:
            case ReasoningDelta():
                self._text_flows = self._beside_reasoning
            case TextDelta() | PromptText():
                self._text_flows = self._beside_text
            case Notice(level=level) if level == "warning" or not self._quiet:
                self._waiting.append(event)
            case Finished():
                self._text_flows = False
            case _:
                pass
        if not self._text_flows:
            self._print_waiting()

    def __exit__(self, *exc: object) -> None:
        self._print_waiting()

    def _print_waiting(self) -> None:
        for notice in self._waiting:
            label = "warning" if notice.level == "warning" else "note"
            self._stderr.write(f"{label}: {inert(notice.message)}\n")
            if notice.hint:
                self._stderr.write(f"hint: {inert(notice.hint)}\n")
        if self._waiting:
            self._stderr.flush()
            self._waiting = []
