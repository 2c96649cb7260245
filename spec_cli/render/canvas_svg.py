"""A picture as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from spec_cli.render.canvas import Point


class SvgCanvas:
    """A `Canvas` of `width` x `height` pixels."""

    def __init__(self, width: float, height: float) -> None:
        self._width, self._height = width, height
        self._shapes: list[str] = []

    def bar(self, left: float, top: float, width: float, height: float, color: str) -> None:
        """See `Canvas.bar`."""
        place = f'x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}"'
        self._shapes.append(f"<rect {place} fill={quoteattr(color)}/>")

    def line(self, points: Sequence[Point], color: str, *, dashed: bool = False) -> None:
        """See `Canvas.line`."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = ' stroke-dasharray="4 3"' if dashed else ""
        stroke = f'fill="none" stroke={quoteattr(color)} stroke-width="1.5"{dashes}'
        self._shapes.append(f'<polyline points="{path}" {stroke}/>')

    def dot(self, at: Point, color: str) -> None:
        """See `Canvas.dot`."""
        place = f'cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="3"'
        self._shapes.append(f"<circle {place} fill={quoteattr(color)}/>")

    def text(self, at: Point, text: str, *, anchor: str = "start", bold: bool = False) -> None:
        """See `Canvas.text`."""
        weight = ' font-weight="bold"' if bold else ""
        place = f'x="{at[0]:.1f}" y="{at[1]:.1f}" text-anchor="{anchor}"{weight}'
        self._shapes.append(f"<text {place}>{escape(text)}</text>")

    def data(self) -> bytes:
        """See `Canvas.data`."""
        size = f'width="{self._width:g}" height="{self._height:g}"'
        view = f'viewBox="0 0 {self._width:g} {self._height:g}"'
        font = 'font-family="sans-serif" font-size="12"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} {font}>',
                '<rect width="100%" height="100%" fill="white"/>',
                *self._shapes,
                "</svg>\n",
            ]
        ).encode()
