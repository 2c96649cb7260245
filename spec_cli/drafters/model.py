"""Drafting with a second, smaller model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spec_cli.spec.acceptance import recent
from spec_cli.spec.interfaces import NO_DRAFT, AcceptanceRule, Draft, Drawn, LanguageModel


class ModelDrafter:
    """Draws each draft token from the draft model, in the way the acceptance rule asks for.

    Invariant I2: between rounds the model's KV cache holds a prefix of the committed sequence;
    within a round also the tokens drafted in it. Nothing is evaluated twice: a round drops only
    the rejected tail, and the tokens the model has not seen ride along in its next pass.

    `n_shared` is the number of leading token ids that mean the same in both vocabularies. Others
    never cross: they are not proposed, and a context that contains one is not drafted for.
    """

    name = "model"

    def __init__(
        self,
        model: LanguageModel,
        rule: AcceptanceRule,
        *,
        n_shared: int,
        is_end: Callable[[int], bool],
    ) -> None:
        self._model = model
        self._rule = rule
        self._n_shared = n_shared
        self._is_end = is_end
        self._n_context = 0  # length of the context of the last proposal
        self._drafted: list[int] = []

    def begin(self, prompt: Sequence[int]) -> None:
        """Forget everything; the prompt is evaluated when the first draft is asked for."""
        self._model.rollback(0)
        self._n_context, self._drafted = 0, []

    def propose(self, context: Sequence[int], k: int) -> Draft:
        """Up to `k` tokens; fewer after an end-of-generation token or where the cache ends."""
        missing = context[self._model.n_past :]
        k = min(k, self._model.n_ctx + 1 - len(context))
        if k < 1 or max(missing) >= self._n_shared:
            return NO_DRAFT
        self._n_context, self._drafted = len(context), []
        history = recent(context, self._rule.n_history)
        q = []
        while True:
            drawn = self._guess(missing, history)
            self._drafted.append(drawn.token)
            history.append(drawn.token)
            if drawn.q is not None:
                q.append(drawn.q)
            if len(self._drafted) == k or self._is_end(drawn.token):
                return Draft(tuple(self._drafted), tuple(q) or None)
            missing = (drawn.token,)

    def commit(self, context: Sequence[int]) -> None:
        """Drop the drafted tokens that `context` lacks, or that are its last: the next input."""
        if not self._drafted:
            return
        n_keep = self._n_context
        for drafted, committed in zip(self._drafted, context[n_keep:-1], strict=False):
            if drafted != committed:
                break
            n_keep += 1
        self._drafted = []
        if n_keep < self._model.n_past:
            self._model.rollback(n_keep)

    def _guess(self, tokens: Sequence[int], history: Sequence[int]) -> Drawn:
        """Evaluate `tokens` and draw the one that follows them."""
        n_batch = self._model.n_batch
        while len(tokens) > n_batch:
            self._model.eval(tokens[:n_batch], n_rows=0)
            tokens = tokens[n_batch:]
        logits = self._model.eval(tokens, n_rows=1)[0, : self._n_shared]
        return self._rule.draw(logits, self._model.n_past, history)
