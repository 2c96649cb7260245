"""Guessing with a second, smaller model."""

from __future__ import annotations

from collections.abc import Sequence

from spec_cli.spec.acceptance import recent
from spec_cli.spec.interfaces import AcceptanceRule, Drawn, LanguageModel, Logits
from spec_cli.spec.sampling import NothingAllowed, UnusableLogits
from spec_cli.spec.survival import Survival, model_evidence

N_ROWS = 32  # of a pass that is scored, at most: each costs the head of the model


class DraftModel:
    """Guesses the next token, as the acceptance rule asks for, and never evaluates one twice.

    Invariant I2: between rounds the model's memory holds a prefix of the committed sequence,
    short of its last token; within a round also tokens drafted in it. A round drops only the
    rejected tail, and the tokens the model has not seen ride along in its next pass. Where they
    were generated, what it would have guessed in their place is scored: that costs no pass. A
    recurrent memory goes back further, to the context that the round began with.

    `n_shared` is the number of leading token ids that mean the same in both vocabularies. Others
    never cross: they are not proposed, and a context that contains one is not drafted for.
    """

    def __init__(
        self,
        model: LanguageModel,
        rule: AcceptanceRule,
        survival: Survival,
        *,
        n_shared: int,
        is_recurrent: bool = False,
    ) -> None:
        self._model = model
        self._rule = rule
        self._survival = survival
        self._n_shared = n_shared
        self._is_recurrent = is_recurrent
        self._n_rows = min(N_ROWS, model.n_batch)
        self._n_prompt = 0
        self._n_context = 0  # length of the context of the last guess
        self._drafted: tuple[int, ...] = ()  # what the model has evaluated after that

    def begin(self, prompt: Sequence[int]) -> None:
        """Forget what `prompt` does not begin with; the rest is evaluated at the first guess."""
        self._model.keep(prompt[:-1])
        self._n_prompt = self._n_context = len(prompt)
        self._drafted = ()

    def n_behind(self, context: Sequence[int]) -> int:
        """How many tokens of `context` have not been evaluated."""
        return len(context) - self._model.n_past

    def guess(self, context: Sequence[int], drafted: Sequence[int]) -> Drawn | None:
        """The guess after `context` and the tokens `drafted` in this round.

        None where the cache ends, where a token means nothing to the draft model, and where a
        constraint allows no token that both models share. Raises UnusableLogits.
        """
        end = len(context) + len(drafted)
        if end > self._model.n_ctx or max(self._missing(context, drafted)) >= self._n_shared:
            return None
        if self._is_recurrent and drafted and self.n_behind(context) > 0:
            self._last_row(context, ())  # in a pass of its own: to here the memory can go back
        row = self._last_row(context, drafted)
        return self._draw(row, end, [*recent(context, self._rule.n_history), *drafted])

    def _last_row(self, context: Sequence[int], drafted: Sequence[int]) -> Logits:
        """Evaluate what is missing of `context` and `drafted`."""
        n_context, end = len(context), len(context) + len(drafted)
        first = max(self._model.n_past, self._n_prompt - 1, end - self._n_rows)
        scored = range(first, n_context - 1)
        n_rows = 1 if self._rule.samples_drafts or not scored else end - scored.start
        rows = self._eval(self._missing(context, drafted), n_rows)
        if self._is_recurrent and not drafted:
            self._model.keep(context)
        self._n_context, self._drafted = n_context, tuple(drafted)
        if n_rows > 1:
            for at, row in zip(scored, rows, strict=False):
                self._score(row, context, at + 1)
        last: Logits = rows[-1]
        return last

    def commit(self, context: Sequence[int]) -> None:
        """Drop the evaluated tokens that `context` lacks, or that are its last: the next input."""
        n_keep = self._n_context
        for drafted, committed in zip(self._drafted, context[n_keep:-1], strict=False):
            if drafted != committed:
                break
            n_keep += 1
        self._n_context, self._drafted = len(context), ()
        if n_keep < self._model.n_past and self._is_recurrent:
            self._model.keep(context[:n_keep])  # which may go back further
        elif n_keep < self._model.n_past:
            self._model.rollback(n_keep)

    def _missing(self, context: Sequence[int], drafted: Sequence[int]) -> list[int]:
        n_past = self._model.n_past
        return [*context[n_past:], *drafted[max(0, n_past - len(context)) :]]

    def _eval(self, tokens: Sequence[int], n_rows: int) -> Logits:
        """The last rows, over the ids that both models share."""
        n_batch = self._model.n_batch
        while len(tokens) > max(n_batch, n_rows):
            n = min(n_batch, len(tokens) - n_rows)
            self._model.eval(tokens[:n], n_rows=0)
            tokens = tokens[n:]
        return self._model.eval(tokens, n_rows=n_rows)[:, : self._n_shared]

    def _score(self, row: Logits, context: Sequence[int], at: int) -> None:
        """Learn whether the guess in place `at` would have held."""
        n = self._rule.n_history
        drawn = self._draw(row, at, context[max(0, at - n) : at])
        if drawn:
            held = drawn.token == context[at]
            self._survival.learn(model_evidence(drawn.confidence), accepted=held)

    def _draw(self, row: Logits, position: int, history: Sequence[int]) -> Drawn | None:
        try:
            return self._rule.draw(row, position, history)
        except NothingAllowed:
            return None
        except UnusableLogits as error:
            raise UnusableLogits(
                error.maximum, model="draft model", instead="`--no-draft`"
            ) from None
