"""How draft tokens are accepted: the rules that decide what a target pass commits.

With p the target's distribution and q the draft's, each after the tokens x_1..x_i before it and
both processed alike, and k draft tokens:

`rejection`: Leviathan, Kalman, Matias (2023), arXiv 2211.17192, Algorithm 1, and Chen et al.
(2023), arXiv 2302.01318. x_i is kept with probability min(1, p(x_i) / q(x_i)); the first one
that is not is replaced by a sample of the residual, max(p - q, 0) normalised.

`block`: Sun et al. (2024), arXiv 2403.10444, Algorithm 2, where p is M_b, q is M_s and k is gamma.

    s_0 = 1,  s_i = min(1, s_(i-1) p(x_i) / q(x_i))                (line 4; p_i there)
    residual_i = max(s_i p - q, 0) / Z_i,  Z_i the sum above it    (equation 4)
    h_i = Z_i / (Z_i + 1 - s_i) for i < k,  h_k = s_k              (equation 5)

The longest prefix whose own uniform number is below h_i is kept. In both, a sample of p follows
a draft that is kept whole.

Why the text of `block` follows p: from k backwards, at least i tokens are kept with probability
s_i given x_1..x_i, because (s_i - Z_i) + (1 - s_i + Z_i) h_i = s_i. After them y comes as the next
draft token with probability min(s_i p(y), q(y)), or from the residual with max(s_i p(y) - q(y), 0):
together s_i p(y). Where h_i is 0 / 0, s_i is 1 and Z_i is 0: i + 1 tokens are kept for certain, so
h_i decides nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from spec_cli.spec.constraint import ConstrainedText, constraint_at
from spec_cli.spec.coupling import Chooser, make_chooser
from spec_cli.spec.distribution import certain, excess, probability, residual, sample
from spec_cli.spec.interfaces import (
    AcceptanceRule,
    Distribution,
    Draft,
    Drawn,
    Logits,
    Place,
    Verdict,
)
from spec_cli.spec.sampling import candidates
from spec_cli.spec.settings import Accept, SamplingSettings


def make_rule(
    accept: Accept,
    settings: SamplingSettings,
    seed: int,
    *,
    text: ConstrainedText | None = None,
    tie_margin: float = 0.0,
) -> AcceptanceRule:
    """The rule `accept` for one generation; `tie_margin` is that of `MatchRule`.

    The drafter and the loop must share it: two rules with one seed would draw the same numbers.
    With `text`, tokens are drawn from what it allows alone, by both models.
    """
    if settings.temp == 0 or accept is Accept.COUPLED:
        return MatchRule(make_chooser(settings, seed), text=text, tie_margin=tie_margin)
    uniform = np.random.Generator(np.random.Philox(key=seed)).random
    rule = RejectionRule if accept is Accept.REJECTION else BlockRule
    return rule(settings, uniform, text=text)


class MatchRule:
    """Keeps draft tokens while they equal the target's choice: the rule `coupled`, and greedy.

    The emitted token at a position is a function of the target's logits there, the seed, the
    position and the constraint; nothing that the drafter does can change it. `tie_margin` is the
    margin, in logits, below which a choice counts as a near-tie; 0 counts none.
    """

    samples_drafts = False

    def __init__(
        self, chooser: Chooser, *, text: ConstrainedText | None = None, tie_margin: float = 0.0
    ) -> None:
        self._chooser = chooser
        self._text = text
        self._tie_margin = tie_margin
        self.n_history = chooser.n_history

    def draw(self, logits: Logits, position: int, history: Sequence[int]) -> Drawn:
        """The draft model's choice, made with the noise that the target's choice is made with."""
        return self._chooser.draw(logits, self._place(position, history))

    def verify(self, rows: Logits, draft: Draft, context: Sequence[int]) -> Verdict:
        """Choose row by row until a choice differs from the draft."""
        history = recent(context, self.n_history)
        tokens: list[int] = []
        near_ties: list[bool] = []
        for row, guess in zip(rows, (*draft.tokens, None), strict=True):
            place = self._place(len(context) + len(tokens), history)
            token = self._chooser.choose(row, place)
            if self._tie_margin:
                near_ties.append(self._chooser.margin(row, place) < self._tie_margin)
            tokens.append(token)
            history.append(token)
            if token != guess:
                break
        if self._text:
            self._text.commit(tokens)
        return Verdict(tuple(tokens), tuple(near_ties))

    def _place(self, position: int, history: Sequence[int]) -> Place:
        return Place(position, history, constraint_at(self._text, position, history))


class SamplingRule(ABC):
    """Samples drafts from q, then keeps a prefix that leaves the text distributed as p.

    `uniform` gives independent numbers in [0, 1). Each is used once, in the order of the calls:
    noise keyed by position would make `block` wrong, because there the fate of a token depends
    on the tokens drafted after it, and so the noise of a discarded one is no longer independent.
    """

    samples_drafts = True

    def __init__(
        self,
        settings: SamplingSettings,
        uniform: Callable[[], float],
        *,
        text: ConstrainedText | None = None,
    ) -> None:
        self._settings = settings
        self._uniform = uniform
        self._text = text
        self.n_history = settings.n_history

    def draw(self, logits: Logits, position: int, history: Sequence[int]) -> Drawn:
        """A sample of q; the position matters to a constraint alone."""
        q = self._processed(logits, position, history)
        token = sample(q, self._uniform())
        return Drawn(token, probability(q, token), q)

    def verify(self, rows: Logits, draft: Draft, context: Sequence[int]) -> Verdict:
        """Keep a prefix of the draft, and sample the token after it."""
        history = recent(context, self.n_history)

        @cache
        def p(i: int) -> Distribution:
            return self._processed(rows[i], len(context) + i, [*history, *draft.tokens[:i]])

        q = tuple(map(certain, draft.tokens)) if draft.q is None else draft.q
        n_accepted, following = self._judge(draft.tokens, p, q)
        tokens = (*draft.tokens[:n_accepted], sample(following, self._uniform()))
        if self._text:
            self._text.commit(tokens)
        return Verdict(tokens)

    @abstractmethod
    def _judge(
        self, tokens: Sequence[int], p: Callable[[int], Distribution], q: Sequence[Distribution]
    ) -> tuple[int, Distribution]:
        """How many of the k `tokens` to keep, and the distribution of the token after those.

        p(i), for i in 0..k, and q[i], for i in 0..k-1, are what follows the first i tokens.
        There is no p after a token whose probability was 0: a constraint may forbid it.
        """

    def _processed(self, logits: Logits, position: int, history: Sequence[int]) -> Distribution:
        constraint = constraint_at(self._text, position, history)
        return candidates(logits, history, self._settings, constraint).distribution()


class RejectionRule(SamplingRule):
    """Judges each token by itself and stops at the first rejection."""

    def _judge(
        self, tokens: Sequence[int], p: Callable[[int], Distribution], q: Sequence[Distribution]
    ) -> tuple[int, Distribution]:
        for i, token in enumerate(tokens):
            if self._uniform() >= probability(p(i), token) / probability(q[i], token):
                return i, residual(p(i), q[i])
        return len(tokens), p(len(tokens))


class BlockRule(SamplingRule):
    """Judges prefixes, the longest first, by the product of their tokens' ratios.

    Going down from k, the first prefix whose number is below h_i is the longest: the numbers
    that are not drawn would decide nothing.
    """

    def _judge(
        self, tokens: Sequence[int], p: Callable[[int], Distribution], q: Sequence[Distribution]
    ) -> tuple[int, Distribution]:
        k = len(tokens)
        s = [1.0]
        for i, token in enumerate(tokens):
            kept = s[i] * probability(p(i), token) / probability(q[i], token) if s[i] else 0.0
            s.append(min(1.0, kept))

        def h(i: int) -> float:
            if i == k or not s[i]:
                return s[i]
            return prefix_acceptance(s[i], excess(p(i), q[i], s[i]).sum())

        n = next((i for i in range(k, 0, -1) if self._uniform() < h(i)), 0)
        return n, p(k) if n == k else residual(p(n), q[n], s[n])


def prefix_acceptance(s: float, z: float) -> float:
    """h_i of block verification for i < k, from s_i and Z_i; 1 where that is 0 / 0."""
    return 1.0 if s == 1 else z / (z + (1 - s))


def recent(context: Sequence[int], n: int) -> list[int]:
    """The last `n` tokens of `context`; all of it where it is shorter."""
    return list(context[max(0, len(context) - n) :])
