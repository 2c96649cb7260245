"""Host time per round: what the loop, the drafters, the policy and the sampling take themselves.

Both models are replaced by rows that lie ready in memory, over the vocabulary of the default pair
(151,936 ids), so that all the time there is is ours. Rounds draft copies and model guesses.

    python benchmarks/host_overhead.py [--tokens 16384] [--temp 0.8]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np

from spec_cli.drafters.chain import ChainDrafter
from spec_cli.drafters.copies import TextCopies
from spec_cli.drafters.model import DraftModel
from spec_cli.engine import Decoder
from spec_cli.events import RoundDone
from spec_cli.spec.acceptance import make_rule
from spec_cli.spec.costs import PassTimes
from spec_cli.spec.interfaces import Logits
from spec_cli.spec.meter import PassMeter
from spec_cli.spec.policy import K_MAX, CostAware
from spec_cli.spec.settings import Accept, SamplingSettings
from spec_cli.spec.survival import Survival
from spec_cli.text import Output

N_VOCAB = 151_936
N_ROWS = 4096  # different rows: the text does not repeat before so many tokens
N_SHOWN = 200  # rounds
PROMPT = list(range(100, 164))
TARGET = PassTimes((1, 16), (0.08, 0.2))
DRAFT = PassTimes((1, 64), (0.015, 0.1))


class ReadyRows:
    """A `LanguageModel` whose rows, by position, lie in memory; some are wrong in the draft's."""

    n_vocab, n_ctx, n_batch = N_VOCAB, 1 << 20, 512

    def __init__(self, *, wrong_every: int | None) -> None:
        rng = np.random.default_rng(0)
        self.n_past = 0
        self._base = rng.normal(0, 2, (8, N_VOCAB)).astype(np.float32)
        self._best = rng.integers(1000, N_VOCAB, N_ROWS)
        self._wrong_every = wrong_every
        self._rows = np.empty((K_MAX + 1, N_VOCAB), np.float32)

    def eval(self, tokens: Sequence[int], n_rows: int | None = None) -> Logits:
        """Rows from memory."""
        n = len(tokens)
        n_rows = n if n_rows is None else min(n_rows, K_MAX + 1)
        self.n_past += n
        for i, at in enumerate(range(self.n_past - n_rows, self.n_past)):
            self._rows[i] = self._base[at % 8]
            shift = bool(self._wrong_every and at % self._wrong_every == 0)
            self._rows[i, self._best[(at + shift) % N_ROWS]] = 24.0
        return self._rows[:n_rows]

    def rollback(self, n_past: int) -> None:
        """Forget a tail."""
        self.n_past = n_past

    def keep(self, tokens: Sequence[int]) -> int:
        """Forget everything."""
        self.n_past = 0
        return 0


class Clock:
    """Real time of our own, and for each pass of a model the time that the table gives it."""

    def __init__(self) -> None:
        self._absent_s = self._planned_s = 0.0

    @property
    def own_s(self) -> float:
        """Seconds outside the models."""
        return time.perf_counter() - self._absent_s

    def __call__(self) -> float:
        """What the policy is to believe."""
        return self.own_s + self._planned_s

    def watch(self, model: ReadyRows, times: PassTimes) -> ReadyRows:
        """Let `model`'s passes take `times`."""
        evaluate = model.eval

        def eval_planned(tokens: Sequence[int], n_rows: int | None = None) -> Logits:
            started = time.perf_counter()
            rows = evaluate(tokens, n_rows)
            self._absent_s += time.perf_counter() - started
            self._planned_s += times(len(tokens))
            return rows

        model.eval = eval_planned  # type: ignore[method-assign]
        return model


def rounds(n_tokens: int, temp: float) -> list[tuple[RoundDone, float]]:
    """The rounds of one generation, and the seconds that the host took for each."""
    clock = Clock()
    target = clock.watch(ReadyRows(wrong_every=None), TARGET)
    draft = clock.watch(ReadyRows(wrong_every=5), DRAFT)
    rule = make_rule(Accept.COUPLED, SamplingSettings(temp=temp), seed=1)
    survival = Survival()
    drafter = ChainDrafter(
        TextCopies(survival), DraftModel(draft, rule, survival, n_shared=N_VOCAB), is_end=_never
    )
    policy = CostAware(PassMeter(TARGET), PassMeter(DRAFT), survival, widths=range(1, K_MAX + 2))
    output = Output(lambda token: b"x", _never, stop=(), max_tokens=n_tokens)
    decoder = Decoder(target, drafter, rule, policy, clock=clock)
    made, before_s = [], clock.own_s
    for event in decoder.generate(PROMPT, output):
        if isinstance(event, RoundDone):
            now_s = clock.own_s
            made.append((event, now_s - before_s))
            before_s = now_s
    return made


def _never(token: int) -> bool:
    return False


def main() -> None:
    """Print milliseconds a round, in the first and in the last of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--temp", type=float, nargs="+", default=[0.0, 0.8])
    options = parser.parse_args()
    print("| temp | rounds | number | drafted a round | host ms a round | host ms a token |")
    print("|---|---|---|---|---|---|")
    for temp in options.temp:
        made = rounds(options.tokens, temp)
        for name, part in (("first", made[:N_SHOWN]), ("last", made[-N_SHOWN:])):
            drafted = sum(done.n_drafted for done, _ in part) / len(part)
            emitted = sum(done.n_emitted for done, _ in part)
            host_ms = 1e3 * sum(seconds for _, seconds in part)
            print(
                f"| {temp:g} | {name} | {len(part)} | {drafted:.1f} "
                f"| {host_ms / len(part):.2f} | {host_ms / emitted:.2f} |"
            )


if __name__ == "__main__":
    main()
