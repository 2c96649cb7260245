"""Speculative decoding of llama-server, and of others, against llama-server's plain decoding.

    python benchmarks/peer_llama_server.py TARGET.gguf --server build/bin/llama-server \\
        --draft-model DRAFT.gguf --ours --out rows.jsonl

All programs get the same token ids, answer length, filters, threads and context size. They take
turns in blocks of a few arms and prompts, and a speed-up is the time per token of llama-server's
plain decoding in the same block over the arm's. Rows are kept in `--out`; the same command goes
on where it was stopped, and prints the tables of the complete blocks at its end.

llama-server is built from the llama.cpp that llama-cpp-python's source package contains, so that
both run the same kernels:

    pip download llama-cpp-python==0.3.36 --no-binary llama-cpp-python --no-deps
    tar xf llama_cpp_python-0.3.36.tar.gz
    export CXXFLAGS="-include $PWD/scripts/llama_amx.h"   # GCC before 13.3 breaks AMX without it
    cmake -S llama_cpp_python-0.3.36/vendor/llama.cpp -B build -DCMAKE_BUILD_TYPE=Release \\
        -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_USE_PREBUILT_UI=OFF \\
        -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF
    cmake --build build --target llama-server -j

Add `-DGGML_CUDA=ON` or `-DGGML_METAL=ON` where `make setup` built for a GPU. A draft file alone
does not make it speculate: that takes `--spec-type draft-simple`.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from threading import Event

from peer_arms import Arm, LlamaServer, OpenArm, Request, SpecCli
from peer_plan import Block, append_row, plan_blocks, recover_rows, rows_of
from peer_python import python_arms
from peer_report import BASELINE, Row, table

from spec_cli.cli.encode import encode
from spec_cli.cli.inputs import PromptInput
from spec_cli.cpu import usable_cores
from spec_cli.gguf import read_header
from spec_cli.llama.model import LlamaModel, LoadSettings
from spec_cli.loader import Environment
from spec_cli.places import copies_dir, state_dir
from spec_cli.prompts import NamedPrompt, bench_prompts
from spec_cli.settings import DrafterKind, SessionSettings
from spec_cli.spec.settings import SamplingSettings
from spec_cli.state import StateStore

GRIDS = {
    "full": [(n, p) for n in (1, 2, 3, 5, 8, 16) for p in (0, 0.5, 0.75, 0.9)],
    "small": [(3, 0), (3, 0.75), (5, 0.75), (8, 0.9), (16, 0.9)],
}
N_WARM_UP = 8  # tokens, from as many of a prompt


def main() -> None:
    """Measure what is missing, and print a Markdown table per temperature."""
    # No exception: llama.cpp's callbacks would swallow it. Servers end with the `with` blocks.
    stopping = Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: stopping.set())
    options = _options()
    every = _arms(options, stopping)
    arms = {name: arm for name, arm in every.items() if _is_wanted(name, options.only)}
    prompts = _prompts(options.kinds, options.prompts)
    tokens = _encode(options.target, prompts)
    longest = max(map(len, tokens.values()))
    if longest + options.n > options.ctx_size:
        raise SystemExit(f"the longest prompt has {longest} tokens: use a larger --ctx-size")
    blocks = list(
        plan_blocks(
            list(arms),
            list(tokens),
            n_rounds=options.rounds,
            n_arms=options.block_arms,
            n_prompts=options.block_prompts,
            seed=options.seed,
            facts=_facts(options),
        )
    )
    done = {row.block for row in rows_of(blocks, recover_rows(options.out), options.temp)}
    kinds = {prompt.id: prompt.kind for prompt in prompts}
    for i, block in enumerate(blocks, start=1):
        if block.key not in done:
            for row in _measure(block, arms, tokens, kinds, options, stopping):
                append_row(options.out, row)
            _say(f"block {i} of {len(blocks)} done")
    rows = rows_of(blocks, recover_rows(options.out), options.temp)
    for temp in options.temp:
        print(f"\nT = {temp:g}, {options.n} tokens: speed-up over {BASELINE}\n")
        print(table([row for row in rows if row.temp == temp], list(arms)))


def _arms(options: argparse.Namespace, stopping: Event) -> dict[str, OpenArm]:
    """What is compared, by the names in the table."""
    common = ["--model", str(options.target), "--ctx-size", str(options.ctx_size)]
    common += ["--threads", str(options.threads)]
    arms: dict[str, OpenArm] = {
        name: partial(LlamaServer, options.server, [*common, *flags])
        for name, flags in _server_flags(options.draft_model, GRIDS[options.grid]).items()
    }
    draft = next(iter(options.draft_model), None)
    if options.ours:
        arms |= _our_arms(options, draft, stopping)
    if options.python_peers:
        arms |= python_arms(options.target, draft, options.threads, options.ctx_size, _say)
    return arms


def _server_flags(
    drafts: Sequence[Path], grid: Sequence[tuple[int, float]]
) -> dict[str, list[str]]:
    """What llama-server gets besides the target, for each configuration."""
    flags: dict[str, list[str]] = {BASELINE: []}
    for draft in drafts:
        for n_max, p_min in grid:
            flags[f"draft-simple {n_max}/{p_min:g} {draft.stem}"] = [
                *("--spec-type", "draft-simple", "--spec-draft-model", str(draft)),
                *("--spec-draft-n-max", str(n_max), "--spec-draft-p-min", str(p_min)),
            ]
    for kind in ("ngram-simple", "ngram-mod"):
        flags[kind] = ["--spec-type", kind]
    return flags


def _facts(options: argparse.Namespace) -> list[object]:
    """What rows depend on besides their arm, prompt and round."""
    models = [path.name for path in (options.target, *options.draft_model)]
    return [models, options.n, options.temp, options.threads, options.ctx_size]


def _our_arms(
    options: argparse.Namespace, draft: Path | None, stopping: Event
) -> dict[str, OpenArm]:
    environment = Environment(
        state=StateStore(state_dir()),
        clock=time.perf_counter,
        cancelled=stopping.is_set,
        notify=lambda notice: None,
        progress=lambda what, fraction: None,
        copies=copies_dir(),
    )
    drafters = {
        "spec-cli plain": (None, DrafterKind.NONE),
        "spec-cli auto": (draft, DrafterKind.AUTO),
    }
    return {
        name: partial(
            SpecCli,
            options.target,
            file,
            SessionSettings(drafter=kind, n_ctx=options.ctx_size, n_threads=options.threads),
            environment,
        )
        for name, (file, kind) in drafters.items()
    }


def _is_wanted(name: str, patterns: Sequence[str]) -> bool:
    return name == BASELINE or any(fnmatch(name, pattern) for pattern in patterns)


def _prompts(kinds: Sequence[str] | None, n_of_kind: int) -> list[NamedPrompt]:
    """The first prompts of each kind that is asked for; None is all kinds."""
    by_kind: dict[str, list[NamedPrompt]] = {}
    for prompt in bench_prompts():
        if kinds is None or prompt.kind in kinds:
            by_kind.setdefault(prompt.kind, []).append(prompt)
    return [prompt for some in by_kind.values() for prompt in some[:n_of_kind]]


def _encode(target: Path, prompts: Sequence[NamedPrompt]) -> dict[str, tuple[int, ...]]:
    """Token ids of each prompt, as `spec-cli run` makes them."""
    template = read_header(target).chat_template
    with LlamaModel(target, LoadSettings(repack=False)) as model:
        return {
            prompt.id: tuple(
                encode(
                    model,
                    template,
                    PromptInput(prompt.text, system=None, raw=False, chat_template=None),
                    datetime(2026, 1, 1),
                ).tokens
            )
            for prompt in prompts
        }


def _measure(
    block: Block,
    arms: Mapping[str, OpenArm],
    tokens: Mapping[str, tuple[int, ...]],
    kinds: Mapping[str, str],
    options: argparse.Namespace,
    stopping: Event,
) -> Iterator[Row]:
    for name in block.arms:
        with arms[name]() as arm:
            _warm_up(arm, tokens[block.prompts[0]])
            for temp in options.temp:
                sampling = SamplingSettings(temp=temp)
                for prompt in block.prompts:
                    request = Request(tokens[prompt], options.n, sampling, seed=block.round + 1)
                    timings = arm.answer(request)
                    if stopping.is_set():
                        raise SystemExit("stopped: the same command goes on from here")
                    if timings.timed_n < 1:
                        raise SystemExit(f"{name} ended its answer to {prompt} at once")
                    yield Row(block.key, name, prompt, kinds[prompt], temp, timings)


def _warm_up(arm: Arm, tokens: tuple[int, ...]) -> None:
    arm.answer(Request(tokens[:N_WARM_UP], N_WARM_UP, SamplingSettings(temp=0), seed=1))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("target", type=Path)
    add("--server", type=Path, required=True, help="the llama-server program")
    add("--draft-model", type=Path, action="append", default=[], help="may be repeated")
    add("--grid", choices=GRIDS, default="full", help="draft lengths and least probabilities")
    add("--ours", action="store_true", help="also spec-cli, with the first draft model")
    add("--python-peers", action="store_true", help="also peers that are Python packages")
    add("--only", nargs="+", default=["*"], help="names or patterns, as in the table")
    add("--out", type=Path, required=True, help="where the rows are kept, as JSON lines")
    add("--kinds", nargs="+", help="kinds of prompts")
    add("--prompts", type=int, default=6, help="prompts of each kind")
    add("-n", type=int, default=256, help="tokens to generate")
    add("--temp", type=float, nargs="+", default=[0.0])
    add("--rounds", type=int, default=1)
    add("--block-arms", type=int, default=6, help="configurations in a block besides plain")
    add("--block-prompts", type=int, default=3)
    add("--threads", type=int, default=usable_cores())
    add("--ctx-size", type=int, default=4096)
    add("--seed", type=int, default=1, help="of the order of turns")
    options = parser.parse_args()
    if len({draft.stem for draft in options.draft_model}) < len(options.draft_model):
        parser.error("the draft models need different file names")
    return options


if __name__ == "__main__":
    main()
