"""The constraint on a text as it grows: drafted, judged, committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from spec_cli.spec.interfaces import Constraint

N_KEPT = 64  # states behind the committed text: a draft model that catches up looks back at some


class ConstrainedText:
    """What may follow at each place of one generation; shared by the target and the drafters.

    Invariant: `_committed` are the states after the last committed tokens, the newest last, and
    `_drafted` those after tokens drafted in this round, by these tokens. A commit keeps what was
    accepted and forgets the rest: nothing is rolled back.
    """

    def __init__(self, start: Constraint, n_prompt: int) -> None:
        """`start` constrains what follows a prompt of `n_prompt` tokens."""
        self._end = n_prompt
        self._committed = deque([start], maxlen=N_KEPT)
        self._drafted: dict[tuple[int, ...], Constraint] = {}

    @property
    def is_complete(self) -> bool:
        """Whether the committed text may end here."""
        return self._committed[-1].is_complete

    def at(self, position: int, history: Sequence[int]) -> Constraint:
        """What constrains the token at `position`, which `history` leads up to.

        Of the history, only tokens beyond the committed text are looked at.
        """
        n_drafted = position - self._end
        if n_drafted <= 0:
            return self._committed[n_drafted - 1]
        return self._after(tuple(history[len(history) - n_drafted :]))

    def n_allowed(self, drafted: Sequence[int], tokens: Sequence[int]) -> int:
        """How many of `tokens` may follow the committed text and `drafted`, one after the other."""
        path = tuple(drafted)
        for n, token in enumerate(tokens):
            if not self._after(path).allows(np.array([token]))[0]:
                return n
            path = (*path, token)
        return len(tokens)

    def commit(self, tokens: Sequence[int]) -> None:
        """Add what a round decided."""
        path = tuple(tokens)
        self._committed.extend([self._after(path[:n]) for n in range(1, len(path) + 1)])
        self._end += len(path)
        self._drafted = {}

    def _after(self, drafted: tuple[int, ...]) -> Constraint:
        if not drafted:
            return self._committed[-1]
        known = self._drafted.get(drafted)
        if known is None:
            known = self._drafted[drafted] = self._after(drafted[:-1]).after(drafted[-1])
        return known


def constraint_at(
    text: ConstrainedText | None, position: int, history: Sequence[int]
) -> Constraint | None:
    """What constrains the token at `position`, if anything does."""
    return None if text is None else text.at(position, history)
