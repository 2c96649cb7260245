"""Milliseconds for choosing one token from a row of logits, by sampling settings.

    python benchmarks/sampling_cost.py --model TARGET.gguf

Without a model the rows are synthetic: Zipf-like, of 151,936 tokens. Settings take turns, each on
every row, so that a busy moment of the machine meets all of them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from spec_cli.llama.context import LlamaContext
from spec_cli.llama.model import LlamaModel, LoadSettings
from spec_cli.llama.native import ContextSettings
from spec_cli.spec.coupling import Chooser, make_chooser
from spec_cli.spec.interfaces import Logits, Place
from spec_cli.spec.settings import SamplingSettings

SETTINGS = {
    "greedy": SamplingSettings(temp=0),
    "default filters": SamplingSettings(),
    "no filter": SamplingSettings(temp=1, top_k=0, top_p=1, min_p=0),
    "top-p 0.95 alone": SamplingSettings(temp=1, top_k=0, top_p=0.95, min_p=0),
    "default filters, penalties": SamplingSettings(repeat_penalty=1.1),
}
TEXT = (
    "The keeper had climbed the stairs every evening for thirty years, and def area(radius): "
    "return 3.14 * radius ** 2 was the last thing that he expected to find in a bottle."
)
N_VOCAB, N_ROWS = 151_936, 40


def main() -> None:
    """Measure, and print a Markdown table."""
    options = _options()
    rows = _synthetic() if options.model is None else _from_model(options.model)
    history = list(range(1000, 1064))
    choosers = {name: make_chooser(settings, 1) for name, settings in SETTINGS.items()}
    costs: dict[str, list[float]] = {name: [] for name in SETTINGS}
    for position in range(options.repeat):
        for name, chooser in choosers.items():
            costs[name] += [_ms(chooser, row, position, history) for row in rows]
    print(f"{len(rows)} rows of {rows.shape[1]:,} logits, {options.repeat} times each\n")
    print("| settings | median ms | 95 % ms |\n|---|---|---|")
    for name, cost in costs.items():
        print(f"| {name} | {np.median(cost):.3f} | {np.percentile(cost, 95):.3f} |")


def _ms(chooser: Chooser, row: Logits, position: int, history: list[int]) -> float:
    start = time.perf_counter()
    chooser.choose(row, Place(position, history))
    return (time.perf_counter() - start) * 1e3


def _synthetic() -> Logits:
    rng = np.random.default_rng(1)
    ranks = np.array([rng.permutation(N_VOCAB) for _ in range(N_ROWS)]) + 1.0
    return (rng.uniform(1, 3, size=(N_ROWS, 1)) * -np.log(ranks)).astype(np.float32)


def _from_model(path: Path) -> Logits:
    model = LlamaModel(path, LoadSettings(n_gpu_layers=0))
    tokens = model.tokenize(TEXT, special=False, bos=False)[:N_ROWS]
    with LlamaContext(model, ContextSettings(n_ctx=256, n_threads=2)) as context:
        rows = context.eval(tokens).copy()
    model.close()
    return rows


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, help="a .gguf file to take the rows from")
    parser.add_argument("--repeat", type=int, default=20)
    return parser.parse_args()


if __name__ == "__main__":
    main()
