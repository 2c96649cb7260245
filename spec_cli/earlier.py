"""Answers of earlier runs as text to copy from, kept only where the user asks for it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from spec_cli.gguf import Vocabulary
from spec_cli.spec.lookup import BREAK
from spec_cli.state import StateStore

_KIND = "answers"
N_KEPT = 32768  # tokens, the latest; filing them takes some 50 ms at the start of a generation


class EarlierAnswers:
    """Token ids of the last answers, for one vocabulary.

    Of two runs that end together the answer of one may be lost.
    """

    def __init__(self, vocabulary: Vocabulary, *, state: StateStore) -> None:
        self._n_vocab = len(vocabulary.tokens)
        self._key = {
            "model": vocabulary.model,
            "pre": vocabulary.pre,
            "tokens_sha256": hashlib.sha256(vocabulary.tokens.packed).hexdigest(),
        }
        self._state = state

    def load(self) -> list[int]:
        """All of them, oldest first, with a BREAK after each."""
        stored = self._state.load(_KIND, self._key)
        if not isinstance(stored, list) or not all(map(self._is_id, stored)):
            return []
        return stored

    def add(self, tokens: Sequence[int]) -> None:
        """Keep one more; of all, the latest N_KEPT tokens stay."""
        if tokens:
            text = [*self.load(), *tokens, BREAK]
            self._state.save(_KIND, self._key, text[-N_KEPT:])

    def _is_id(self, value: Any) -> bool:
        return isinstance(value, int) and BREAK <= value < self._n_vocab
