"""Going on from a prompt that an earlier run has read.

The text is the same with the cache and without it. What a pass writes into the memory may depend
on how many tokens it evaluates, so only what whole passes over the prompt have written is used
again, or all of it where the prompt is the very same.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from spec_cli.errors import SpecError, UsageError
from spec_cli.events import Notice
from spec_cli.prompt_cache import (
    Part,
    UnusableCacheError,
    is_of_another_kind,
    read_cache,
    user_key,
    write_cache,
)
from spec_cli.session import TARGET, Session
from spec_cli.spec.prefix import common_prefix
from spec_cli.state import StateStore
from spec_cli.whole_file import WholeFile


class PromptReuse:
    """The prompt cache of one run. Use as a context manager.

    The file is replaced as a whole: runs at the same time do not disturb each other, and the last
    one to end has written it.
    """

    def __init__(self, path: Path) -> None:
        """Raises UsageError when there can be no file at `path`, or another kind of file is."""
        if is_of_another_kind(path):
            raise UsageError(
                f"{path} is no prompt cache, and would be replaced by one",
                hint="give another name to `--prompt-cache`, or delete that file",
            )
        self._path = path
        self._new = WholeFile(path, private=True)
        self._key = b""
        self._restored: dict[str, Sequence[int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._new.__exit__()

    def discard(self) -> None:
        """Leave the file as it was: for a process that ends at once."""
        self._new.discard()

    def restore(self, session: Session, store: StateStore, prompt: Sequence[int]) -> list[Notice]:
        """Give the prepared session what the file holds of `prompt`, and say so if it is of no use.

        `store` has the user's key.
        """
        self._key = user_key(store)
        if session.model.is_recurrent:
            return self._unused("the target's memory is recurrent and cannot be cached")
        try:
            parts = read_cache(self._path, self._key, session.bindings())
        except FileNotFoundError:
            return []
        except UnusableCacheError as error:
            return self._unused(str(error))
        for name, part in parts.items():
            # What the draft model makes of a text never decides it.
            n_batch = session.settings.n_batch if name == TARGET else 1
            n = n_usable(part.tokens, prompt[:-1], n_batch)
            context = session.contexts().get(name)
            if context is None or not n or len(part.tokens) > context.n_ctx:
                continue
            if not context.restore(part.tokens, part.state):
                return self._unused("llama.cpp does not accept what is in it")
            context.keep(prompt[:n])
            self._restored[name] = part.tokens
        return []

    def save(self, session: Session, prompt: Sequence[int]) -> None:
        """Write what the models have made of `prompt`, unless that is in the file already.

        Nothing else remains in their memories. Raises SpecError when it cannot be written.
        """
        if session.model.is_recurrent:
            return
        contexts = session.contexts()
        n_kept = {name: context.keep(prompt[:-1]) for name, context in contexts.items()}
        known = {
            name: list(context.evaluated) for name, context in contexts.items() if n_kept[name]
        }
        if n_kept[TARGET] < len(prompt) - 1 or known == self._restored:
            return
        bindings = session.bindings()
        parts = {
            name: Part(bindings[name], tokens, contexts[name].state())
            for name, tokens in known.items()
        }
        try:
            write_cache(self._new.file, self._key, parts)
        except OSError as error:
            reason = f"cannot write the prompt cache {self._path}: {error.strerror}"
            raise SpecError(reason) from None
        self._new.keep()

    def _unused(self, reason: str) -> list[Notice]:
        return [Notice(f"the prompt cache {self._path} is not used: {reason}")]


def n_usable(cached: Sequence[int], prompt: Sequence[int], n_batch: int) -> int:
    """How many of the `cached` tokens a run may keep that evaluates `prompt`, `n_batch` at once."""
    n = common_prefix(cached, prompt)
    return n if n == len(cached) == len(prompt) else n - n % n_batch
