"""What was measured of the programs, and what it says: ratios of times per token, in a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

BASELINE = "llama-server plain"


@dataclass(frozen=True, slots=True)
class Timings:
    """One answer, with llama-server's names and units.

    `timed_n` is how many of the `predicted_n` tokens `predicted_ms` covers: a program that takes
    the first token from the prompt's pass counts it, but not its time. What was drafted is None
    where a program does not tell.
    """

    prompt_ms: float
    predicted_ms: float
    predicted_n: int
    timed_n: int
    draft_n: int | None
    draft_n_accepted: int | None

    @property
    def token_ms(self) -> float:
        """Time per token."""
        return self.predicted_ms / self.timed_n


@dataclass(frozen=True, slots=True)
class Row:
    """The answer of one arm to one prompt in one block."""

    block: str
    arm: str
    prompt: str
    kind: str
    temp: float
    timings: Timings


def speedups(rows: Iterable[Row]) -> dict[str, dict[str, float]]:
    """For each arm and prompt: the baseline's time per token over the arm's.

    Each answer is compared with the baseline's of its own block; of several blocks the median
    counts. Raises KeyError when a block lacks the baseline.
    """
    rows = tuple(rows)
    plain = {(r.block, r.prompt): r.timings.token_ms for r in rows if r.arm == BASELINE}
    ratios: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        ratio = plain[row.block, row.prompt] / row.timings.token_ms
        ratios.setdefault(row.arm, {}).setdefault(row.prompt, []).append(ratio)
    return {
        arm: {prompt: median(values) for prompt, values in of_prompt.items()}
        for arm, of_prompt in ratios.items()
    }


def acceptance_rate(rows: Iterable[Row]) -> float | None:
    """Accepted over verified draft tokens; None when nothing was drafted or told."""
    timings = [row.timings for row in rows]
    n_drafted = sum(t.draft_n or 0 for t in timings)
    return sum(t.draft_n_accepted or 0 for t in timings) / n_drafted if n_drafted else None


def geometric_mean(values: Sequence[float]) -> float:
    """Of positive values, at least one."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def table(rows: Iterable[Row], arms: Sequence[str]) -> str:
    """Markdown, one line an arm: geometric means of its speed-ups by kind and overall.

    The rows are those of one temperature; arms without any are left out.
    """
    rows = tuple(rows)
    kind_of = {row.prompt: row.kind for row in rows}
    kinds = tuple(dict.fromkeys(kind_of.values()))
    of_arm = speedups(rows)
    lines = [
        f"| configuration | {' | '.join(kinds)} | overall | worst | accepted |",
        f"|---|{'---|' * (len(kinds) + 3)}",
    ]
    for arm in arms:
        if arm in of_arm:
            rate = acceptance_rate(row for row in rows if row.arm == arm)
            cells = _cells(of_arm[arm], kinds, kind_of)
            accepted = "-" if rate is None else f"{rate:.0%}"
            lines.append(f"| {arm} | {' | '.join(cells)} | {accepted} |")
    return "\n".join(lines)


def _cells(
    ratios: Mapping[str, float], kinds: Sequence[str], kind_of: Mapping[str, str]
) -> list[str]:
    groups = [[r for p, r in ratios.items() if kind_of[p] == kind] for kind in kinds]
    means = [f"{geometric_mean(group):.2f}" if group else "-" for group in groups]
    values = list(ratios.values())
    return [*means, f"**{geometric_mean(values):.2f}**", f"{min(values):.2f}"]
