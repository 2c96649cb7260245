"""What the decoding loop asks of a model and of a drafter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float32]
"""Logits, shape [n_rows, n_vocab] or [n_vocab]."""

Ids = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Weights = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution over tokens: `ids` ascending, `probabilities` above 0 that sum to 1."""

    ids: Ids
    probabilities: Weights


class LanguageModel(Protocol):
    """An autoregressive model with a memory of which only the tail can be dropped."""

    @property
    def n_vocab(self) -> int:
        """Number of token ids; each row of logits has this length."""

    @property
    def n_ctx(self) -> int:
        """Number of tokens the KV cache can hold."""

    @property
    def n_batch(self) -> int:
        """The largest number of tokens that one `eval` takes."""

    @property
    def n_past(self) -> int:
        """Number of tokens evaluated so far; the next one goes to this position."""

    def eval(self, tokens: Sequence[int], n_rows: int | None = None) -> Logits:
        """Evaluate `tokens` after the `n_past` earlier ones, in one pass.

        Returns the logits after each of the last `n_rows` tokens (after every token when None),
        shape [n_rows, n_vocab]. The array may be a view that the next `eval` overwrites.
        Raises ResourceError when the pass fails and Cancelled when it was aborted.
        """

    def rollback(self, n_past: int) -> None:
        """Forget every token from position `n_past` on.

        Raises ResourceError where the memory is recurrent and cannot go back to there.
        """

    def keep(self, tokens: Sequence[int]) -> int:
        """Forget all but the longest prefix of `tokens` that is evaluated already; its length.

        A memory that cannot drop a tail goes further back: to where it was at the last `keep`, if
        it can, or to nothing.
        """


class SequenceModel(Protocol):
    """A model with a KV cache for each of several sequences; of each the tail can be dropped."""

    @property
    def n_batch(self) -> int:
        """The largest number of tokens that one pass takes, of all sequences together."""

    @property
    def n_sequences(self) -> int:
        """How many sequences there are: 0, 1, ... are their names."""

    def read(self, sequence: int, tokens: Sequence[int]) -> None:
        """Evaluate tokens of one sequence after its earlier ones, without logits.

        Raises ResourceError when the pass fails and Cancelled when it was aborted.
        """

    def eval(self, tokens: Sequence[Sequence[int]]) -> Logits:
        """Evaluate tokens of the sequences 0, 1, ... in one pass, as many of each as of the others.

        Returns the logits after every token, shape [sequences, tokens of each, n_vocab]; the array
        may be a view that the next `eval` overwrites. Raises what `read` raises.
        """

    def rollback(self, sequence: int, n_past: int) -> None:
        """Forget every token of a sequence from position `n_past` on."""

    def copy(self, source: int, target: int) -> None:
        """Let the cache of `target` hold what that of `source` does."""


class Source(StrEnum):
    """Where a guess comes from."""

    MODEL = "model"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class Evidence:
    """How sure a source is of a guess before it is judged: a `level` from 0 up (see `survival`)."""

    source: Source
    level: int


@dataclass(frozen=True, slots=True)
class Draft:
    """The proposal of one round: `tokens` d1..dk, possibly none, and the `evidence` for each.

    `q` holds the distribution that each token was drawn from, where the acceptance rule needs
    it; None stands for certainty: all of q on the token itself, as in a copied n-gram.
    A drafter that knows nothing about its guesses gives no evidence.
    """

    tokens: tuple[int, ...] = ()
    q: tuple[Distribution, ...] | None = None
    evidence: tuple[Evidence, ...] = ()

    def first(self, k: int) -> Draft:
        """The draft cut to its first `k` tokens."""
        if k >= len(self.tokens):
            return self
        return Draft(self.tokens[:k], self.q and self.q[:k], self.evidence[:k])


NO_DRAFT = Draft()


class Budget(Protocol):
    """What one round may draft: a drafter asks before each guess and reports what it drafted."""

    @property
    def room(self) -> int:
        """How many more tokens may be drafted."""

    def take(self, copies: Sequence[Evidence], *, or_model: bool = False) -> int:
        """How many of these guesses, which are free, to draft now: they count as drafted.

        0 where checking them does not pay, or, with `or_model`, where the draft model's own are
        worth more.
        """

    def wants_model(self) -> bool:
        """Whether one more guess of the draft model is worth what it costs."""

    def add(self, evidence: Evidence) -> None:
        """The draft model made one more guess."""


class Constraint(Protocol):
    """What may follow some tokens. A value: one more token leads to another constraint."""

    @property
    def is_complete(self) -> bool:
        """Whether the text may end here."""

    def allows(self, ids: Ids) -> Flags:
        """Which of `ids` may come next, shape [n]."""

    def allowed(self) -> Ids:
        """Every id that may come next, ascending."""

    def after(self, token: int) -> Constraint:
        """The constraint after `token`, which must be allowed; itself after the end."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a token is chosen: its position, the tokens before it, and what constrains it.

    Of `history`, as many of the last tokens as the choice depends on are enough.
    """

    position: int
    history: Sequence[int] = ()
    constraint: Constraint | None = None


class Drafter(Protocol):
    """Proposes tokens; never decides. Called as begin, then propose and commit in each round."""

    def begin(self, prompt: Sequence[int]) -> None:
        """Start a new generation after `prompt`."""

    def n_behind(self, context: Sequence[int]) -> int:
        """How many tokens of `context` the draft model evaluates before its next guess."""

    def propose(self, context: Sequence[int], budget: Budget) -> Draft:
        """Guess tokens that follow `context`, as many as `budget` wants; fewer is allowed."""

    def commit(self, context: Sequence[int]) -> None:
        """Learn what the round decided: `context` is the committed sequence now."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A draft token, and the q it was drawn from where the acceptance rule needs it.

    `confidence` is the probability that the draft model gives to it, filters applied.
    """

    token: int
    confidence: float
    q: Distribution | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a target pass commits: the accepted draft tokens and the one token after them.

    `near_ties` says of each token whether it was chosen by less than the margin that the rule was
    told to watch; it is empty where the rule watches none.
    """

    tokens: tuple[int, ...]
    near_ties: tuple[bool, ...] = ()


class AcceptanceRule(Protocol):
    """How draft tokens are drawn from the draft model, and judged by the target."""

    @property
    def samples_drafts(self) -> bool:
        """Whether draft tokens are drawn at random: then each that was drawn must be judged."""

    @property
    def n_history(self) -> int:
        """How many of the last tokens a choice depends on."""

    def draw(self, logits: Logits, position: int, history: Sequence[int]) -> Drawn:
        """The draft token at `position`, given the draft model's logits [n_vocab] there.

        Only the last `n_history` tokens of `history` are looked at.
        """

    def verify(self, rows: Logits, draft: Draft, context: Sequence[int]) -> Verdict:
        """Judge `draft` after `context` by the target's logits, shape [k + 1, n_vocab].

        Row i is the target's view of the position after `context` and i draft tokens.
        """
