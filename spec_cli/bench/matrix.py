"""What is measured: arms, and the groups of runs in which they are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from random import Random

from spec_cli.errors import UsageError, wrong_value
from spec_cli.prompts import NamedPrompt
from spec_cli.settings import DrafterKind, GenerationSettings
from spec_cli.spec.settings import Accept, SamplingSettings


@dataclass(frozen=True, slots=True)
class Arm:
    """A way to decode; `draft_tokens` None lets the policy choose, 0 drafts nothing."""

    drafter: DrafterKind
    draft_tokens: int | None
    accept: Accept = Accept.COUPLED

    @property
    def is_plain(self) -> bool:
        """Whether this is plain decoding."""
        return self.drafter is DrafterKind.NONE

    @property
    def length(self) -> str:
        """The draft length as it is written on a command line."""
        return "auto" if self.draft_tokens is None else str(self.draft_tokens)

    @property
    def name(self) -> str:
        """`plain`, `k=4`, `ngram k=auto block`."""
        if self.is_plain:
            return "plain"
        drafter = "" if self.drafter is DrafterKind.AUTO else f"{self.drafter} "
        rule = "" if self.accept is Accept.COUPLED else f" {self.accept}"
        return f"{drafter}k={self.length}{rule}"

    @property
    def options(self) -> str:
        """What to type for it after `spec-cli run`."""
        if self.is_plain:
            return "--no-draft"
        drafter = "" if self.drafter is DrafterKind.AUTO else f"--drafter {self.drafter} "
        rule = "" if self.accept is Accept.COUPLED else f" --accept {self.accept}"
        return f"{drafter}-k {self.length}{rule}"

    def at(self, temp: float) -> Arm:
        """The same at `temp`: greedy decoding knows one acceptance rule."""
        return self if temp else replace(self, accept=Accept.COUPLED)


PLAIN = Arm(DrafterKind.NONE, 0)


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that are made one after another, so that their times can be compared.

    `attempt` is 1 where a noisy group is measured again.
    """

    prompt: NamedPrompt
    temp: float
    round: int
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Matrix:
    """All that is measured; `arms` are those besides plain decoding.

    Sampling settings besides the temperature are the defaults. Raises UsageError for settings
    that cannot be used.
    """

    prompts: tuple[NamedPrompt, ...]
    temps: tuple[float, ...]
    arms: tuple[Arm, ...]
    max_tokens: int
    n_rounds: int
    seed: int

    def __post_init__(self) -> None:
        _at_least_one("--max-tokens", self.max_tokens)
        _at_least_one("--rounds", self.n_rounds)
        for temp in self.temps:
            self.generation(temp)

    def generation(self, temp: float, arm: Arm = PLAIN) -> GenerationSettings:
        """The settings of every text at `temp`."""
        sampling = SamplingSettings(temp=temp)
        return GenerationSettings(self.seed, sampling, arm.accept, max_tokens=self.max_tokens)

    def arms_at(self, temp: float) -> tuple[Arm, ...]:
        """The arms that differ at `temp`."""
        return tuple(dict.fromkeys(arm.at(temp) for arm in self.arms))

    @property
    def distinct(self) -> tuple[Arm, ...]:
        """The arms that differ at some temperature."""
        return self.arms if any(self.temps) else self.arms_at(0.0)

    def groups(self) -> list[Group]:
        """Every group, round by round, each round in an order of its own."""
        groups = []
        for n in range(self.n_rounds):
            of_round = [Group(*axes, n) for axes in product(self.prompts, self.temps)]
            Random(f"{self.seed} {n}").shuffle(of_round)
            groups += of_round
        return groups

    def order(self, group: Group, arms: Sequence[Arm]) -> list[Arm]:
        """`arms` in the order in which they run in `group`."""
        words = (self.seed, group.prompt.id, group.temp, group.round, group.attempt)
        mixed = list(arms)
        Random(" ".join(map(str, words))).shuffle(mixed)
        return mixed

    def limited(self, k_max: int) -> Matrix:
        """With drafts of at most `k_max` tokens; arms that become equal are measured once."""
        lengths = (arm.draft_tokens for arm in self.arms)
        cut = (None if k is None else min(k, k_max) for k in lengths)
        arms = (replace(arm, draft_tokens=k) for arm, k in zip(self.arms, cut, strict=True))
        return replace(self, arms=tuple(dict.fromkeys(arms)))


def make_arms(
    drafters: Sequence[DrafterKind], accepts: Sequence[Accept], lengths: Sequence[int | None]
) -> tuple[Arm, ...]:
    """Every combination that drafts. Raises UsageError when there is none."""
    arms = [Arm(*axes) for axes in product(drafters, lengths, accepts) if axes[1] != 0]
    if not arms:
        raise UsageError(
            "--draft-tokens asks for plain decoding only: nothing is left to compare it with",
            hint="give a length besides 0, such as `-k 4,auto`",
        )
    return tuple(dict.fromkeys(arms))


def _at_least_one(flag: str, value: int) -> None:
    if value < 1:
        raise wrong_value(flag, value, "1 or more")
