"""How many, in words."""

from __future__ import annotations


def counted(n: int, what: str) -> str:
    """`1 token`, `2 tokens`, `8,192 tokens`."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"
