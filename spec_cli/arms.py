"""Who drafts in a generation, how much, and what accepts it: built from what a session has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spec_cli.constraining import Constraining
from spec_cli.draft_side import DraftSide
from spec_cli.drafters.chain import ChainDrafter
from spec_cli.drafters.copies import TextCopies
from spec_cli.drafters.none import NoDrafter
from spec_cli.learned import GREEDY_RULE, LearnedAcceptance
from spec_cli.settings import DrafterKind, GenerationSettings
from spec_cli.spec.acceptance import make_rule
from spec_cli.spec.constraint import ConstrainedText
from spec_cli.spec.exactness import ExactnessPlan
from spec_cli.spec.interfaces import AcceptanceRule, Drafter
from spec_cli.spec.meter import PassMeter
from spec_cli.spec.policy import K_MAX, CostAware, FixedLength, Policy
from spec_cli.spec.settings import Accept, SamplingSettings
from spec_cli.spec.survival import GREEDY, SAMPLED, Survival
from spec_cli.text import NO_OPENING, Opening

_Key = tuple[DrafterKind, int | None, Accept, SamplingSettings, str | None]


@dataclass(frozen=True, slots=True)
class Arm:
    """Who drafts in a generation, how many tokens, and the rule that accepts them.

    `survival` is what is known of how likely guesses are to hold.
    """

    rule: AcceptanceRule
    drafter: Drafter
    policy: Policy
    survival: Survival
    text: ConstrainedText | None = None  # that the rule and the drafter share


class Arms:
    """Makes arms, and keeps what generations have shown about guesses.

    Generations of the same kind learn from each other; others teach them nothing. `learned` is
    what earlier runs of the pair have shown, where that is known and kept, and `earlier` holds
    texts to copy from besides the prompt (see `TextCopies`).
    """

    def __init__(
        self,
        plan: ExactnessPlan,
        meter: PassMeter,
        draft: DraftSide | None,
        constraining: Constraining,
        *,
        is_end: Callable[[int], bool],
    ) -> None:
        """`is_end` tells end-of-generation tokens."""
        self._constraining = constraining
        self._plan, self._meter, self._draft, self._is_end = plan, meter, draft, is_end
        self._survival: dict[_Key, Survival] = {}
        self.learned: LearnedAcceptance | None = None
        self.earlier: Sequence[int] = ()

    def arm(
        self,
        generation: GenerationSettings,
        draft_tokens: int | None,
        kind: DrafterKind,
        rule: AcceptanceRule | None = None,
        *,
        n_prompt: int = 0,
        opening: Opening = NO_OPENING,
    ) -> Arm:
        """An arm for one generation; `rule` None is the rule that `generation` asks for.

        A grammar begins after `n_prompt` tokens, or with the answer that `opening` tells of.
        """
        text = self._constraining.text(generation, n_prompt, opening)
        rule = rule or self.rule(generation, text)
        survival = self._survival_of(kind, draft_tokens, generation)
        drafter = self._drafter(kind, rule, survival, text)
        policy = self._policy(kind, draft_tokens, rule, survival)
        return Arm(rule, drafter, policy, survival, text)

    def rule(
        self, generation: GenerationSettings, text: ConstrainedText | None = None
    ) -> AcceptanceRule:
        """The rule that `generation` asks for; it counts near-ties where rounding can matter."""
        return make_rule(
            generation.accept,
            self._constraining.sampling(generation),
            generation.seed,
            text=text,
            tie_margin=0.0 if self._plan.is_exact else 2 * self._plan.max_difference,
        )

    @property
    def k_max(self) -> int:
        """The longest draft that a pass of the target may verify."""
        return K_MAX if self._plan.max_width is None else min(K_MAX, self._plan.max_width - 1)

    def forget(self) -> None:
        """Start the next generation with what a new session knows about guesses."""
        self._survival.clear()

    def remember(self) -> None:
        """Keep what was shown for later runs, where that is wanted."""
        if self.learned is None:
            return
        for (_, _, accept, sampling, grammar), survival in self._survival.items():
            if grammar is None and survival.tally.judged.any():
                self.learned.add(survival.tally, _rule_name(accept, sampling))
        self._survival.clear()

    def _drafter(
        self,
        kind: DrafterKind,
        rule: AcceptanceRule,
        survival: Survival,
        text: ConstrainedText | None,
    ) -> Drafter:
        if kind is DrafterKind.NONE:
            return NoDrafter()
        copies = None if kind is DrafterKind.MODEL else TextCopies(survival, self.earlier)
        model = None
        if kind.needs_model:
            assert self._draft is not None
            model = self._draft.source(rule, survival)
        return ChainDrafter(copies, model, is_end=self._is_end, text=text)

    def _policy(
        self,
        kind: DrafterKind,
        draft_tokens: int | None,
        rule: AcceptanceRule,
        survival: Survival,
    ) -> Policy:
        if kind is DrafterKind.NONE:
            return FixedLength(0)
        if draft_tokens is not None:
            return FixedLength(
                draft_tokens if self._plan.max_width is None else min(draft_tokens, self.k_max)
            )
        return CostAware(
            self._meter,
            self._draft.meter if self._draft and kind.needs_model else None,
            survival,
            widths=[self._plan.padded(n) for n in range(1, self.k_max + 2)],
            may_drop=not rule.samples_drafts,
        )

    def _survival_of(
        self, kind: DrafterKind, draft_tokens: int | None, generation: GenerationSettings
    ) -> Survival:
        asked = generation.accept, generation.sampling, generation.grammar
        key = (kind, draft_tokens, *asked)
        if key not in self._survival:
            prior = SAMPLED if generation.sampling.temp else GREEDY
            if self.learned is not None and kind.needs_model:
                name = _rule_name(generation.accept, generation.sampling)
                prior = self.learned.prior(prior, name)
            self._survival[key] = Survival(prior)
        return self._survival[key]


def _rule_name(accept: Accept, sampling: SamplingSettings) -> str:
    return str(accept) if sampling.temp else GREEDY_RULE
