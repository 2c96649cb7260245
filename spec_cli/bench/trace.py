"""Where each drafter would have guessed right along a text that is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spec_cli.bench.limits import Limits, Source, limits, runs_from_matches, runs_of
from spec_cli.drafters.chain import ChainDrafter
from spec_cli.drafters.copies import TextCopies
from spec_cli.reading import matches
from spec_cli.session import Session
from spec_cli.settings import DrafterKind
from spec_cli.spec.interfaces import AcceptanceRule
from spec_cli.spec.survival import Survival


def limits_of(
    session: Session,
    kind: DrafterKind,
    prompt: Sequence[int],
    text: Sequence[int],
    rule: AcceptanceRule,
    k_max: int,
) -> Limits | None:
    """The limits of drafting `text` after `prompt` with at most `k_max` tokens in a round.

    None where the guesses are not known. The first token waits for no drafter in any arm, so
    nothing is drafted there.
    """
    sources = _sources(session, kind, prompt, text, rule, k_max)
    if not sources or session.costs is None:
        return None
    waited = [replace(source, runs=[0, *source.runs[1:]]) for source in sources]
    return limits(waited, session.costs.target, k_max)


def _sources(
    session: Session,
    kind: DrafterKind,
    prompt: Sequence[int],
    text: Sequence[int],
    rule: AcceptanceRule,
    k_max: int,
) -> list[Source]:
    """The guesses of each of the drafter's sources; none where they are not known."""
    sources = []
    if kind.needs_model:
        model = session.draft
        if model is None or session.costs is None or len(prompt) + len(text) > model.n_ctx:
            return []
        right = matches(model, prompt, text, rule, n_shared=session.n_shared)
        runs = runs_from_matches(right, k_max)
        sources.append(Source(runs, token_s=session.costs.draft_token_s))
    if kind is not DrafterKind.MODEL:
        copies = ChainDrafter(TextCopies(Survival()), None, is_end=session.model.is_end)
        sources.append(Source(runs_of(copies, prompt, text, k_max), token_s=0.0))
    return sources
