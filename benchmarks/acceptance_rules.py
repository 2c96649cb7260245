"""Acceptance of the rules, kind of text by kind of text, on a real pair.

    python benchmarks/acceptance_rules.py TARGET.gguf DRAFT.gguf -k 4 -n 128

For each kind the texts of its prompts are generated with a fixed draft length and no filter but
the temperature, once per rule. `match greedy` is what most programs do: the draft model proposes
its likeliest token, and it is kept while it equals the target's sampled one.

Each text is sampled anew by `rejection` and `block`, so figures of a cell rest on texts that
differ; the last column says on how many draft tokens.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from spec_cli.cli.encode import encode
from spec_cli.cli.inputs import PromptInput
from spec_cli.events import Finished
from spec_cli.loader import Environment
from spec_cli.prompts import built_in_prompts
from spec_cli.session import Session
from spec_cli.settings import DrafterKind, GenerationSettings, SessionSettings
from spec_cli.spec.acceptance import MatchRule
from spec_cli.spec.coupling import GreedyChooser, make_chooser
from spec_cli.spec.interfaces import AcceptanceRule, Drawn, Logits, Place
from spec_cli.spec.settings import Accept, SamplingSettings
from spec_cli.state import StateStore

RULES = ("coupled", "rejection", "block", "match greedy")


class MatchGreedyRule(MatchRule):
    """Matches the draft model's likeliest token with the target's sampled one."""

    def __init__(self, settings: SamplingSettings, seed: int) -> None:
        super().__init__(make_chooser(settings, seed))
        self._greedy = GreedyChooser(settings)

    def draw(self, logits: Logits, position: int, history: Sequence[int]) -> Drawn:
        """The draft model's likeliest token."""
        return self._greedy.draw(logits, Place(position, history))


def main() -> None:
    """Measure, and print a Markdown table per temperature."""
    options = _options()
    with TemporaryDirectory() as state:
        environment = Environment(
            state=StateStore(Path(state)),
            clock=time.perf_counter,
            cancelled=lambda: False,
            notify=lambda notice: None,
            progress=lambda what, fraction: None,
        )
        settings = SessionSettings(draft_tokens=options.k)
        with Session(options.target, options.draft, settings, environment) as session:
            for temp in options.temp:
                _print_table(session, temp, options)


def _print_table(session: Session, temp: float, options: argparse.Namespace) -> None:
    sampling = SamplingSettings(temp=temp, top_k=0, top_p=1.0, min_p=0.0)
    print(f"\nT = {temp:g}, k = {options.k}: acceptance rate, acceptance length\n")
    print(f"| kind | {' | '.join(RULES)} | draft tokens |")
    print(f"|---|{'---|' * len(RULES)}---|")
    prompts = built_in_prompts()
    totals = {rule: [0, 0, 0, 0] for rule in RULES}
    for kind in dict.fromkeys(prompt.kind for prompt in prompts):
        texts = [p.text for p in prompts if p.kind == kind and len(p.text) < 1500]
        cells = []
        n_drafted = 0
        for rule in RULES:
            sums = [0, 0, 0, 0]
            for seed, text in enumerate(texts[: options.prompts]):
                counts = _count(session, text, rule, sampling, seed, options)
                sums = [a + b for a, b in zip(sums, counts, strict=True)]
            totals[rule] = [a + b for a, b in zip(totals[rule], sums, strict=True)]
            cells.append(_cell(sums))
            n_drafted += sums[1]
        print(f"| {kind} | {' | '.join(cells)} | {n_drafted} |", flush=True)
    cells = [_cell(totals[rule]) for rule in RULES]
    print(f"| all | {' | '.join(cells)} | {sum(t[1] for t in totals.values())} |", flush=True)


def _cell(sums: Sequence[int]) -> str:
    n_accepted, n_drafted, n_emitted, n_rounds = sums
    return f"{n_accepted / n_drafted:.2f}, {n_emitted / n_rounds:.2f}"


def _count(
    session: Session,
    text: str,
    name: str,
    sampling: SamplingSettings,
    seed: int,
    options: argparse.Namespace,
) -> tuple[int, int, int, int]:
    """Accepted and drafted tokens, emitted tokens and rounds, of one text."""
    rule: AcceptanceRule | None = None
    accept = Accept.COUPLED
    if name == "match greedy":
        rule = MatchGreedyRule(sampling, seed)
    else:
        accept = Accept(name)
    generation = GenerationSettings(
        seed=seed, sampling=sampling, accept=accept, max_tokens=options.n
    )
    prompt = PromptInput(text, system=None, raw=False, chat_template=None)
    template = session.target_header.chat_template
    tokens = encode(session.model, template, prompt, datetime(2026, 1, 1)).tokens
    session.prepare(len(tokens), options.n)
    arm = session.arm(generation, options.k, DrafterKind.MODEL, rule)
    *_, finished = session.generate(tokens, generation, arm)
    assert isinstance(finished, Finished)
    stats = finished.stats
    return stats.n_accepted, stats.n_drafted, stats.n_emitted, stats.n_rounds


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", type=Path)
    parser.add_argument("draft", type=Path)
    parser.add_argument("-k", type=int, default=4, help="draft length")
    parser.add_argument("-n", type=int, default=128, help="tokens to generate")
    parser.add_argument("--prompts", type=int, default=2, help="prompts of each kind")
    parser.add_argument("--temp", type=float, nargs="+", default=[0.7, 1.0])
    return parser.parse_args()


if __name__ == "__main__":
    main()
