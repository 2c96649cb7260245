"""The first difference of two texts, and whether rounding alone explains it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spec_cli.settings import GenerationSettings
from spec_cli.spec.acceptance import make_rule
from spec_cli.spec.exactness import ExactnessPlan
from spec_cli.spec.interfaces import NO_DRAFT, AcceptanceRule, Logits
from spec_cli.spec.noise import gumbel
from spec_cli.spec.sampling import candidates
from spec_cli.verify.recorder import Departure


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a speculative text leaves the plain one: `position` tokens are equal before it.

    A token is None where its text has ended. `margin` is by how much plain decoding prefers its
    own token, in logits; None where a filter drops one of the two in one of the rows.
    `row_difference` is the largest difference of two logits of the rows; None where that is no
    number. A near-tie is a difference that two rows explain which differ by no more than rounding
    does; `reason` tells why it is one, or is not.
    """

    position: int
    plain: int | None
    speculative: int | None
    margin: float | None
    row_difference: float | None
    is_near_tie: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges a difference at one position.

    `n_context` counts the tokens before it, the prompt included.
    """

    generation: GenerationSettings
    plan: ExactnessPlan
    n_context: int

    def difference(self, known: int, speculative: Departure, again: Departure | None) -> Difference:
        """The difference where the plain text has `known` and the speculative one departs.

        `again` is plain decoding, run again: its departure from the text that has the other token.
        """
        at, token = speculative.position, speculative.token
        if again is None or (again.position, again.token) != (at, known):
            reason = "plain decoding, run again, gave another text"
            return Difference(at, known, token, None, None, False, reason)
        rows = largest_difference(again.row, speculative.row)
        wrong = self._algorithm(known, again.row, token, speculative.row) or self._arithmetic(rows)
        margin = self._margin(again.row, known, token)
        if self._margin(speculative.row, token, known) is None:
            margin = None
        edge = ", and a filter keeps one of the tokens in one row only" if margin is None else ""
        return Difference(
            position=at,
            plain=known,
            speculative=token,
            margin=margin,
            row_difference=rows if np.isfinite(rows) else None,
            is_near_tie=wrong is None,
            reason=wrong or f"the rows differ by no more than other widths do here{edge}",
        )

    def _algorithm(self, known: int, plain: Logits, token: int, speculative: Logits) -> str | None:
        """What is wrong with the choice; None when the rows explain both tokens."""
        if self._choose(plain) != known:
            return "the rule, applied to the row of plain decoding, does not give its token"
        if self._choose(speculative) != token:
            return "the rule, applied to the row of the speculative pass, does not give its token"
        return None

    def _arithmetic(self, row_difference: float) -> str | None:
        """What is wrong with the rows; None when they differ by no more than rounding does."""
        if self.plan.is_exact:
            return "the rows differ, though these passes were found to give equal bits"
        bound = 2 * self.plan.max_difference
        if not row_difference <= bound:
            return f"the rows differ by more than {bound:.2g}, twice what other widths do here"
        return None

    def _choose(self, row: Logits) -> int:
        context = range(self.n_context)  # without penalties, only its length plays a part
        return rule_of(self.generation).verify(row[np.newaxis], NO_DRAFT, context).tokens[0]

    def _margin(self, row: Logits, token: int, other: int) -> float | None:
        """By how much `token` beats `other` in logits; None when a filter drops one of them."""
        sampling = self.generation.sampling
        if sampling.temp == 0:
            margin = float(row[token] - row[other])
            return margin if np.isfinite(margin) else None
        found = candidates(row, (), sampling)
        noise = gumbel(self.generation.seed, self.n_context, found.ids)
        scores = dict(zip(found.ids.tolist(), found.log_weights + noise, strict=True))
        if token not in scores or other not in scores:
            return None
        return float(scores[token] - scores[other]) * sampling.temp


def rule_of(generation: GenerationSettings) -> AcceptanceRule:
    """The acceptance rule of a generation, plain or not."""
    return make_rule(generation.accept, generation.sampling, generation.seed)


def largest_difference(a: Logits, b: Logits) -> float:
    """The largest difference of two logits of one token; NaN where one is not a number."""
    unequal = a != b
    return float(np.abs(a[unequal] - b[unequal]).max(initial=0.0))


def end_difference(plain: Sequence[int], speculative: Sequence[int]) -> Difference:
    """The difference of two texts that agree up to where one of them, or both, have ended."""
    at = min(len(plain), len(speculative))
    ended = "one text has ended and the other goes on"
    reason = ended if len(plain) != len(speculative) else "equal tokens, but another text or end"
    ours, theirs = (next(iter(text[at:]), None) for text in (plain, speculative))
    return Difference(at, ours, theirs, None, None, False, reason)
