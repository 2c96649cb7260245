"""Passes over several texts at once: which shapes there are, and which one to take.

A pass of shape (n, w) evaluates w rows for each of n texts: the weights are read once only where
every text has as many rows as the others, so a text with fewer guesses gets throw-away rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spec_cli.spec.costs import TARGET_WIDTHS
from spec_cli.spec.settings import MAX_ROWS

Shape = tuple[int, int]


def shapes_for(n_texts: int) -> tuple[Shape, ...]:
    """The shapes that are used for up to `n_texts` texts, those with few rows first.

    Of the numbers of texts below it, powers of 2 only: each shape has to be checked.
    """
    counts = [n_texts] + [2**i for i in range(n_texts.bit_length()) if 2**i < n_texts]
    shapes = [(n, w) for n in counts for w in TARGET_WIDTHS if n * w <= MAX_ROWS]
    return tuple(sorted(shapes, key=lambda shape: (shape[0] * shape[1], shape)))


@dataclass(frozen=True, slots=True)
class ParallelPlan:
    """The shapes that passes may have.

    `shares_prefixes`: a prompt that is read in two parts gives the bits of one that is not.
    """

    shapes: tuple[Shape, ...]
    shares_prefixes: bool

    def serves(self, n_texts: int) -> bool:
        """Whether so many texts can go on in one pass."""
        return any(n == n_texts for n, _ in self.shapes)

    def n_texts_in(self, n_texts: int) -> int:
        """For how many texts the smallest pass is that serves so many."""
        return min(n for n, _ in self.shapes if n >= n_texts)

    def widths(self, n_texts: int) -> list[int]:
        """The rows that each of so many texts may have."""
        return [w for n, w in self.shapes if n == n_texts]


def best_width(
    widths: Sequence[int], survivals: Sequence[Sequence[float]], seconds: Callable[[int], float]
) -> int:
    """The width whose pass is expected to commit most tokens a second.

    `survivals` has, for each text, the probabilities that its first guess holds, its first two, and
    so on: A_1, A_2, ... With w rows a text commits 1 + A_1 + ... + A_(w-1) tokens, for as many
    guesses as it has, and `seconds(w)` is what the pass takes. With one text, that is S(k) of
    `costs` for guesses that are free.
    """

    def rate(width: int) -> float:
        return sum(1 + sum(held[: width - 1]) for held in survivals) / seconds(width)

    return max(widths, key=rate)
