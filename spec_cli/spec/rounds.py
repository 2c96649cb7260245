"""What one round may draft: budgets that a drafter asks before each guess."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from spec_cli.spec.interfaces import Budget, Evidence, Weights
from spec_cli.spec.stopping import StoppingTable
from spec_cli.spec.survival import N_MODEL_LEVELS, Survival, copy_prior

_SURE_COPY = 0.75  # prior acceptance from which a copy is taken where the length is fixed


class Round(Budget, Protocol):
    """A budget, and in the end the number of drafted tokens that are worth checking."""

    def keep(self) -> int:
        """How many of the drafted tokens to check: the first ones."""

    def expected(self, k: int) -> float | None:
        """How many tokens checking the first `k` is expected to commit; None where not known."""


class FixedRound:
    """Room for so many tokens. A sure copy is taken rather than a guess of the draft model."""

    def __init__(self, k: int) -> None:
        self.room = k
        self._k = k

    def take(self, copies: Sequence[Evidence], *, or_model: bool = False) -> int:
        """As many as there is room for; with a model at hand, the sure ones at the front."""
        unsure = (i for i, copy in enumerate(copies) if copy_prior(copy) < _SURE_COPY)
        n = min(next(unsure, len(copies)) if or_model else len(copies), self.room)
        self.room -= n
        return n

    def wants_model(self) -> bool:
        """Whether there is room."""
        return self.room > 0

    def add(self, evidence: Evidence) -> None:
        """One token less."""
        self.room -= 1

    def keep(self) -> int:
        """All of them."""
        return self._k

    def expected(self, k: int) -> None:
        """Not known: nothing is weighed."""


@dataclass(frozen=True, slots=True)
class Prices:
    """What a round is planned with: times in seconds, and `rate`, the tokens a second on the whole.

    `verify` [k_max + 1] are passes over 1.. rows; `draft_s` is one guess of the draft model. What
    its first guess takes besides, being behind, has two parts: `catch_up_s` must be repaid by
    this round, `invested_s` by later ones; where guesses fail, both are lost. All are 0 where
    there is no draft model.
    """

    verify: Weights
    draft_s: float
    catch_up_s: float
    invested_s: float
    rate: float

    @property
    def plain_s(self) -> float:
        """A plain step."""
        return float(self.verify[0])

    def undivided(self) -> Prices:
        """With all of the catching up to be repaid by this round."""
        return replace(self, catch_up_s=self.catch_up_s + self.invested_s, invested_s=0.0)


class CostAwareRound:
    """Drafts while that is expected to gain, and drops at the end what is not worth checking.

    It may not lose more than `credit_s` against plain decoding, whatever is accepted. `is_try`: the
    draft model makes a first guess even where that does not pay.
    """

    def __init__(
        self,
        room: int,
        prices: Prices,
        survival: Survival,
        table: StoppingTable | None,
        *,
        level: int,
        credit_s: float,
        is_try: bool,
        may_drop: bool,
    ) -> None:
        """`level` is that of the guess before, where it was the model's and held."""
        self.room = room
        self._prices, self._survival, self._table = prices, survival, table
        self._credit_s, self.is_try, self._may_drop = credit_s, is_try, may_drop
        self._level = level
        self._held = [1.0]  # probability that the first i tokens all hold
        self._gained = [0.0]  # tokens that checking the first i is expected to gain, less its price
        self._spent_s = 0.0

    @property
    def used_model(self) -> bool:
        """Whether the draft model made a guess."""
        return self._spent_s > 0

    def take(self, copies: Sequence[Evidence], *, or_model: bool = False) -> int:
        """The number of them with the largest expected gain, the model's going on counted in."""
        held, gained = self._held[-1], self._gained[-1]
        paths = [(held, gained)]
        for copy in copies[: self.room]:
            if not self._affordable(len(self._held) + len(paths) - 1):
                break
            held *= self._survival.acceptance(copy)
            gained = paths[-1][1] + held - self._step(len(self._held) + len(paths) - 2)
            paths.append((held, gained))
        model = [self._model_worth(i, paths[i][0]) if or_model else 0.0 for i in range(len(paths))]
        n = int(
            np.argmax([gained + worth for (_, gained), worth in zip(paths, model, strict=True)])
        )
        for held, gained in paths[1 : n + 1]:
            self._extend(held, gained, N_MODEL_LEVELS)
        return n

    def wants_model(self) -> bool:
        """Whether drafting on is worth more than it costs, or the model is tried again."""
        if self.room < 1 or not self._affordable(len(self._held), self._next_s()):
            return False
        return self._model_worth(0, self._held[-1]) > 0 or (self.is_try and not self.used_model)

    def add(self, evidence: Evidence) -> None:
        """The draft model made one more guess."""
        self._spent_s += self._next_s()
        held = self._held[-1] * self._survival.acceptance(evidence)
        gained = self._gained[-1] + held - self._step(len(self._held) - 1)
        self._extend(held, gained, evidence.level)

    def keep(self) -> int:
        """The number of tokens with the largest expected gain from checking them."""
        return int(np.argmax(self._gained)) if self._may_drop else len(self._held) - 1

    def expected(self, k: int) -> float:
        """The first `k` as far as they hold, and the token after them."""
        return sum(self._held[: k + 1])

    def _extend(self, held: float, gained: float, level: int) -> None:
        self._held.append(held)
        self._gained.append(gained)
        self._level = level
        self.room -= 1

    def _model_worth(self, n_copied: int, held: float) -> float:
        """What model guesses are worth after `n_copied` more tokens that hold so likely."""
        if self._table is None:
            return 0.0
        level = N_MODEL_LEVELS if n_copied else self._level
        j = len(self._held) - 1 + n_copied
        extra_s = 0.0 if self._spent_s else self._prices.catch_up_s
        return max(0.0, self._table(j, held, level) - self._prices.rate * extra_s)

    def _next_s(self) -> float:
        """What the model's next guess takes."""
        prices = self._prices
        behind_s = 0.0 if self._spent_s else prices.catch_up_s + prices.invested_s
        return prices.draft_s + behind_s

    def _step(self, j: int) -> float:
        """What checking one token more than `j` costs, in tokens."""
        return float(self._prices.rate * (self._prices.verify[j + 1] - self._prices.verify[j]))

    def _affordable(self, k: int, draft_s: float = 0.0) -> bool:
        """Whether checking `k` tokens in vain stays within the credit."""
        time = self._spent_s + draft_s + float(self._prices.verify[k])
        return time - self._prices.plain_s <= self._credit_s
