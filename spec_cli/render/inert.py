"""Text that does not steer the terminal it is written to."""

from __future__ import annotations

# A model's text must not steer the terminal: C0 as control pictures, C1 as replacement characters.
_INERT = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"},
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
}


def inert(text: str) -> str:
    """`text` without control characters, of the same length; tabs and newlines stay."""
    return text.translate(_INERT)


def one_line(text: str) -> str:
    """`text` made inert, its white space made single spaces."""
    return inert(" ".join(text.split()))
