"""llama.cpp's grammar engine as a `Constraint`: each state is a clone of its own."""

from __future__ import annotations

import codecs
import ctypes
import weakref
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from spec_cli.errors import UsageError
from spec_cli.grammar.gbnf import Gbnf
from spec_cli.grammar.rules import ROOT
from spec_cli.llama.library import library
from spec_cli.llama.model import LlamaModel
from spec_cli.llama.pieces import PieceTree
from spec_cli.spec.interfaces import Flags, Ids

MAX_STEP_S = 5.0
_CANDIDATE = np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])  # llama_token_data, llama.h


class GrammarEngine:
    """A grammar compiled for the tokens of one model, which must outlive its states.

    llama.cpp follows every way in which a text can be read. Where there are ever more of them a
    step takes ever longer: one of more than MAX_STEP_S by `clock` is the last, with a UsageError.
    """

    def __init__(
        self, model: LlamaModel, tree: PieceTree, grammar: Gbnf, clock: Callable[[], float]
    ) -> None:
        """Raises UsageError when llama.cpp refuses what `parse_gbnf` let pass."""
        self.api = library().api
        self._clock = clock
        self.grammar = grammar
        self.model = model
        self.tree = tree
        library().log.take_errors()
        sampler = self.api.llama_sampler_init_grammar(
            model.vocab, grammar.source.encode(), ROOT.encode()
        )
        if not sampler:
            reason = "; ".join(library().log.take_errors()) or "it gave no reason"
            raise UsageError(f"llama.cpp cannot use the grammar: {reason}")
        self.start = GrammarState(self, sampler, pending=b"")

    def step(self, function: Callable[..., object], *args: object) -> None:
        """Call a function of llama.cpp."""
        started = self._clock()
        function(*args)
        took_s = self._clock() - started
        if took_s > MAX_STEP_S:
            raise UsageError(
                f"the grammar is too slow: one step took {took_s:.1f} s",
                hint="write it so that a text can be read in few ways: with `x{0,100}` rather than "
                "`x? x? ...`, and without alternatives that begin alike",
            )


class GrammarState:
    """What the grammar allows after some tokens. Frees its sampler when it is forgotten.

    `pending` are the bytes of an unfinished character: only what continues it may follow.
    llama.cpp aborts the process when it is told to accept what it forbids, so we ask first.
    """

    def __init__(self, engine: GrammarEngine, sampler: Any, *, pending: bytes) -> None:
        self._engine, self._sampler, self._pending = engine, sampler, pending
        weakref.finalize(self, engine.api.llama_sampler_free, sampler)

    @cached_property
    def is_complete(self) -> bool:
        """Whether the text may end here."""
        ends = self._engine.tree.ends
        return not self._pending and bool(ends.size) and bool(self._judged(ends[:1])[0])

    def allows(self, ids: Ids) -> Flags:
        """Which of `ids` may come next, shape [n]."""
        return self._judged(ids) & self._written(ids)

    def allowed(self) -> Ids:
        """Every id that may come next, ascending."""
        return self._every

    def after(self, token: int) -> GrammarState:
        """The state after `token`. Raises ValueError where it is not allowed."""
        if not self.allows(np.array([token]))[0]:
            raise ValueError(f"token {token} is not allowed by the grammar")
        engine = self._engine
        if engine.model.is_end(token):
            return self
        sampler = engine.api.llama_sampler_clone(self._sampler)
        pending = _unfinished(self._pending + engine.model.piece(token))
        state = GrammarState(engine, sampler, pending=pending or b"")
        engine.step(engine.api.llama_sampler_accept, sampler, token)
        return state

    def read(self, text: str) -> tuple[GrammarState, int]:
        """The state after the longest beginning of `text` that is allowed, and its length."""
        state = self
        for n, character in enumerate(text):
            following = state._after_all(self._engine.tree.spelled(character))
            if following is None:
                return state, n
            state = following
        return state, len(text)

    def _after_all(self, tokens: Sequence[int]) -> GrammarState | None:
        """The state after some tokens; None where there are none, or one is not allowed."""
        state = self
        for token in tokens:
            if not state.allows(np.array([token]))[0]:
                return None
            state = state.after(token)
        return state if tokens else None

    @cached_property
    def _every(self) -> Ids:
        tree = self._engine.tree
        if self._engine.grammar.negates_beyond_ascii:
            return tree.ids[self.allows(tree.ids)]
        found, level = [], tree.roots
        while level.size:
            level = level[self.allows(level)]
            found.append(level)
            level = tree.below(level)
        return np.sort(np.concatenate(found))

    def _judged(self, ids: Ids) -> Flags:
        """What llama.cpp says."""
        data = np.zeros(ids.size, dtype=_CANDIDATE)
        data["id"] = ids
        api = self._engine.api
        array = api.llama_token_data_array(
            data=data.ctypes.data_as(api.llama_token_data_p), size=ids.size, selected=-1
        )
        self._engine.step(api.llama_sampler_apply, self._sampler, ctypes.byref(array))
        judged: Flags = data["logit"] == 0
        return judged

    def _written(self, ids: Ids) -> Flags:
        """Which of `ids` leave valid text: llama.cpp reads control tokens and bytes more freely."""
        tree = self._engine.tree
        found = tree.is_text[ids]
        for i in (~found).nonzero()[0]:
            found[i] = self._goes_on(int(ids[i]))
        return found

    def _goes_on(self, token: int) -> bool:
        if self._engine.model.is_end(token):
            return not self._pending
        piece = self._engine.model.piece(token)
        return bool(piece) and b"\0" not in piece and _unfinished(self._pending + piece) is not None


def _unfinished(text: bytes) -> bytes | None:
    """The bytes of a character that has not ended at the end of `text`; None: it is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(text)
    except UnicodeDecodeError:
        return None
    rest = decoder.getstate()[0]
    # Half of a surrogate pair: Python finds it invalid with its third byte only.
    return None if rest[:1] == b"\xed" and rest[1:] >= b"\xa0" else rest
