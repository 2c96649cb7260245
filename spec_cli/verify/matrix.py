"""Which texts are compared: every prompt, temperature, drafter and draft length."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from random import Random

from spec_cli.errors import wrong_value
from spec_cli.prompts import NamedPrompt
from spec_cli.settings import DrafterKind, GenerationSettings
from spec_cli.spec.settings import SamplingSettings


class ArmDrafter(StrEnum):
    """Who drafts in a comparison. `random`: see `drafters.random`."""

    MODEL = "model"
    NGRAM = "ngram"
    CHAIN = "chain"
    RANDOM = "random"

    @property
    def kind(self) -> DrafterKind:
        """The drafter of a run at whose cost this one drafts."""
        return DrafterKind.NGRAM if self is ArmDrafter.RANDOM else DrafterKind(self)


@dataclass(frozen=True, slots=True)
class Cell:
    """One speculative text to compare; `draft_tokens` None lets the policy choose."""

    prompt: NamedPrompt
    temp: float
    drafter: ArmDrafter
    draft_tokens: int | None


@dataclass(frozen=True, slots=True)
class Matrix:
    """All that is compared. Sampling settings besides the temperature are the defaults."""

    prompts: tuple[NamedPrompt, ...]
    temps: tuple[float, ...]
    drafters: tuple[ArmDrafter, ...]
    draft_tokens: tuple[int | None, ...]
    max_tokens: int
    seed: int

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise wrong_value("--max-tokens", self.max_tokens, "1 or more")
        for temp in self.temps:
            self.generation(temp)

    def generation(self, temp: float) -> GenerationSettings:
        """The settings of every text at `temp`."""
        return GenerationSettings(
            self.seed, SamplingSettings(temp=temp), max_tokens=self.max_tokens
        )

    def cells(self) -> list[Cell]:
        """Every comparison, in the order of a report."""
        axes = product(self.prompts, self.temps, self.drafters, self.draft_tokens)
        return [Cell(*values) for values in axes]

    def shuffled(self) -> list[Cell]:
        """The same, so mixed that a part of them is spread over all axes."""
        cells = self.cells()
        Random(self.seed).shuffle(cells)
        return cells

    def limited(self, k_max: int) -> Matrix:
        """With drafts of at most `k_max` tokens; lengths that become equal are tried once."""
        cut = (None if k is None else min(k, k_max) for k in self.draft_tokens)
        return replace(self, draft_tokens=tuple(dict.fromkeys(cut)))
