"""What became of each arm's gain since an earlier measurement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from spec_cli.bench.archive import Entry, read_export, sha256_of
from spec_cli.bench.matrix import Arm, Matrix
from spec_cli.bench.measure import Run
from spec_cli.bench.ratios import Ratios, kept, of_kind, ratios_of
from spec_cli.bench.rows import Row
from spec_cli.bench.statistics import Estimate, estimate
from spec_cli.errors import UsageError


@dataclass(frozen=True, slots=True)
class Change:
    """An arm's gain over plain decoding then and now, on prompts of one kind (None: all).

    `change` is now over then, prompt by prompt; all three are over the prompts of both.
    """

    arm: Arm
    temp: float
    kind: str | None
    then: float
    now: float
    change: Estimate


@dataclass(frozen=True, slots=True)
class Earlier:
    """The runs of an earlier measurement, and its set-up."""

    setup: Row
    runs: tuple[Run, ...]


def read_earlier(file: Path, matrix: Matrix) -> Earlier:
    """The measurement in `file`, to compare `matrix` with. Raises UsageError when it cannot be."""
    earlier = latest(read_export(file))
    require_common(earlier, matrix)
    return earlier


def latest(entries: Sequence[Entry]) -> Earlier:
    """Of a file's rows, those made in the set-up of its last one."""
    setup = entries[-1].setup
    return Earlier(setup, tuple(kept(e.run for e in entries if e.setup == setup)))


def require_common(then: Earlier, matrix: Matrix) -> None:
    """Raise UsageError when nothing of `matrix` was measured then."""
    texts = {(prompt.id, sha256_of(prompt.text)) for prompt in matrix.prompts}
    arms = {(arm, temp) for temp in matrix.temps for arm in matrix.arms_at(temp)}
    if not any(
        (run.prompt, run.prompt_sha256) in texts and (run.arm, run.temp) in arms
        for run in then.runs
    ):
        raise UsageError(
            "--compare has nothing in common with this measurement: "
            "no setting was measured on the same prompt in both",
            hint="use the prompts, temperatures and draft lengths of that measurement",
        )


def changes(then: Earlier, now: Sequence[Run], matrix: Matrix) -> Iterator[Change]:
    """The changes of every arm that was measured then and now; `now` are the runs that count."""
    kinds = dict.fromkeys(prompt.kind for prompt in matrix.prompts)
    for temp in matrix.temps:
        for arm in matrix.arms_at(temp):
            old, new = ratios_of(then.runs, arm, (temp,)), ratios_of(now, arm, (temp,))
            for kind in [None, *kinds]:
                pair = (old, new) if kind is None else (of_kind(old, kind), of_kind(new, kind))
                if change := _change(arm, temp, kind, *pair, matrix.seed):
                    yield change


def differences(then: Row, now: Row) -> list[tuple[str, object, object]]:
    """The columns of two set-ups that differ, with the value of then and of now."""
    names = dict.fromkeys([*then, *now])
    pairs = [(name, then.get(name), now.get(name)) for name in names]
    return [(name, old, new) for name, old, new in pairs if old != new]


def _change(
    arm: Arm, temp: float, kind: str | None, old: Ratios, new: Ratios, seed: int
) -> Change | None:
    both = [prompt for prompt in new if prompt in old]
    if not both:
        return None
    then, now = ([ratios[prompt] for prompt in both] for ratios in (old, new))
    change = estimate([b / a for a, b in zip(then, now, strict=True)], seed)
    return Change(arm, temp, kind, estimate(then, seed).mean, estimate(now, seed).mean, change)
