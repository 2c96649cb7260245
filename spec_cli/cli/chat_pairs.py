"""Changing the pair that speaks without losing the chat."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from spec_cli.cli.chat_speaker import Speaker
from spec_cli.gguf import read_header
from spec_cli.modelref import Pair
from spec_cli.pairing import check_pair
from spec_cli.pairs import LocalPair


class LoadedSpeakers:
    """One loaded pair at a time. Owns it; use as a context manager.

    Two pairs may be too much for the memory, so the old one goes first. Where the new one then
    cannot be loaded, the old one is loaded again when it is next asked for.
    """

    def __init__(
        self,
        first: Pair,
        *,
        choose: Callable[[str, str | None], Pair],
        fetch: Callable[[Pair], LocalPair],
        make: Callable[[Pair, LocalPair], Speaker],
    ) -> None:
        """Load `first`. Raises what `fetch` and `make` raise."""
        self._choose, self._fetch, self._make = choose, fetch, make
        self._pair, self._files = first, fetch(first)
        self._loaded: Speaker | None = make(first, self._files)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close()

    @property
    def now(self) -> Speaker:
        """The pair that speaks now. Raises what loading it raises."""
        if self._loaded is None:
            self._loaded = self._make(self._pair, self._files)
        return self._loaded

    @property
    def name(self) -> str:
        """The name of its target."""
        return self._files.target.name

    def change(self, target: str, draft: str | None) -> int | None:
        """See `Speakers.change`."""
        pair = self._choose(target, draft)
        files = self._fetch(pair)
        if (pair, files) == (self._pair, self._files):
            return pair.draft_tokens
        _check(files)
        self._close()
        self._loaded = self._make(pair, files)
        self._pair, self._files = pair, files
        return pair.draft_tokens

    def _close(self) -> None:
        if self._loaded is not None:
            self._loaded.close()
            self._loaded = None


def _check(files: LocalPair) -> None:
    """What can be known to be wrong before a model is loaded. Raises ModelError or PairError."""
    target = read_header(files.target.path)
    if files.draft is not None:
        check_pair(target, read_header(files.draft.path))
