"""What two sequences of tokens have in common."""

from __future__ import annotations

from collections.abc import Sequence


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """The length of the longest sequence that both begin with."""
    n = min(len(one), len(other))
    if list(one[:n]) == list(other[:n]):  # the most frequent case, and the fastest to find out
        return n
    return next(i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
