"""Which setting to use, in one sentence that claims no more than was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from spec_cli.bench.matrix import PLAIN, Arm
from spec_cli.bench.ratios import Ratios, Score, score
from spec_cli.bench.statistics import Estimate, estimate


@dataclass(frozen=True, slots=True)
class Verdict:
    """A sentence, and the arm to use: plain decoding unless another one was shown to be faster."""

    sentence: str
    arm: Arm


def verdict(ratios: Mapping[Arm, Ratios], seed: int) -> Verdict:
    """The verdict on arms that were measured on the same prompts."""
    scores = {arm: found for arm, of_arm in ratios.items() if (found := score(of_arm, seed))}
    if not scores:
        return Verdict("no prompt was measured in full, so nothing can be said", PLAIN)
    best = max(scores, key=lambda arm: scores[arm].speedup.mean)
    figures, side = _figures(scores[best]), scores[best].speedup.side
    if side > 0:
        ties = [f"`{arm.options}`" for arm in _ties(ratios, best, seed)]
        tied = f"; too close to call: {', '.join(ties)}" if ties else ""
        wins = "is the fastest of these" if len(scores) > 1 else "beats plain decoding here"
        return Verdict(f"`{best.options}` {wins}: {figures}{tied}", best)
    if scores[best].speedup.mean > 1:
        closest = f"`{best.options}` comes closest, {figures}"
        more = "more prompts or rounds would tell"
        return Verdict(f"nothing is shown to beat plain decoding here: {closest}; {more}", PLAIN)
    least_slow = f"the best of the others, `{best.options}`, gives {figures}"
    return Verdict(f"nothing beat plain decoding here: {least_slow}", PLAIN)


def interval(found: Estimate, shown: Callable[[float], str] = "{:.2f}".format) -> str:
    """`1.05 to 1.19`, its ends as `shown`."""
    if found.low is None or found.high is None:
        return "one prompt, no interval"
    return f"{shown(found.low)} to {shown(found.high)}"


def _figures(found: Score) -> str:
    figures = f"{found.speedup.mean:.2f}x plain ({interval(found.speedup)})"
    if found.speedup.n == 1:
        return figures
    return f"{figures}, worst prompt {found.worst_prompt} {found.worst:.2f}x"


def _ties(ratios: Mapping[Arm, Ratios], best: Arm, seed: int) -> list[Arm]:
    """The arms that are not shown to be slower than `best`, prompt by prompt."""
    return [
        arm
        for arm, of_arm in ratios.items()
        if arm != best
        and estimate([ratios[best][p] / ratio for p, ratio in of_arm.items()], seed).side == 0
    ]
