"""Drafting from a known text with errors thrown in: every pattern of acceptance, at no cost."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from spec_cli.spec.interfaces import Budget, Draft

WRONG = 0.25  # the probability that a proposed token is replaced


class RandomDrafter:
    """Proposes tokens of a text known to come, each replaced by another one now and then.

    Drafts have every length up to the one asked for. Where the context has left the known text,
    and beyond its end, tokens are drawn from the whole vocabulary.
    """

    def __init__(self, known: Sequence[int], n_vocab: int, random: Random) -> None:
        """`known` is what follows the prompt in plain decoding."""
        self._known = list(known)
        self._n_vocab = n_vocab
        self._random = random
        self._text: list[int] = []

    def begin(self, prompt: Sequence[int]) -> None:
        """The known text now follows `prompt`."""
        self._text = [*prompt, *self._known]

    def n_behind(self, context: Sequence[int]) -> int:
        """There is no draft model."""
        return 0

    def propose(self, context: Sequence[int], budget: Budget) -> Draft:
        """1 token, or more up to the room there is."""
        n, length = len(context), self._random.randint(1, budget.room)
        follows = self._text[n : n + length] if self._text[:n] == list(context) else []
        guesses = [self._perhaps_wrong(token) for token in follows]
        guesses += [self._random.randrange(self._n_vocab) for _ in range(length - len(follows))]
        return Draft(tuple(guesses))

    def commit(self, context: Sequence[int]) -> None:
        """Nothing to learn."""

    def _perhaps_wrong(self, token: int) -> int:
        if self._random.random() >= WRONG:
            return token
        return (token + self._random.randrange(1, self._n_vocab)) % self._n_vocab
