"""Which widths of a target pass give bitwise equal logits, and what using only those costs.

A kernel may sum in another order when a pass has another width, so the logits of a row can depend
on how many rows were evaluated beside it. Widths that do not differ in this way form a *class*.
If every target pass has a width of one class, padded with throw-away rows where it has fewer,
then the logits at a position are a function of the tokens before it alone: plain and speculative
decoding see the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

import numpy as np

from spec_cli.spec.costs import PassTimes, TimesByLength
from spec_cli.spec.counts import counted
from spec_cli.spec.interfaces import Logits

N_LONG = 1040  # tokens of the long context: past the cells that kernels split at
MAX_AUTO_PRICE = 0.03  # share of the speed that `auto` gives for bitwise equality
_ACCEPTANCE = 0.9  # of good guesses, at which the price of a class is stated

Widths = tuple[int, ...]
Rows = Mapping[int, Logits]
"""By width: the logits of the first rows after one and the same context, shape [n, n_vocab]."""


class Rollback(StrEnum):
    """How a memory forgets tokens at the end of a pass.

    `any`: as many as there are. A recurrent one goes back by its `snapshots`; `none`: it keeps
    none. `unproved`: it keeps some, but what follows them was not seen to have the same bits.
    """

    ANY = "any"
    SNAPSHOTS = "snapshots"
    NONE = "none"
    UNPROVED = "unproved"

    @property
    def works(self) -> bool:
        """Whether rejected tokens can be forgotten."""
        return self in (Rollback.ANY, Rollback.SNAPSHOTS)


@dataclass(frozen=True, slots=True)
class Kernels:
    """The settings that decide which kernels evaluate the target."""

    k_type: str = "f16"
    v_type: str = "f16"
    repack: bool = True  # weights rearranged for faster CPU kernels (use_extra_bufts)
    tiled: bool = True  # llama.cpp's tiled CPU matrix product (GGML_CPU_TILED_MM)


DEFAULT_KERNELS = Kernels()


@dataclass(frozen=True, slots=True)
class WidthProbe:
    """What was measured with some kernels: at a short and at a long context.

    `classes` are widths, ascending, whose rows were bitwise equal at both, whatever their index
    and their neighbours; `max_difference` is the largest difference of two logits between widths.
    `slowdown` is the share of the speed that these kernels cost against the default ones.
    """

    kernels: Kernels
    short: PassTimes
    long: PassTimes
    classes: tuple[Widths, ...]
    max_difference: float
    slowdown: float = 0.0
    rollback: Rollback = Rollback.ANY


@dataclass(frozen=True, slots=True)
class ExactnessPlan:
    """The widths that target passes may have; None: any, the logits may depend on it.

    `price` is the share of the speed that it costs, at the worst of a plain step and a verified
    draft. `times` are those of the kernels, unpadded, at a short context, and `long_times` at one
    of `N_LONG` tokens.
    """

    kernels: Kernels
    widths: Widths | None
    price: float
    max_difference: float
    times: PassTimes
    long_times: PassTimes | None = None
    rollback: Rollback = Rollback.ANY

    @property
    def is_exact(self) -> bool:
        """Whether equal tokens get equal logits in every pass."""
        return self.widths is not None

    @property
    def max_width(self) -> int | None:
        """The widest pass allowed; None: there is no limit."""
        if self.widths is None:
            return None if self.rollback is Rollback.ANY else self.times.widths[-1]
        return self.widths[-1]

    @property
    def pads_plain_steps(self) -> bool:
        """Whether a plain step needs throw-away rows."""
        return self.padded(1) > 1

    def padded(self, width: int) -> int:
        """The width of the pass that evaluates `width` rows."""
        return padded(self.widths, width) if self.widths else width

    def times_by_length(self) -> PassTimes | TimesByLength:
        """Seconds of a pass of each width, by the tokens before it where that was measured."""
        if self.long_times is None:
            return self.times
        return TimesByLength(self.times, self.long_times, N_LONG)

    def padded_times(self) -> PassTimes:
        """Seconds by the number of rows wanted, for every number that is allowed."""
        if not self.widths:
            return self.times
        wanted = tuple(range(1, self.widths[-1] + 1))
        return PassTimes(wanted, tuple(self.times(self.padded(n)) for n in wanted))

    def describe(self, n_near_ties: int | None = None) -> str:
        """The plan in words, with the near-ties of a run where they were counted."""
        if self.widths is None:
            ties = "" if n_near_ties is None else f", {counted(n_near_ties, 'near-tie')}"
            seen = "kernels differ by width" if self.max_difference else "passes of any width"
            return f"fast: {seen}{ties}"
        kernels = "".join(f", {change}" for change in _changes(self.kernels))
        padding = ", plain steps padded" if self.pads_plain_steps else ""
        return f"bit-exact: {_span(self.widths)}{padding}{kernels}"


def padded(widths: Widths, width: int) -> int:
    """The smallest of `widths` that holds `width` rows. Raises ValueError when there is none."""
    return min(w for w in widths if w >= width)


def classes_of(rows: Rows) -> list[Widths]:
    """The widths whose rows agree bit for bit, widest class first.

    Narrower passes show fewer rows, so agreement is not transitive: a width joins the first
    class all of whose members it agrees with.
    """
    classes: list[list[int]] = []
    for width in sorted(rows, reverse=True):
        for members in classes:
            if all(agree(rows[width], rows[member]) for member in members):
                members.append(width)
                break
        else:
            classes.append([width])
    return [tuple(reversed(members)) for members in classes]


def agree(a: Logits, b: Logits) -> bool:
    """Whether the rows that both have are the same bits."""
    n = min(len(a), len(b))
    return np.array_equal(_bits(a[:n]), _bits(b[:n]))


def largest_difference(rows: Rows) -> float:
    """The largest difference of two logits of one row between any two widths."""
    return max((_difference(a, b) for a, b in combinations(rows.values(), 2)), default=0.0)


def price(widths: Widths, times: PassTimes) -> float:
    """The share of the speed lost by passes of `widths` only, where `times` has more.

    The worse of a plain step, and of verifying the best draft length for a drafter that costs
    nothing and is right with probability 0.9. Who really drafts plays no part, so that plain and
    speculative runs come to the same plan.
    """
    plain = times(padded(widths, 1)) / times(1)
    verified = _best_rate(times, times.widths) / _best_rate(times, widths)
    return max(plain, verified) - 1


def cheapest(probes: Sequence[WidthProbe]) -> ExactnessPlan:
    """The plan with the lowest price among all classes of all `probes`."""
    plans = [_plan(probe, widths) for probe in probes for widths in probe.classes]
    return min(plans, key=lambda plan: plan.price)


def slowdown(probe: WidthProbe, default: WidthProbe) -> float:
    """The share of the speed that the kernels of `probe` cost, padding apart."""
    return max(
        0.0,
        *(ours(1) / theirs(1) - 1 for ours, theirs in _both(probe, default)),
        *(_best_rate(t, t.widths) / _best_rate(o, o.widths) - 1 for o, t in _both(probe, default)),
    )


def affordable(probes: Sequence[WidthProbe]) -> ExactnessPlan | None:
    """The cheapest plan that leaves room for drafts, if it costs no more than `auto` gives."""
    can_draft = any(probe.short.widths[-1] > 1 for probe in probes)
    plans = [
        plan
        for probe in probes
        for widths in probe.classes
        if (plan := _plan(probe, widths)).price <= MAX_AUTO_PRICE
        and (widths[-1] > 1 or not can_draft)
    ]
    return min(plans, key=lambda plan: plan.price, default=None)


def fast(probe: WidthProbe) -> ExactnessPlan:
    """The plan to use whatever width is fastest."""
    return ExactnessPlan(
        probe.kernels, None, 0.0, probe.max_difference, probe.short, probe.long, probe.rollback
    )


def _plan(probe: WidthProbe, widths: Widths) -> ExactnessPlan:
    padding = max(price(widths, probe.short), price(widths, probe.long))
    total = (1 + probe.slowdown) * (1 + padding) - 1
    return ExactnessPlan(
        probe.kernels,
        widths,
        total,
        probe.max_difference,
        probe.short,
        probe.long,
        probe.rollback,
    )


def _both(probe: WidthProbe, default: WidthProbe) -> list[tuple[PassTimes, PassTimes]]:
    return [(probe.short, default.short), (probe.long, default.long)]


def _best_rate(times: PassTimes, widths: Sequence[int]) -> float:
    """Tokens a second at the best of `widths`, all rows but the first being guesses."""
    return max(sum(_ACCEPTANCE**i for i in range(w)) / times(w) for w in widths)


def _bits(rows: Logits) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    return np.ascontiguousarray(rows).view(np.uint32)


def _difference(a: Logits, b: Logits) -> float:
    n = min(len(a), len(b))
    with np.errstate(invalid="ignore"):  # tokens suppressed in both
        return float(np.nanmax(np.abs(a[:n] - b[:n]), initial=0.0))


def _changes(kernels: Kernels) -> list[str]:
    changes = []
    if (kernels.k_type, kernels.v_type) != (DEFAULT_KERNELS.k_type, DEFAULT_KERNELS.v_type):
        changes.append(f"KV cache {kernels.k_type}/{kernels.v_type}")
    if not kernels.repack:
        changes.append("weights not repacked")
    if not kernels.tiled:
        changes.append("no tiled products")
    return changes


def _span(widths: Widths) -> str:
    """`width 4`, or `widths 1-16`: rows between two of them are padded up to the next."""
    if len(widths) == 1:
        return f"width {widths[0]}"
    return f"widths {widths[0]}-{widths[-1]}"
