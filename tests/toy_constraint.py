"""A constraint that is a rule in Python, and counts what it is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from spec_cli.spec.interfaces import Flags, Ids, Logits

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Toy:
    """`rule(tokens, x)`: whether x may follow `tokens`. `end` is the end-of-generation token."""

    rule: Callable[[Tokens, int], bool]
    n_vocab: int
    tokens: Tokens = ()
    end: int | None = None
    asked: Counter[str] = field(default_factory=Counter)

    @property
    def is_complete(self) -> bool:
        return self.end is not None and self.rule(self.tokens, self.end)

    def allows(self, ids: Ids) -> Flags:
        self.asked["judged"] += ids.size
        return np.array([self.rule(self.tokens, int(x)) for x in ids], dtype=bool)

    def allowed(self) -> Ids:
        self.asked["listed"] += 1
        return np.array([x for x in range(self.n_vocab) if self.rule(self.tokens, x)], dtype=int)

    def after(self, token: int) -> Toy:
        assert self.rule(self.tokens, token), f"{token} after {self.tokens} is not allowed"
        self.asked["advanced"] += 1
        if token == self.end:
            return self
        tokens = (*self.tokens, token)
        return Toy(self.rule, self.n_vocab, tokens, self.end, self.asked)

    def masked(self, row: Logits) -> Logits:
        """The row with everything that is not allowed at -inf."""
        allowed = [self.rule(self.tokens, x) for x in range(row.size)]
        return np.where(allowed, row, -np.inf).astype(np.float32)


def path(toy: Toy, tokens: Sequence[int]) -> Toy:
    """The constraint after all of `tokens`."""
    for token in tokens:
        toy = toy.after(token)
    return toy
