'''Messages of several lines, between lines of """.'''

from __future__ import annotations

QUOTES = '"""'


def is_open(text: str) -> bool:
    """Whether `text` begins a quoted message and lacks its end."""
    return text.startswith(QUOTES) and not text.removeprefix(QUOTES).rstrip().endswith(QUOTES)


def unquoted(text: str) -> str:
    """The message itself: a quoted one without its quotes and the line ends beside them."""
    if not text.startswith(QUOTES) or is_open(text):
        return text
    inner = text.removeprefix(QUOTES).rstrip().removesuffix(QUOTES)
    return inner.removeprefix("\n").removesuffix("\n")
