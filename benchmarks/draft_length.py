"""Speed-up over plain decoding, prompt by prompt, for a fixed draft length or `auto`.

    python benchmarks/draft_length.py TARGET.gguf DRAFT.gguf -k 3

Plain and speculative runs of each prompt alternate in one process on the same loaded files; the
ratio is the median over the repetitions, and the token ids of both are compared.
"""

from __future__ import annotations

import argparse
import math
import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from statistics import median

from platformdirs import user_state_path

from spec_cli.cli.inputs import PromptInput, encode_prompt
from spec_cli.events import Finished
from spec_cli.loader import Environment
from spec_cli.session import Session
from spec_cli.settings import DrafterKind, GenerationSettings, SessionSettings
from spec_cli.spec.sampling import SamplingSettings
from spec_cli.state import StateStore

PROMPTS = {
    "code": "Write a Python class for a binary search tree with insert, delete and in-order walk.",
    "explain": "Explain how a refrigerator works, for a curious ten year old.",
    "story": "Write a short story about a lighthouse keeper who finds a message in a bottle.",
    "json": "Give me a JSON array of five fictional books with title, author, year and three tags.",
    "edit": "Add type hints and docstrings to this code and change nothing else:\n"
    "def mean(xs):\n    return sum(xs) / len(xs)\n\n"
    "def variance(xs):\n    m = mean(xs)\n    return mean([(x - m) ** 2 for x in xs])\n\n"
    "def normalise(xs):\n    m = mean(xs)\n    s = variance(xs) ** 0.5\n"
    "    return [(x - m) / s for x in xs]\n",
}


def main() -> None:
    """Measure, and print a Markdown table."""
    options = _options()
    environment = Environment(
        state=StateStore(user_state_path("spec-cli", appauthor=False)),
        clock=time.perf_counter,
        cancelled=lambda: False,
        notify=lambda notice: None,
        progress=lambda what, fraction: None,
    )
    generation = GenerationSettings(
        seed=1, sampling=SamplingSettings(temp=options.temp), max_tokens=options.n
    )
    with ExitStack() as stack:

        def load(**settings: object) -> Session:
            session = Session(
                options.target,
                options.draft,
                SessionSettings(**settings),  # type: ignore[arg-type]
                environment,
            )
            return stack.enter_context(session)

        k = None if options.k == "auto" else int(options.k)
        plain, speculative = load(drafter=DrafterKind.NONE), load(draft_tokens=k)
        print("| prompt | plain tok/s | spec. tok/s | speed-up | accepted | tok/pass | same |")
        print("|---|---|---|---|---|---|---|")
        ratios = [
            _row(kind, prompt, plain, speculative, generation, options.repeat)
            for kind, prompt in PROMPTS.items()
        ]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"\ngeometric mean {mean:.2f}, worst {min(ratios):.2f}, best {max(ratios):.2f}")


def _row(
    kind: str,
    prompt: str,
    plain: Session,
    speculative: Session,
    generation: GenerationSettings,
    n_repeats: int,
) -> float:
    pairs = [
        (_answer(plain, prompt, generation), _answer(speculative, prompt, generation))
        for _ in range(n_repeats)
    ]
    ratio = median(p.stats.decode_s / s.stats.decode_s for p, s in pairs)
    speeds = [median(f.stats.tokens_per_s or 0 for f in arm) for arm in zip(*pairs, strict=True)]
    stats = pairs[0][1].stats
    same = "yes" if all(p.tokens == s.tokens for p, s in pairs) else "no"
    print(
        f"| {kind} | {speeds[0]:.1f} | {speeds[1]:.1f} | {ratio:.2f} | "
        f"{stats.acceptance_rate or 0:.0%} | {stats.acceptance_length:.1f} | {same} |",
        flush=True,
    )
    return ratio


def _answer(session: Session, prompt: str, generation: GenerationSettings) -> Finished:
    user = PromptInput(prompt, system=None, raw=False, chat_template=None)
    template = session.target_header.chat_template
    tokens = encode_prompt(session.model, template, user, datetime.now())
    session.prepare(len(tokens), generation.max_tokens)
    *_, finished = session.generate(tokens, generation)
    assert isinstance(finished, Finished)
    return finished


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("target", type=Path)
    parser.add_argument("draft", type=Path)
    parser.add_argument("-k", default="3", help="draft length, or auto")
    parser.add_argument("-n", type=int, default=128, help="tokens per answer")
    parser.add_argument("--temp", type=float, default=0.0)
    parser.add_argument("--repeat", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
