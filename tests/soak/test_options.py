"""Random options in thousands: nothing crashes, and drafts change nothing."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest

from spec_cli.errors import ExitCode
from tests.cli.conftest import Call, Done
from tests.cli.tiny_models import Models

N_RUNS = int(os.environ.get("SPEC_CLI_SOAK_RUNS", "1000"))

pytestmark = pytest.mark.soak

# Of each option some values: common ones, ends of the range, and what must be refused.
TEXT = {
    "--temp": ("0", "0.0001", "1e-300", "0.7", "1", "1.5", "1e300", "-1", "nan", "inf"),
    "--top-k": ("0", "1", "40", "320", "1000000", "-1"),
    "--top-p": ("1", "0.95", "0.5", "1e-300", "0", "1.1"),
    "--min-p": ("0", "0.05", "1", "2"),
    "--repeat-penalty": ("1", "1.3", "0.01", "100", "0"),
    "--repeat-last-n": ("0", "1", "64", "1000000000000", "-1"),
    "--presence-penalty": ("0", "1", "-100", "101"),
    "--frequency-penalty": ("0", "0.5", "100", "nan"),
    "--seed": ("0", "1", "42", str(2**63), str(2**64 - 1), str(2**64), "-1"),
    "-n": ("0", "1", "2", "7", "33", "33", "-1"),
    "--stop": ("e", "the", "\n", "€", ""),
    "-c": ("1", "2", "8", "9", "10", "64", "512", "600", "0"),
    "--system": ("", "Be brief.", "<|im_end|>"),
}
DRAFTING = {
    "-k": ("auto", "1", "2", "7", "31", "63", "0", "64"),
    "-b": ("1", "2", "3", "8", "512", "0", "65537"),
    "--drafter": ("auto", "chain", "model", "ngram", "none"),
    "-t": ("1", "2", "0"),
}
PROMPTS = ("hi", "hello the hello the hello the", "<|im_end|>", "a\x00b", "é世🦙", " ", "")


def some(random: Random, options: dict[str, tuple[str, ...]], share: float) -> list[str]:
    chosen = []
    for name, values in options.items():
        if random.random() < share:
            # What must be refused stands last: it is taken seldom, or nothing else would be tried.
            usual = values[:-1] if len(values) > 1 and random.random() < 0.97 else values
            chosen += [f"{name}={random.choice(usual)}" if name[1] == "-" else name]
            if name[1] != "-":
                chosen.append(random.choice(usual))
    return chosen


def assert_told(run: Done) -> None:
    """A refusal: one error, no text, no traceback."""
    assert run.exit_code == ExitCode.USAGE, run
    assert run.stdout == b""
    assert "Traceback" not in run.stderr and "unexpected" not in run.stderr
    assert run.stderr.count("error: ") == 1


def assert_adds_up(result: dict[str, Any], n_max: int) -> None:
    usage, timings, speculative = result["usage"], result["timings"], result["speculative"]
    n = len(result["tokens"])
    assert n <= n_max
    assert n == usage["completion_tokens"] == timings["predicted_n"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + n
    assert timings["draft_n"] == sum(speculative["drafted_per_pos"])
    assert timings["draft_n_accepted"] == sum(speculative["accepted_per_pos"])
    assert n <= speculative["num_rounds"] + speculative["num_accepted_tokens"]


@pytest.mark.parametrize("seed", range(N_RUNS))
def test_random_options_are_refused_or_give_the_text_of_plain_decoding(
    call: Call, models: Models, seed: int
) -> None:
    random = Random(seed)
    text = [random.choice(PROMPTS), *some(random, TEXT, 0.4), "--json", "--exact", "on"]
    text += [] if "-n" in text else ["-n", "16"]
    text += [] if any(word.startswith("--seed") for word in text) else ["--seed", "5"]
    if random.random() < 0.5:
        text = [word for word in text if not word.startswith("--system")] + ["--raw"]
    target = random.choice([models.target, models.target, models.mamba, models.sliding])
    draft = ["-d", str(random.choice([models.draft, models.draft, models.mamba, models.target]))]
    run = call("run", *text, "-m", target, *draft, *some(random, DRAFTING, 0.5))
    if run.exit_code != ExitCode.OK:
        assert_told(run)
        return
    assert_adds_up(run.json, int(text[text.index("-n") + 1]))
    plain = call("run", *text, "-m", target, "--no-draft")
    assert plain.exit_code == ExitCode.OK
    for key in ("text", "tokens", "finish_reason"):
        assert run.json[key] == plain.json[key]
