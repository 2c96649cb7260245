"""A run that needs no model: scripted events through the renderers of this process's terminal.

    python -m tests.cli.scripted_run [--text FILE] [--pause SECONDS] [--raise NAME] [OPTION ...]

Options are the names of `RenderOptions`. `--raise` raises that exception after two thirds of the
text; `--wait-for-resize N` waits after N rounds until the terminal has another size. Without
pauses the clock is one that ticks 20 ms with each look at it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from spec_cli import terminal
from spec_cli.events import (
    DraftingOff,
    Event,
    Finished,
    FinishReason,
    Notice,
    Origin,
    PromptProgress,
    RoundDone,
    TextDelta,
)
from spec_cli.render.choose import choose_renderers
from spec_cli.render.info import ModelInfo, RunInfo
from spec_cli.render.options import RenderOptions
from spec_cli.spec.costs import PassTimes
from spec_cli.spec.exactness import ExactnessPlan, Kernels
from spec_cli.spec.settings import Exact
from spec_cli.spec.stats import RoundCount, RunStats

PLAIN_STEP_S = 0.0315
ACCEPTED = (4, 2, 4, 0, 1, 3, 4, 2, 1, 4)  # of 4 drafted; the rounds repeat these

INFO = RunInfo(
    target=ModelInfo("qwen2.5-coder-1.5b-instruct", "target.gguf", "Q8_0", "org/repo", "abc", "00"),
    draft=ModelInfo("qwen2.5-coder-0.5b-instruct", "draft.gguf", "Q4_0", "org/draft", "def", "01"),
    draft_copy=None,
    drafter="model",
    draft_tokens="auto",
    drafting_off=None,
    accept="coupled",
    exact=Exact.AUTO,
    plan=ExactnessPlan(
        Kernels(), (1, 2, 4, 8), 0.0, 0.0, PassTimes((1, 2, 4, 8), (0.03, 0.04, 0.05, 0.08))
    ),
    seed=1234,
    sampling={"temp": 0.7, "top_k": 40},
    n_prompt=512,
    n_ctx=4096,
    n_threads=2,
    backend="CPU",
    device="a processor",
    load_s=0.9,
    versions={"spec-cli": "0", "llama.cpp": "1"},
)

TEXT = """\
Speculative decoding lets a small model guess what a large one will say. The large model checks \
all of the guesses in one pass; what it would have said anyway is kept, the rest is thrown away.

def fib(n: int) -> int:
\ta, b = 0, 1
\tfor _ in range(n):
\t\ta, b = b, a + b
\treturn a

Wide: 投机解码让小模型猜测大模型要说的话，大模型一次检查所有的猜测。Emoji 👍🎉 and \
e\u0301 combining.
[bold]not markup[/x] :smile: \x1b[31mnot red\x1b[0m \x1b]0;title\x07 done
"""


def scripted_events(text: str, *, drafting_off_after: int | None = None) -> Iterator[Event]:
    """A run of `text`: one token is three characters, a round drafts four tokens."""
    stats = RunStats(n_prompt=512, prefill_s=0.21, ttft_s=0.25, plain_step_estimate_s=PLAIN_STEP_S)
    yield Notice("the tokenizer of the draft has 3 more tokens")
    for done in range(0, 513, 64):
        yield PromptProgress(done, 512)
    tokens = [text[i : i + 3] for i in range(0, len(text), 3)]
    n = 0
    while n < len(tokens):
        index = stats.n_rounds
        if index == drafting_off_after:
            yield DraftingOff(
                "a draft token takes 20.1 ms and a pass over 2 rows 57.2 ms; a plain step 31.0 ms"
            )
        off = drafting_off_after is not None and index >= drafting_off_after
        n_drafted = 0 if off or not index else 4
        n_accepted = min(ACCEPTED[index % len(ACCEPTED)], n_drafted, len(tokens) - n - 1)
        draft_s, verify_s = 0.0022 * n_drafted, 0.0305 + 0.0112 * n_drafted
        count = RoundCount(n_drafted, n_accepted, n_accepted + 1)
        stats.add_round(count, draft_s=draft_s, verify_s=verify_s, host_s=0.0004)
        width = n_drafted + 1
        yield RoundDone(
            index,
            width,
            n_drafted,
            n_accepted,
            n_accepted + 1,
            draft_s,
            verify_s,
            0.0004,
            plain_step_s=PLAIN_STEP_S,
        )
        last = Origin.BONUS if n_accepted == n_drafted else Origin.CORRECTION
        origins = [Origin.DRAFT] * n_accepted + [last if n_drafted else Origin.PLAIN]
        for origin in origins:
            yield TextDelta(tokens[n], (n,), origin)
            n += 1
    yield Finished(FinishReason.STOP, tuple(range(n)), stats)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", type=Path)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--raise", dest="error", choices=("ValueError", "KeyboardInterrupt"))
    parser.add_argument("--wait-for-resize", type=int)
    parser.add_argument("--drafting-off-after", type=int)
    parser.add_argument("options", nargs="*")
    args = parser.parse_args()
    ticks = itertools.count(0.0, 0.02)
    text = args.text.read_bytes().decode() if args.text else TEXT
    renderer = choose_renderers(
        terminal.detect(),
        RenderOptions(**dict.fromkeys(args.options, True)),
        INFO,
        clock=time.monotonic if args.pause else lambda: next(ticks),
    )
    events = list(scripted_events(text, drafting_off_after=args.drafting_off_after))
    errors = {"ValueError": ValueError("boom"), "KeyboardInterrupt": KeyboardInterrupt()}
    try:
        with renderer:
            for n, event in enumerate(events):
                if args.error and n == 2 * len(events) // 3:
                    raise errors[args.error]
                renderer.handle(event)
                if isinstance(event, RoundDone):
                    time.sleep(args.pause)
                    if event.index + 1 == args.wait_for_resize:
                        _wait_for_resize()
    except (ValueError, KeyboardInterrupt):
        sys.stderr.write("error: boom\n")
    except BrokenPipeError:
        sys.stderr.write("broken pipe\n")


def _wait_for_resize() -> None:
    """Say so in the title, then look at the size: a signal could meet another thread."""
    before = os.get_terminal_size(sys.stderr.fileno())
    sys.stderr.write("\x1b]2;waiting\x07")
    sys.stderr.flush()
    while os.get_terminal_size(sys.stderr.fileno()) == before:
        time.sleep(0.01)


if __name__ == "__main__":
    main()
