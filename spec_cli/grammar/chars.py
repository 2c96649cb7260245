"""Sets of characters, and how JSON strings and GBNF write them."""

from __future__ import annotations

from collections.abc import Iterable

Ranges = tuple[tuple[int, int], ...]
"""First and last code points of ranges, ascending, neither touching nor overlapping."""

EVERY: Ranges = ((0, 0xD7FF), (0xE000, 0x10FFFF))
_ESCAPED = {'"': '"', "\\": "\\", "\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}


def union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The characters in any of the ranges."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)


def without(chars: Ranges, others: Ranges) -> Ranges:
    """The characters in `chars` but not in `others`."""
    found = list(chars)
    for low, high in others:
        parts = [((a, min(b, low - 1)), (max(a, high + 1), b)) for a, b in found]
        found = [(a, b) for pair in parts for a, b in pair if a <= b]
    return tuple(found)


def points(text: str) -> Ranges:
    """The characters of `text`."""
    return union((ord(char), ord(char)) for char in text)


PLAIN = without(EVERY, union(((0, 0x1F), *points('"\\'))))  # what JSON strings hold as it is


def class_of(chars: Ranges) -> str:
    """A GBNF class of `chars`, of which there must be some."""
    parts = (_escape(a) if a == b else f"{_escape(a)}-{_escape(b)}" for a, b in chars)
    return f"[{''.join(parts)}]"


def in_json(chars: Ranges) -> str:
    """One of `chars` as a JSON string writes it; of control characters those with a short escape.

    Nothing where there are none.
    """
    plain = without(PLAIN, without(PLAIN, chars))
    options = [class_of(plain)] if plain else []
    options += [
        literal(f"\\{short}")
        for char, short in _ESCAPED.items()
        if any(low <= ord(char) <= high for low, high in chars)
    ]
    return options[0] if len(options) == 1 else f"( {' | '.join(options)} )" if options else ""


def literal(text: str) -> str:
    """A GBNF literal; line ends are escaped."""
    for raw, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(raw, escaped)
    return f'"{text}"'


def _escape(point: int) -> str:
    char = chr(point)
    if char.isascii() and char.isalnum():
        return char
    return f"\\x{point:02X}" if point < 0x100 else f"\\U{point:08X}"
