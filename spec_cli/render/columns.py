"""A table as lines of text."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], gap: str = "  ") -> list[str]:
    """The rows of a table as lines, `gap` between its columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        gap.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
