"""Running the loop on tables: plain and speculative, with everything that must hold asserted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spec_cli.drafters.chain import ChainDrafter
from spec_cli.drafters.copies import TextCopies
from spec_cli.drafters.model import DraftModel
from spec_cli.drafters.none import NoDrafter
from spec_cli.engine import Decoder
from spec_cli.events import Event, Finished, RoundDone, TextDelta
from spec_cli.spec.acceptance import make_rule
from spec_cli.spec.interfaces import AcceptanceRule, Drafter, LanguageModel
from spec_cli.spec.policy import FixedLength, Policy
from spec_cli.spec.settings import Accept, SamplingSettings
from spec_cli.spec.survival import Survival
from spec_cli.text import Output
from tests.engine.fakes import EOG, ScriptedDrafter, TableLM, ticking_clock

GREEDY = SamplingSettings(temp=0)
SAMPLED = SamplingSettings(temp=1.0)


def model_drafter(
    draft: LanguageModel,
    rule: AcceptanceRule,
    *,
    n_shared: int = 5,
    is_end: Callable[[int], bool] = lambda token: token == EOG,
) -> Drafter:
    """Drafts with a model alone."""
    model = DraftModel(draft, rule, Survival(), n_shared=n_shared)
    return ChainDrafter(None, model, is_end=is_end)


def ngram_drafter() -> Drafter:
    """Drafts copies alone."""
    return ChainDrafter(TextCopies(Survival()), None, is_end=lambda token: token == EOG)


def chain_drafter(
    draft: LanguageModel,
    rule: AcceptanceRule,
    survival: Survival | None = None,
    *,
    n_shared: int = 5,
    is_end: Callable[[int], bool] = lambda token: token == EOG,
) -> Drafter:
    """Drafts from both sources."""
    survival = survival or Survival()
    model = DraftModel(draft, rule, survival, n_shared=n_shared)
    return ChainDrafter(TextCopies(survival), model, is_end=is_end)


@dataclass(frozen=True)
class Run:
    """The events of one generation."""

    events: tuple[Event, ...]

    @property
    def finished(self) -> Finished:
        assert isinstance(self.events[-1], Finished)
        return self.events[-1]

    @property
    def tokens(self) -> tuple[int, ...]:
        return self.finished.tokens

    @property
    def text(self) -> str:
        return "".join(e.text for e in self.events if isinstance(e, TextDelta))

    @property
    def rounds(self) -> list[RoundDone]:
        return [e for e in self.events if isinstance(e, RoundDone)]


def generate(
    target: LanguageModel,
    drafter: Drafter | None = None,
    *,
    prompt: Sequence[int] = (1, 2),
    k: int = 3,
    policy: Policy | None = None,
    settings: SamplingSettings = GREEDY,
    seed: int = 7,
    max_tokens: int = 12,
    stop: Sequence[str] = (),
    tie_margin: float = 0.0,
) -> Run:
    """Generate on tables; a token's text is its letter, and token 0 ends the generation."""
    decoder = Decoder(
        target,
        drafter or NoDrafter(),
        make_rule(Accept.COUPLED, settings, seed, tie_margin=tie_margin),
        policy or FixedLength(k),
        clock=ticking_clock(),
    )
    output = Output(
        lambda token: bytes([97 + token]),
        lambda token: token == EOG,
        stop=stop,
        max_tokens=max_tokens,
    )
    run = Run(tuple(decoder.generate(prompt, output)))
    check_invariants(run, target, drafter, prompt)
    return run


def check_invariants(
    run: Run, target: LanguageModel, drafter: Drafter | None, prompt: Sequence[int]
) -> None:
    """I1 at the end, every token in exactly one delta, and counts that add up."""
    context = [*prompt, *run.tokens]
    if isinstance(target, TableLM):
        assert target.kv == context[:-1]
    if isinstance(drafter, ScriptedDrafter):
        assert drafter.committed == context
    deltas = [e for e in run.events if isinstance(e, TextDelta)]
    assert [t for d in deltas for t in d.tokens] == list(run.tokens)
    stats = run.finished.stats
    assert stats.n_emitted == len(run.tokens) == sum(r.n_emitted for r in run.rounds)
    assert stats.n_drafted == sum(r.n_drafted for r in run.rounds) == sum(stats.drafted_at)
    assert stats.n_accepted == sum(r.n_accepted for r in run.rounds) == sum(stats.accepted_at)
    for r in run.rounds:
        assert r.n_accepted <= r.n_drafted and r.width == r.n_drafted + 1
        assert r.n_accepted <= r.n_emitted <= r.n_accepted + 1
