"""Which of the models at hand can draft for a target, and why the others cannot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spec_cli.errors import PairError
from spec_cli.gguf import Header
from spec_cli.modelref import ModelRef, Pair, RepoFile
from spec_cli.pairing import check_pair


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that might draft. `header` is None where it is not on this machine."""

    name: str
    size_bytes: int | None
    header: Header | None

    @property
    def is_cached(self) -> bool:
        """Whether its file is here."""
        return self.header is not None


@dataclass(frozen=True, slots=True)
class Suggestion:
    """`candidate`, and why it is no draft for the target; None where it is one."""

    candidate: Candidate
    problem: str | None

    @property
    def fits(self) -> bool:
        """Whether it can draft."""
        return self.problem is None


def suggest(target: Header | None, candidates: Iterable[Candidate]) -> list[Suggestion]:
    """Judge `candidates`: those that fit first, the smallest first.

    Where a header is missing, the candidate is taken to be known to fit.
    """
    judged = [
        Suggestion(one, problem(target, one.header) if target and one.header else None)
        for one in candidates
    ]
    return sorted(judged, key=lambda one: (not one.fits, one.candidate.size_bytes or 0))


def problem(target: Header, draft: Header) -> str | None:
    """Why `draft` is no draft for `target`; None where it is one."""
    try:
        check_pair(target, draft)
    except PairError as error:
        return error.message.partition(f"{target.path.name}: ")[2]
    if draft.n_params >= target.n_params:
        return "it is not smaller than the target"
    return None


def known_drafts(target: ModelRef, pairs: Iterable[Pair]) -> list[RepoFile]:
    """The drafts that pairs have for a target of the same repository, whatever its quantisation."""
    if not isinstance(target, RepoFile):
        return []
    drafts = {
        pair.draft.name: pair.draft
        for pair in pairs
        if isinstance(pair.target, RepoFile)
        and pair.target.repo == target.repo
        and isinstance(pair.draft, RepoFile)
    }
    return list(drafts.values())
