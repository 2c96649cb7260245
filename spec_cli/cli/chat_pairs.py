"""Changing the pair that speaks without losing the chat."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from spec_cli.cli.chat_speaker import Speaker
from spec_cli.cli.pairs import LocalPair
from spec_cli.errors import Cancelled, SpecError
from spec_cli.gguf import read_header
from spec_cli.modelref import Pair
from spec_cli.pairing import check_pair


class LoadedSpeakers:
    """One loaded pair at a time. Owns it; use as a context manager."""

    def __init__(
        self,
        first: LocalPair,
        *,
        choose: Callable[[str, str | None], Pair],
        fetch: Callable[[Pair], LocalPair],
        make: Callable[[LocalPair], Speaker],
    ) -> None:
        """Load `first`. Raises what `make` raises."""
        self._choose, self._fetch, self._make = choose, fetch, make
        self.now = make(first)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.now.close()

    def change(self, target: str, draft: str | None) -> int | None:
        """See `Speakers.change`. Two pairs may be too much for the memory: one goes first."""
        pair = self._choose(target, draft)
        files, before = self._fetch(pair), self.now.pair
        _check(files)
        self.now.close()
        try:
            self.now = self._make(files)
        except (SpecError, Cancelled):
            self.now = self._make(before)
            raise
        return pair.draft_tokens


def _check(files: LocalPair) -> None:
    """What can be known to be wrong before a model is loaded. Raises ModelError or PairError."""
    target = read_header(files.target.path)
    if files.draft is not None:
        check_pair(target, read_header(files.draft.path))
