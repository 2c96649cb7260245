"""What the shell offers for a half-written word. Nothing here may be slow or write anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from spec_cli.errors import SpecError
from spec_cli.modelref import RepoFile
from spec_cli.registry import Registry, load_registry, user_registry_path


def complete_pair(incomplete: str) -> list[str]:
    """The names of pairs. Where there are none, shells offer files."""
    registry = _registry()
    return _starting(incomplete, registry.pairs if registry else ())


def complete_draft(incomplete: str) -> list[str]:
    """`none`, and the drafts of pairs."""
    return [*_starting(incomplete, ["none"]), *complete_draft_model(incomplete)]


def complete_draft_model(incomplete: str) -> list[str]:
    """The drafts of pairs."""
    registry = _registry()
    pairs = registry.pairs.values() if registry else ()
    drafts = dict.fromkeys(pair.draft.name for pair in pairs if isinstance(pair.draft, RepoFile))
    return _starting(incomplete, drafts)


def complete_own_pair(incomplete: str) -> list[str]:
    """The names of the pairs that the user added."""
    path = user_registry_path()
    registry = _registry()
    own = [name for name, origin in registry.origins.items() if origin == path] if registry else []
    return _starting(incomplete, own)


def complete_list(words: Iterable[str]) -> Callable[[str], list[str]]:
    """The last word of a list with commas; each of `words` at most once."""
    known = list(words)

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        used = before.split(",")
        return [f"{before}{comma}{word}" for word in _starting(last, known) if word not in used]

    return complete


def _starting(incomplete: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.lower().startswith(incomplete.lower())]


def _registry() -> Registry | None:
    try:
        return load_registry()
    except SpecError:
        return None  # told when the command runs
