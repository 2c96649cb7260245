"""How many tokens to draft in the next round."""

from __future__ import annotations

from typing import Protocol

from spec_cli.spec.costs import CostTable
from spec_cli.spec.stats import RoundCount

K_MAX = 15  # with the token before them, drafts fill the widest pass of the cost table

_PRIOR_ACCEPTED = 4.0
_PRIOR_JUDGED = 5.0
_MEMORY = 64.0  # judged tokens after which older ones fade
_FIRST_PAUSE = 16  # plain rounds before a token is tried
_LONGEST_PAUSE = 256


class Policy(Protocol):
    """Decides the draft length of each round and learns from its outcome."""

    @property
    def idle_reason(self) -> str | None:
        """Why plain steps are taken, with the numbers; None while drafts are expected to pay."""

    def plan(self, room: int) -> int:
        """The number of tokens to draft, at most `room`; 0 is a plain step."""

    def observe(self, count: RoundCount) -> None:
        """Learn what the round did."""


class FixedLength:
    """Always `k` tokens."""

    idle_reason = None

    def __init__(self, k: int) -> None:
        self._k = k

    def plan(self, room: int) -> int:
        """`k`, or what there is room for."""
        return min(self._k, room)

    def observe(self, count: RoundCount) -> None:
        """Nothing to learn."""


class CostAware:
    """The draft length with the best expected speed-up at the measured costs.

    The acceptance probability of a draft token, given that the one before was accepted, is
    estimated from the last verified tokens. While no length is expected to beat plain decoding,
    one token is tried now and then: after a failed try the next pause is twice as long, after a
    right guess the next try follows at once.
    """

    def __init__(self, costs: CostTable, k_max: int = K_MAX) -> None:
        self._costs = costs
        self._k_max = k_max
        self._accepted = _PRIOR_ACCEPTED
        self._judged = _PRIOR_JUDGED
        self._pause = _FIRST_PAUSE
        self._n_plain = 0
        self._is_try = False
        self.idle_reason: str | None = None

    @property
    def acceptance(self) -> float:
        """The estimated acceptance probability of the next draft token."""
        return self._accepted / self._judged

    def plan(self, room: int) -> int:
        """The k with the largest S(k) where that is a gain; else 0, or 1 for a try."""
        if room < 1:
            self._is_try = False
            return 0
        k, speedup = self._costs.best(self.acceptance, min(room, self._k_max))
        self._is_try = speedup <= 1 and self._n_plain >= self._pause
        self.idle_reason = None if speedup > 1 else _idle_reason(k, speedup, self.acceptance)
        if speedup > 1:
            self._pause = _FIRST_PAUSE
            return k
        return 1 if self._is_try else 0

    def observe(self, count: RoundCount) -> None:
        """Count the judged draft tokens: the accepted ones and the first rejected one."""
        if count.n_drafted == 0:
            self._n_plain += 1
            return
        self._n_plain = 0
        n_judged = count.n_accepted + (count.n_accepted < count.n_drafted)
        fade = max(0.0, 1.0 - n_judged / _MEMORY)
        self._accepted = self._accepted * fade + count.n_accepted
        self._judged = self._judged * fade + n_judged
        if self._is_try:
            failed = count.n_accepted < count.n_drafted
            self._pause = min(max(2 * self._pause, _FIRST_PAUSE), _LONGEST_PAUSE) if failed else 0


def _idle_reason(k: int, speedup: float, acceptance: float) -> str:
    tokens = "1 token" if k == 1 else f"{k} tokens"
    return (
        f"at an estimated acceptance of {acceptance:.0%} the best draft length, {tokens}, "
        f"gives {speedup:.2f}x plain"
    )
