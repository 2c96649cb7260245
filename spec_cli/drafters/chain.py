"""Drafting from all sources: copies are free, model guesses go on where they are worth more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spec_cli.drafters.copies import TextCopies
from spec_cli.drafters.model import DraftModel
from spec_cli.spec.constraint import ConstrainedText
from spec_cli.spec.distribution import certain
from spec_cli.spec.interfaces import Budget, Distribution, Draft, Evidence
from spec_cli.spec.survival import copy_evidence, model_evidence


class ChainDrafter:
    """Goes on with a copy or with the draft model's guess, whichever `budget` expects more of.

    A copy may extend a guess, and a guess a copy. Either source may be missing.
    """

    def __init__(
        self,
        copies: TextCopies | None,
        model: DraftModel | None,
        *,
        is_end: Callable[[int], bool],
        text: ConstrainedText | None = None,
    ) -> None:
        """`is_end` tells end-of-generation tokens: no draft goes beyond one.

        Copies go no further than `text` allows; the draft model keeps to it by its rule.
        """
        self._copies, self._model = copies, model
        self._is_end = is_end
        self._text = text

    def begin(self, prompt: Sequence[int]) -> None:
        """Start a new generation after `prompt`."""
        for source in (self._copies, self._model):
            if source:
                source.begin(prompt)

    def n_behind(self, context: Sequence[int]) -> int:
        """How many tokens of `context` the draft model evaluates before its next guess."""
        return self._model.n_behind(context) if self._model else 0

    def propose(self, context: Sequence[int], budget: Budget) -> Draft:
        """Guesses that `budget` expects to pay; none beyond an end-of-generation token."""
        drafted = _Drafted()
        or_model = self._model is not None
        while budget.room > 0 and not (drafted.tokens and self._is_end(drafted.tokens[-1])):
            if self._copy(drafted, budget, or_model=or_model):
                continue
            if not (or_model and budget.wants_model()):
                break
            # Where the model has no guess, copies that were left for its sake have another chance.
            or_model = self._guess(context, drafted, budget)
        return drafted.draft()

    def commit(self, context: Sequence[int]) -> None:
        """Learn what the round decided: `context` is the committed sequence now."""
        for source in (self._copies, self._model):
            if source:
                source.commit(context)

    def _copy(self, drafted: _Drafted, budget: Budget, *, or_model: bool) -> bool:
        """Whether copies were taken; `or_model`: the draft model can guess in their place."""
        if not self._copies:
            return False
        copies = self._copies.after(drafted.tokens, budget.room)
        ends = (i + 1 for i, copy in enumerate(copies) if self._is_end(copy.token))
        copies = copies[: next(ends, len(copies))]
        if self._text:
            tokens = [copy.token for copy in copies]
            copies = copies[: self._text.n_allowed(drafted.tokens, tokens)]
        evidence = [copy_evidence(copy) for copy in copies]
        n = budget.take(evidence, or_model=or_model) if copies else 0
        for copy, known in zip(copies[:n], evidence, strict=False):
            drafted.add(copy.token, known, None)
        return n > 0

    def _guess(self, context: Sequence[int], drafted: _Drafted, budget: Budget) -> bool:
        """Whether the draft model made a guess."""
        assert self._model is not None
        drawn = self._model.guess(context, drafted.tokens)
        if drawn is None:
            return False
        evidence = model_evidence(drawn.confidence)
        budget.add(evidence)
        drafted.add(drawn.token, evidence, drawn.q)
        return True


class _Drafted:
    """The tokens of a round so far."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._evidence: list[Evidence] = []
        self._q: list[Distribution | None] = []

    def add(self, token: int, evidence: Evidence, q: Distribution | None) -> None:
        self.tokens.append(token)
        self._evidence.append(evidence)
        self._q.append(q)

    def draft(self) -> Draft:
        """The draft; where some tokens were drawn at random, copies count as certain."""
        q = None
        if any(self._q):
            pairs = zip(self._q, self.tokens, strict=True)
            q = tuple(of or certain(token) for of, token in pairs)
        return Draft(tuple(self.tokens), q, tuple(self._evidence))
