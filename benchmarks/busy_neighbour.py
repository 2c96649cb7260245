"""Step times beside a program that keeps one core busy, for several spin counts of OpenMP.

A pass is as slow as its slowest thread. Threads that wait spin for a while before they sleep: the
shorter they spin, the sooner a thread that was put off gets a core.

    python benchmarks/busy_neighbour.py [--spin 1000,300000] [--rounds 3] [-n 96] [-- RUN OPTIONS]

Runs alone and beside the program take turns, in random order. Steps are those of `spec-cli run
--no-draft`, or of rounds of any width where the options after `--` let it draft.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

PROMPT = "Explain how a B-tree keeps its height small when keys are inserted and deleted."
N_FIRST = 4  # steps left out: the first ones touch memory for the first time


def main() -> None:
    """Measure, and print a Markdown table."""
    options = _options()
    order = [(spin, busy) for spin in options.spin for busy in (False, True)] * options.rounds
    random.Random(0).shuffle(order)
    steps_ms: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for done, (spin, busy) in enumerate(order, 1):
        steps_ms[spin, busy] += _measure(spin, busy, options)
        print(f"{done} of {len(order)} runs", file=sys.stderr)
    print("| spin count | beside it | steps | median ms | p95 ms | p95 / median |")
    print("|---|---|---|---|---|---|")
    for spin in options.spin:
        for busy in (False, True):
            found = steps_ms[spin, busy]
            median, p95 = np.percentile(found, (50, 95))
            beside = "a busy program" if busy else "nothing"
            print(
                f"| {spin} | {beside} | {len(found)} | {median:.0f} | {p95:.0f} "
                f"| {p95 / median:.2f} |"
            )


def _measure(spin: str, busy: bool, options: argparse.Namespace) -> list[float]:
    """Milliseconds of each step of one run."""
    with TemporaryDirectory() as folder, _neighbour(busy):
        trace = Path(folder, "trace.jsonl")
        command = [sys.executable, "-m", "spec_cli", "run", PROMPT, "--temp", "0", "--quiet"]
        command += ["--ignore-eos", "-n", str(options.n), "--trace", str(trace)]
        subprocess.run(
            [*command, *(options.run or ["--no-draft"])],
            env={**os.environ, "GOMP_SPINCOUNT": spin},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        lines = [json.loads(line) for line in trace.read_text().splitlines()]
    rounds = [line for line in lines if "verify_s" in line]
    return [1e3 * line["verify_s"] for line in rounds[N_FIRST:]]


@contextmanager
def _neighbour(busy: bool) -> Iterator[None]:
    """Beside a process that computes without a pause."""
    if not busy:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spin", type=lambda text: text.split(","), default=["1000", "300000"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-n", type=int, default=96)
    parser.add_argument("run", nargs="*", help="options of `spec-cli run`, after `--`")
    return parser.parse_args()


if __name__ == "__main__":
    main()
