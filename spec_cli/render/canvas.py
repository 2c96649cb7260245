"""What a picture is drawn on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Point = tuple[float, float]


class Canvas(Protocol):
    """A white page, in pixels from its top left; what is drawn later lies above."""

    def bar(self, left: float, top: float, width: float, height: float, color: str) -> None:
        """A filled rectangle; colours are `#rrggbb`."""

    def line(self, points: Sequence[Point], color: str, *, dashed: bool = False) -> None:
        """A line through `points`."""

    def dot(self, at: Point, color: str) -> None:
        """A small disc."""

    def text(self, at: Point, text: str, *, anchor: str = "start", bold: bool = False) -> None:
        """`text`, its baseline at `at`; `anchor` is `start`, `middle` or `end`."""

    def data(self) -> bytes:
        """The whole file."""
