"""A picture as PNG, by Pillow: an optional dependency."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from itertools import pairwise
from math import ceil, dist

from PIL import Image, ImageDraw, ImageFont

from spec_cli.render.canvas import Point

_SCALE = 2  # pixels of the image per pixel of the page: sharp on dense screens
_FONT, _STROKE, _RADIUS = 12, 1.5, 3
_DASH, _PERIOD = 4, 7  # of a dashed line
_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}


class PngCanvas:
    """A `Canvas` of `width` x `height` pixels."""

    def __init__(self, width: float, height: float) -> None:
        self._image = Image.new("RGB", (ceil(width * _SCALE), ceil(height * _SCALE)), "white")
        self._draw = ImageDraw.Draw(self._image)
        self._font = ImageFont.load_default(_FONT * _SCALE)

    def bar(self, left: float, top: float, width: float, height: float, color: str) -> None:
        """See `Canvas.bar`."""
        corners = _scaled([(left, top), (left + width, top + height)])
        self._draw.rectangle(corners, fill=color)

    def line(self, points: Sequence[Point], color: str, *, dashed: bool = False) -> None:
        """See `Canvas.line`."""
        pieces = [piece for ends in pairwise(points) for piece in _dashes(*ends)]
        for piece in pieces if dashed else [points]:
            self._draw.line(_scaled(piece), fill=color, width=round(_STROKE * _SCALE))

    def dot(self, at: Point, color: str) -> None:
        """See `Canvas.dot`."""
        self._draw.circle(_scaled([at])[0], _RADIUS * _SCALE, fill=color)

    def text(self, at: Point, text: str, *, anchor: str = "start", bold: bool = False) -> None:
        """See `Canvas.text`."""
        stroke = _SCALE / 4 if bold else 0
        place = _scaled([at])[0]
        self._draw.text(place, text, "black", self._font, _ANCHORS[anchor], stroke_width=stroke)

    def data(self) -> bytes:
        """See `Canvas.data`."""
        file = BytesIO()
        self._image.save(file, "PNG", optimize=True)
        return file.getvalue()


def _scaled(points: Sequence[Point]) -> list[Point]:
    return [(x * _SCALE, y * _SCALE) for x, y in points]


def _dashes(start: Point, end: Point) -> list[tuple[Point, Point]]:
    """The dashes between two points."""
    length = dist(start, end)

    def at(distance: float) -> Point:
        share = min(distance / length, 1.0)
        return start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])

    return [(at(i * _PERIOD), at(i * _PERIOD + _DASH)) for i in range(ceil(length / _PERIOD))]
