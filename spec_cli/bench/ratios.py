"""From runs to one ratio for each prompt, and from those to a score."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from statistics import median

from spec_cli.bench.matrix import Arm
from spec_cli.bench.measure import Run
from spec_cli.bench.statistics import Estimate, estimate


@dataclass(frozen=True, slots=True, order=True)
class PromptKey:
    """A prompt as the rows name it."""

    kind: str
    id: str
    sha256: str


Ratios = Mapping[PromptKey, float]
"""Plain time over an arm's time, for each prompt."""


@dataclass(frozen=True, slots=True)
class Score:
    """What an arm gains over plain decoding, and the prompt that it does worst on."""

    speedup: Estimate
    worst_prompt: str
    worst: float


def kept(runs: Iterable[Run]) -> list[Run]:
    """The runs that count: of a group that was measured twice, those of the steadier attempt."""
    best: dict[Hashable, Run] = {}
    for run in runs:
        key = (run.arm, prompt_of(run), run.temp, run.round, run.turn)
        if key not in best or run.noise < best[key].noise:
            best[key] = run
    return list(best.values())


def prompt_ratios(runs: Iterable[Run]) -> dict[PromptKey, float]:
    """The median over the rounds of one arm at one temperature, for each prompt."""
    by_prompt: dict[PromptKey, list[float]] = {}
    for run in runs:
        by_prompt.setdefault(prompt_of(run), []).append(run.speedup)
    return {prompt: median(ratios) for prompt, ratios in by_prompt.items()}


def ratios_of(runs: Sequence[Run], arm: Arm, temps: Sequence[float]) -> dict[PromptKey, float]:
    """One ratio for each prompt that `arm` was measured on at all `temps`: their geometric mean."""
    by_temp = [
        prompt_ratios(run for run in runs if (run.arm, run.temp) == (arm.at(temp), temp))
        for temp in temps
    ]
    return {
        prompt: prod(ratios[prompt] for ratios in by_temp) ** (1 / len(by_temp))
        for prompt in by_temp[0]
        if all(prompt in ratios for ratios in by_temp)
    }


def score(ratios: Ratios, seed: int) -> Score | None:
    """The score of an arm; None when nothing was measured."""
    if not ratios:
        return None
    worst = min(ratios, key=lambda prompt: ratios[prompt])
    return Score(estimate(list(ratios.values()), seed), worst.id, ratios[worst])


def of_kind(ratios: Ratios, kind: str) -> dict[PromptKey, float]:
    """The part of `ratios` that belongs to prompts of `kind`."""
    return {prompt: ratio for prompt, ratio in ratios.items() if prompt.kind == kind}


def prompt_of(run: Run) -> PromptKey:
    """The prompt of a run."""
    return PromptKey(run.kind, run.prompt, run.prompt_sha256)
