"""What drafting could gain on this machine at an acceptance that is only supposed."""

from __future__ import annotations

from dataclasses import dataclass

from spec_cli.spec.costs import CostTable

_PRECISION = 1e-4


@dataclass(frozen=True, slots=True)
class Outlook:
    """Rounds that draft `k` tokens: their speed-up at the supposed acceptance, and the acceptance
    from which on they win; None where even perfect guesses lose.
    """

    k: int
    speedup: float
    break_even: float | None


def outlook(costs: CostTable, acceptance: float, k_max: int) -> list[Outlook]:
    """The outlook for each k from 1 to `k_max`."""
    return [
        Outlook(k, costs.speedup(k, acceptance), break_even(costs, k)) for k in range(1, k_max + 1)
    ]


def break_even(costs: CostTable, k: int) -> float | None:
    """The acceptance at which drafting `k` tokens takes as long as not drafting."""
    if costs.speedup(k, 1.0) <= 1:
        return None
    low, high = 0.0, 1.0
    while high - low > _PRECISION:
        middle = (low + high) / 2
        if costs.speedup(k, middle) > 1:
            high = middle
        else:
            low = middle
    return high


def conclusion(outlooks: list[Outlook], acceptance: float) -> str:
    """What it takes to win, in one sentence."""
    best = max(outlooks, key=lambda outlook: outlook.speedup)
    winning = [(o.break_even, o.k) for o in outlooks if o.break_even is not None]
    at = f"at an acceptance of {100 * acceptance:.0f} %"
    if not winning:
        lose = "no acceptance wins here: even perfect guesses lose"
        return f"{lose}; {at} -k {best.k} comes closest with {best.speedup:.2f}x plain"
    needed_share, easiest_k = min(winning)
    needed = f"it takes {100 * needed_share:.0f} % to win, with -k {easiest_k}"
    if best.speedup > 1:
        return f"{at} -k {best.k} is best, {best.speedup:.2f}x plain; {needed}"
    return f"{at} nothing wins, -k {best.k} comes closest with {best.speedup:.2f}x plain; {needed}"
