"""What the runs of one arm did, taken together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import geometric_mean, median

from spec_cli.bench.measure import Run


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums over runs, and what is derived from them with the definitions of `spec.stats`.

    Shares are of the decode time. `acceptance_at[i]` is the share of the drafts with at least
    i + 1 tokens whose token i was accepted. Rates of what did not occur are None.
    """

    n_runs: int
    n_tokens: int
    n_drafted: int
    n_accepted: int
    tokens_per_s: float
    prompt_tokens_per_s: float | None
    ttft_s: float
    acceptance_rate: float | None
    acceptance_length: float
    acceptance_at: tuple[float, ...]
    draft_share: float
    verify_share: float
    host_share: float
    oracle_stop: float | None
    free_draft: float | None


def figures(runs: Sequence[Run]) -> Figures | None:
    """The figures of `runs`; None when there are none."""
    if not runs:
        return None
    measures = [run.measure for run in runs]
    decode_s = sum(m.decode_s for m in measures)
    prefill_s = sum(m.prefill_s for m in measures)
    n_tokens = sum(m.n_tokens for m in measures)
    n_drafted = sum(m.n_drafted for m in measures)
    n_accepted = sum(m.n_accepted for m in measures)
    drafted_at = _added(m.drafted_at for m in measures)
    accepted_at = _added(m.accepted_at for m in measures)
    limits = [run.limits for run in runs if run.limits]
    return Figures(
        n_runs=len(runs),
        n_tokens=n_tokens,
        n_drafted=n_drafted,
        n_accepted=n_accepted,
        tokens_per_s=n_tokens / decode_s,
        prompt_tokens_per_s=sum(m.n_prompt for m in measures) / prefill_s if prefill_s else None,
        ttft_s=median(m.ttft_s for m in measures if m.ttft_s is not None),
        acceptance_rate=n_accepted / n_drafted if n_drafted else None,
        acceptance_length=n_tokens / sum(m.n_rounds for m in measures),
        acceptance_at=tuple(a / d for a, d in zip(accepted_at, drafted_at, strict=True)),
        draft_share=sum(m.draft_s for m in measures) / decode_s,
        verify_share=sum(m.verify_s for m in measures) / decode_s,
        host_share=sum(m.host_s for m in measures) / decode_s,
        oracle_stop=geometric_mean(limit.oracle_stop for limit in limits) if limits else None,
        free_draft=geometric_mean(limit.free_draft for limit in limits) if limits else None,
    )


def _added(counts: Iterable[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip_longest(*counts, fillvalue=0)]
