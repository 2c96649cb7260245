"""How much to draft in each round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from spec_cli.spec.counts import counted
from spec_cli.spec.interfaces import Draft, Source
from spec_cli.spec.meter import PassMeter
from spec_cli.spec.rounds import CostAwareRound, FixedRound, Prices, Round
from spec_cli.spec.stopping import StoppingTable, stopping_table
from spec_cli.spec.survival import N_MODEL_LEVELS, Survival

K_MAX = 15  # with the token before them, drafts fill the widest pass of the cost table

MAX_LOSS = 0.02  # share of the plain time that drafting may lose in the long run
_CREDIT = 4.0  # plain steps that it may lose on top of that, once the text is long enough:
_CREDIT_PER_TOKEN = 0.15  # each token adds so much
_MAX_CREDIT = 16.0  # plain steps: what was gained long ago pays for no more than this

_RATE_MEMORY = 32.0  # tokens over which the rate is averaged
_STALE = 8  # tokens behind, from which on catching up is an investment in later rounds
_HORIZON = 64  # tokens over which it must repay itself; as many as were emitted, if that is more
_PER_ROUND = 3.0  # tokens that a drafting round emits, about
_MAX_INVESTED = 0.2  # share of the horizon's plain time that catching up may take
_FIRST_PAUSE = 32  # plain tokens before the draft model is tried again
_LONGEST_PAUSE = 512
_TABLE_LIFE = 4  # rounds
_REFRESH = 64  # rounds after which a plain step shows what one takes


class Policy(Protocol):
    """Decides how much is drafted in each round and learns from its outcome."""

    @property
    def idle_reason(self) -> str | None:
        """Why plain steps are taken, with the numbers; None while drafts are expected to pay."""

    def plan(self, room: int, n_past: int, n_behind: int) -> Round | None:
        """What may be drafted now: at most `room` tokens; None is a plain step.

        `n_past` is the length of the context, `n_behind` that of its part which the draft model
        has not evaluated.
        """

    def observe(
        self, draft: Draft, n_checked: int, committed: Sequence[int], seconds: float
    ) -> None:
        """Learn from a round of `seconds`: of `draft` the first `n_checked` tokens were checked,
        and the tokens `committed` stand in its place now."""


class FixedLength:
    """Always `k` tokens, where there are so many guesses."""

    def __init__(self, k: int) -> None:
        self._k = k
        self._is_planned = False
        self._n_without_guess = 0

    @property
    def idle_reason(self) -> str | None:
        """Where no guess came: in how many rounds."""
        n = self._n_without_guess
        return f"the drafter had no guess in {counted(n, 'round')}" if n else None

    def plan(self, room: int, n_past: int, n_behind: int) -> Round | None:
        """`k`, or what there is room for."""
        k = min(self._k, room)
        self._is_planned = k > 0
        return FixedRound(k) if k > 0 else None

    def observe(
        self, draft: Draft, n_checked: int, committed: Sequence[int], seconds: float
    ) -> None:
        """Nothing to learn but whether there were guesses."""
        if self._is_planned and not draft.tokens:
            self._n_without_guess += 1


class CostAware:
    """Drafts what is expected to gain at the costs of this machine, within a bounded loss.

    Against plain decoding, the rounds that draft may lose `MAX_LOSS` of the plain time so far, and
    a credit that grows with the text up to `_CREDIT` plain steps; a round that could lose more is
    not begun. The round in which the draft model reads the prompt is not counted: it is begun where
    reading takes at most `_MAX_INVESTED` of the plain time so far, and the text to come is expected
    to repay it.

    While guesses of the draft model are not expected to pay, it is tried again after a pause;
    what it reads then is scored against what it would have guessed.
    """

    def __init__(
        self,
        target: PassMeter,
        draft: PassMeter | None,
        survival: Survival,
        *,
        widths: Sequence[int],
        may_drop: bool = True,
    ) -> None:
        """`widths[i]` is that of the pass that evaluates i + 1 rows, for every number allowed.

        `draft` is None where there is no draft model; `may_drop` says whether drafted tokens may
        be left unchecked: not where a rule has drawn them at random.
        """
        self._target, self._draft, self._survival = target, draft, survival
        self._widths = tuple(widths)
        self._may_drop = may_drop
        self._plain_s = 0.0
        self._credit_s = 0.0
        self._tokens, self._seconds = 0.0, 0.0  # of the last rounds, fading
        self._n_emitted = self._n_without_plain = self._n_without_model = 0
        self._pause = _FIRST_PAUSE
        self._has_read = False  # the draft model has the prompt in its cache
        self._round: CostAwareRound | None = None
        self._table: StoppingTable | None = None
        self._table_age = 0
        self._level = N_MODEL_LEVELS  # of the last guess, where it was the model's and held
        self.idle_reason: str | None = None

    def plan(self, room: int, n_past: int, n_behind: int) -> Round | None:
        """A round that drafts by expected gain."""
        self._round = None
        if room < 1 or len(self._widths) < 2 or self._n_without_plain >= _REFRESH:
            return None
        prices = self._prices(room, n_past, n_behind)
        worth = self._worth(prices)
        self.idle_reason = None if worth > 0 else _reason(prices, self._survival)
        is_try = worth <= 0 and self._draft is not None and self._n_without_model >= self._pause
        if worth > 0:
            self._pause = _FIRST_PAUSE
        if is_try:
            prices = prices.undivided()
        elif not self._has_read:
            prices = replace(prices, invested_s=0.0)  # reading the prompt is not counted
        self._round = CostAwareRound(
            min(room, len(self._widths) - 1),
            prices,
            self._survival,
            self._table,
            level=self._level,
            credit_s=self._credit_s + self._allowance * prices.plain_s,
            is_try=is_try,
            may_drop=self._may_drop,
        )
        return self._round

    def observe(
        self, draft: Draft, n_checked: int, committed: Sequence[int], seconds: float
    ) -> None:
        """Learn what became of the guesses, and book what was won or lost."""
        self._learn(draft, committed)
        n_emitted = len(committed)
        used_model = self._round is not None and self._round.used_model
        if self._round is not None and (used_model or n_checked):
            self._book(self._round, n_emitted, seconds)
        self._n_without_plain = self._n_without_plain + 1 if n_checked else 0
        self._n_without_model = 0 if used_model else self._n_without_model + n_emitted
        self._n_emitted += n_emitted
        self._credit_s += MAX_LOSS * self._plain_s * n_emitted
        fade = 0.5 ** (n_emitted / _RATE_MEMORY)
        self._tokens = self._tokens * fade + n_emitted
        self._seconds = self._seconds * fade + seconds

    @property
    def _allowance(self) -> float:
        """The plain steps that drafting may lose besides its share of the time."""
        return min(_CREDIT, _CREDIT_PER_TOKEN * self._n_emitted)

    def _learn(self, draft: Draft, committed: Sequence[int]) -> None:
        """Guesses are judged by what stands in their place, up to the first that is wrong.

        Those that were dropped unchecked are, too, as far as the text has come; copies are scored
        where they are made (`drafters.copies`).
        """
        judged = []
        for guess, evidence, token in zip(draft.tokens, draft.evidence, committed, strict=False):
            judged.append(evidence)
            if evidence.source is Source.MODEL:
                self._survival.learn(evidence, accepted=guess == token)
            if guess != token:
                break
        self._survival.learn_levels(judged, self._level)
        held = bool(judged) and len(judged) == len(draft.tokens) < len(committed)
        self._level = (
            judged[-1].level if held and judged[-1].source is Source.MODEL else N_MODEL_LEVELS
        )

    def _book(self, done: CostAwareRound, n_emitted: int, seconds: float) -> None:
        """What plain decoding of the same tokens would have taken, less what this round took."""
        if done.is_try and done.used_model:
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        is_reading = done.used_model and not self._has_read
        self._has_read = self._has_read or is_reading
        if is_reading and not done.is_try:
            return
        won = n_emitted * self._plain_s - seconds
        self._credit_s = min(self._credit_s + won, _MAX_CREDIT * self._plain_s)

    def _worth(self, prices: Prices) -> float:
        """What opening a round with the draft model is expected to gain, in tokens."""
        if self._draft is None:
            return 0.0
        if self._table is None or self._table_age >= _TABLE_LIFE:
            self._table = stopping_table(
                self._survival.model_acceptance(),
                self._survival.following(),
                draft=prices.rate * prices.draft_s,
                verify=prices.rate * prices.verify,
                may_drop=self._may_drop,
            )
            self._table_age = 0
        self._table_age += 1
        return self._table(0, 1.0, self._level) - prices.rate * prices.catch_up_s

    def _prices(self, room: int, n_past: int, n_behind: int) -> Prices:
        verify = self._target.curve(self._widths, n_past)
        self._plain_s = float(verify[0])
        rate = max(1 / self._plain_s, self._tokens / self._seconds if self._seconds else 0.0)
        if self._draft is None:
            return Prices(verify, 0.0, 0.0, 0.0, rate)
        draft_s = self._draft.seconds(1, n_past)
        behind_s = self._draft.seconds(n_behind, n_past) - draft_s
        share, shown = 1.0, max(_HORIZON, self._n_emitted)
        if n_behind >= _STALE and behind_s <= _MAX_INVESTED * shown * self._plain_s:
            share = min(1.0, _PER_ROUND / min(room, shown))
        return Prices(verify, draft_s, share * behind_s, (1 - share) * behind_s, rate)


def _reason(prices: Prices, survival: Survival) -> str:
    """Why nothing is drafted, with the numbers."""
    check = (prices.verify[1] - prices.verify[0]) / prices.plain_s
    if not prices.draft_s:
        return (
            "nothing that repeats was sure enough to copy: "
            f"checking a guess takes {check:.2f} of a plain step"
        )
    held = float(survival.following()[-1] @ survival.model_acceptance())
    return (
        f"a guess takes {prices.draft_s / prices.plain_s:.2f} of a plain step to draft and "
        f"{check:.2f} to check, and about {held:.0%} of them are right: that does not pay"
    )
