"""A constraint that begins with the answer: what the model thinks before it is free."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from spec_cli.reasoning import ReasoningFormat, ReasoningSplitter, Stage
from spec_cli.spec.interfaces import Constraint, Flags, Ids


class ThinkingTokens:
    """A vocabulary's texts, and which tokens matter to one format of reasoning.

    What is made by looking at every token is made when it is first asked for.
    """

    def __init__(self, reasoning: ReasoningFormat, pieces: Sequence[bytes], ends: Ids) -> None:
        """`pieces` are the texts by id; `ends` are the end-of-generation tokens."""
        self.format = reasoning
        self._pieces, self._ends = pieces, ends

    def text(self, token: int) -> bytes:
        """The bytes of a token, those of a mark's control tokens included."""
        return self.format.control.get(token) or self._pieces[token]

    @cached_property
    def may_be_thought(self) -> Flags:
        """Every token but the end-of-generation ones, shape [n_vocab]."""
        flags = np.ones(len(self._pieces), dtype=bool)
        flags[self._ends] = False
        return flags

    @cached_property
    def spaces(self) -> Ids:
        """Tokens of white space and nothing else."""
        return self._where([text.isspace() for text in self._texts])

    @cached_property
    def openers(self) -> Ids:
        """Tokens that could be a piece of what begins or skips a block."""
        marks = [mark.encode() for mark in (self.format.marks.begin, self.format.marks.skip)]
        tails = tuple(mark[i:] for mark in marks for i in range(len(mark)))
        return self._where(
            [
                bool(text) and (any(text in mark for mark in marks) or text.startswith(tails))
                for text in self._texts
            ]
        )

    @cached_property
    def closers(self) -> Flags:
        """Tokens that could end the block and begin the answer, shape [n_vocab]."""
        last = self.format.marks.end[-1].encode()
        return np.array([bool(text.partition(last)[2].strip()) for text in self._texts])

    @property
    def _texts(self) -> list[bytes]:
        return [self.text(token) for token in range(len(self._pieces))]

    def _where(self, flags: Sequence[bool]) -> Ids:
        return np.array(flags, dtype=bool).nonzero()[0]


class FreeReasoning:
    """What may follow while the answer has not begun: a `Constraint`.

    `grammar` constrains the answer if it begins now, None where it cannot; `start` if it begins
    later. No token ends the block and begins the answer at once, and none ends the generation
    within the block. After the block one token of white space is free: models put a line end there.
    """

    def __init__(
        self,
        tokens: ThinkingTokens,
        splitter: ReasoningSplitter,
        *,
        start: Constraint,
        grammar: Constraint | None,
        pending: bytes = b"",
    ) -> None:
        """`splitter` has read the text so far but for `pending`, which begins a character."""
        self._tokens, self._splitter, self._pending = tokens, splitter, pending
        self._start, self._grammar = start, grammar

    @property
    def is_complete(self) -> bool:
        """Whether the text may end here."""
        return self._grammar is not None and self._grammar.is_complete

    def allows(self, ids: Ids) -> Flags:
        """Which of `ids` may come next, shape [n]."""
        free = self._is_free(ids)
        return free if self._grammar is None else free | self._grammar.allows(ids)

    def allowed(self) -> Ids:
        """Every id that may come next, ascending."""
        free = self._free
        return free if self._grammar is None else np.union1d(free, self._grammar.allowed())

    def after(self, token: int) -> Constraint:
        """The constraint after `token`. Raises ValueError where it is not allowed."""
        one = np.array([token])
        grammar = self._grammar
        if grammar is not None:
            grammar = grammar.after(token) if grammar.allows(one)[0] else None
        if grammar is None and not self._is_free(one)[0]:
            raise ValueError(f"token {token} is not allowed before the answer")
        if self._splitter.stage is Stage.ENDED:
            return self._start if grammar is None else grammar
        splitter, pending = self._read(token)
        if splitter.stage is Stage.ANSWER or not self._tokens.may_be_thought[token]:
            assert grammar is not None
            return grammar
        if splitter.stage is not Stage.OPEN:
            grammar = self._start if splitter.stage is Stage.ENDED else None
        return FreeReasoning(
            self._tokens, splitter, start=self._start, grammar=grammar, pending=pending
        )

    def _is_free(self, ids: Ids) -> Flags:
        """Which of `ids` may come next without being part of the answer."""
        if not self._splitter.is_reasoning:
            return np.isin(ids, self._free)
        free = self._tokens.may_be_thought[ids]
        for i in (free & self._tokens.closers[ids]).nonzero()[0]:
            free[i] = self._stays_apart(int(ids[i]))
        return free

    @cached_property
    def _free(self) -> Ids:
        """Every id for which `_is_free`, ascending."""
        match self._splitter.stage:
            case Stage.OPEN:
                openers = self._tokens.openers
                return openers[[self._opens(int(token)) for token in openers]]
            case Stage.ENDED:
                return self._tokens.spaces
            case _:
                ids = self._tokens.may_be_thought.nonzero()[0]
                return ids[self._is_free(ids)]

    def _opens(self, token: int) -> bool:
        """Whether the text is a block's mark after `token`, or a beginning of one."""
        splitter, _ = self._read(token)
        if splitter.stage is Stage.OPEN:
            return bool(splitter.held.strip())
        return splitter.stage is not Stage.ANSWER and self._stays_apart(token)

    def _stays_apart(self, token: int) -> bool:
        """Whether nothing of the answer is in `token`."""
        splitter, pending = self._read(token)
        return splitter.is_reasoning or (splitter.stage is Stage.ENDED and not pending)

    def _read(self, token: int) -> tuple[ReasoningSplitter, bytes]:
        """The splitter after `token`, and the beginning of a character that it leaves."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        decoder.setstate((self._pending, 0))
        splitter = self._splitter.copy()
        splitter.push(decoder.decode(self._tokens.text(token)))
        return splitter, decoder.getstate()[0]
