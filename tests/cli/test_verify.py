"""`spec-cli verify`: passes on a sound pair, and fails when something is wrong."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pexpect
import pytest

from spec_cli.cli import verify as command
from spec_cli.exactness import Planner
from spec_cli.llama.context import LlamaContext
from spec_cli.spec import acceptance
from spec_cli.spec.acceptance import MatchRule
from spec_cli.spec.costs import PassTimes
from spec_cli.spec.exactness import DEFAULT_KERNELS, ExactnessPlan
from spec_cli.spec.interfaces import Draft, Logits, Verdict
from spec_cli.verify import rows
from tests.cli.conftest import Call, Done, SpecCli, finished, wait_until
from tests.cli.emulator import Emulator
from tests.cli.tiny_models import Models

WIDTHS = tuple(range(1, 17))
Patch = pytest.MonkeyPatch
Verify = Callable[..., Done]


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "own.jsonl"
    lines = [{"id": "greeting", "prompt": "hello there"}, {"id": "add", "prompt": "def add(a, b"}]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


@pytest.fixture
def verify(call: Call, models: Models, prompts: Path, monkeypatch: Patch) -> Verify:
    """Verifies the tiny pair in this process, with few rounds for the rules."""
    monkeypatch.setattr(command, "_QUICK", replace(command._QUICK, n_rounds=400))

    def run(*options: str) -> Done:
        pair = ("verify", models.target, "-d", models.draft, "--prompts", prompts)
        return call(*pair, "-t", "1", *options)

    return run


def plant(monkeypatch: Patch, widths: tuple[int, ...] | None, max_difference: float = 0.0) -> None:
    """Let the exactness plan say this, whatever is true."""
    times = PassTimes(WIDTHS, (1.0,) * 16)
    plan = ExactnessPlan(DEFAULT_KERNELS, widths, 0.0, max_difference, times)
    monkeypatch.setattr(Planner, "stored", lambda self: plan)


NO_MODEL = ("--drafter", "ngram,random")  # no rules, which take most of the time


def test_a_sound_pair_passes(verify: Verify, monkeypatch: Patch) -> None:
    plant(monkeypatch, WIDTHS)
    run = verify("-n", "24", "-k", "3,auto")
    assert (run.exit_code, run.stderr) == (0, "")
    *_, conclusion = run.stdout.decode().splitlines()
    assert conclusion == (
        "all 32 speculative texts equal plain decoding, token for token (768 tokens); "
        "bit-exact: widths 1-16"
    )


def test_the_target_may_be_named_by_an_option(
    verify: Verify, call: Call, models: Models, prompts: Path, monkeypatch: Patch
) -> None:
    plant(monkeypatch, WIDTHS)
    named = ("verify", "-m", models.target, "-d", models.draft, "--prompts", prompts)
    by_option = call(*named, "-t", "1", "-n", "8", *NO_MODEL)
    assert by_option.exit_code == 0
    assert by_option == verify("-n", "8", *NO_MODEL)


def test_what_is_printed_into_a_pipe_is_plain_and_always_the_same(
    verify: Verify, monkeypatch: Patch
) -> None:
    plant(monkeypatch, WIDTHS)
    first, second = verify("-n", "16", *NO_MODEL), verify("-n", "16", *NO_MODEL)
    assert first == second
    text = first.stdout.decode()
    assert "\x1b" not in text and text.isascii()
    assert "acceptance rules: not checked, there is no draft model" in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_another_seed_drafts_and_samples_otherwise(verify: Verify, monkeypatch: Patch) -> None:
    plant(monkeypatch, WIDTHS)
    totals = [verify("--json", "--seed", s, *NO_MODEL).json["totals"] for s in ("1", "2")]
    assert totals[0]["accepted"] != totals[1]["accepted"]


@pytest.mark.parametrize("exact", ["off", "auto", "on"])
def test_a_plan_that_was_measured_passes(
    spec_cli: SpecCli, models: Models, prompts: Path, exact: str
) -> None:
    """In a process of its own: kernels are settled once in a process."""
    options = ("--prompts", prompts, "-n", "16", "--exact", exact, *NO_MODEL)
    run = spec_cli("verify", models.target, *options)
    assert run.exit_code == 0, (run.stdout.decode(), run.stderr)


def test_json_is_one_object(verify: Verify, monkeypatch: Patch) -> None:
    plant(monkeypatch, (1, 2, 4))
    run = verify("-n", "12", "-k", "2,7", "--temp", "0.8", "--json")
    whole = run.json
    assert run.stdout.count(b"\n") == 1
    assert (whole["schema"], whole["passed"], whole["complete"]) == (
        "spec-cli/verify/1",
        True,
        True,
    )
    assert whole["totals"]["compared"] == len(whole["comparisons"]) == 2 * 4 * 2
    # Widths allow drafts of 3 tokens: the longer ones are cut, and the user is told.
    assert {c["draft_tokens"] for c in whole["comparisons"]} == {2, 3}
    assert whole["totals"]["widest_pass"] == 4
    assert "note: drafts are cut to 3 tokens" in run.stderr
    assert len(whole["rules"]["checks"]) == 24
    assert whole["model"]["draft"]["file"] == "draft.gguf"


# What can be wrong in the program, and is found.


def keep_a_rejected_token(monkeypatch: Patch) -> None:
    rollback = LlamaContext.rollback

    def wrong(self: LlamaContext, n_past: int) -> None:
        rollback(self, min(n_past + 1, self.n_past) if n_past else 0)

    monkeypatch.setattr(LlamaContext, "rollback", wrong)


def noise_by_draft_length(monkeypatch: Patch) -> None:
    verify_ = MatchRule.verify

    def wrong(self: MatchRule, rows: Logits, draft: Draft, context: Sequence[int]) -> Verdict:
        return verify_(self, rows, draft, range(len(context) + len(draft.tokens)))

    monkeypatch.setattr(MatchRule, "verify", wrong)


def accept_any_draft(monkeypatch: Patch) -> None:
    def wrong(self: MatchRule, rows: Logits, draft: Draft, context: Sequence[int]) -> Verdict:
        return Verdict((*draft.tokens, int(rows[-1].argmax())))

    monkeypatch.setattr(MatchRule, "verify", wrong)


@pytest.mark.parametrize("widths", [WIDTHS, None])
@pytest.mark.parametrize(
    "break_it", [keep_a_rejected_token, noise_by_draft_length, accept_any_draft]
)
def test_a_loop_or_rule_that_lets_drafts_change_the_text_fails(
    verify: Verify,
    monkeypatch: Patch,
    break_it: Callable[[Patch], None],
    widths: tuple[int, ...] | None,
) -> None:
    plant(monkeypatch, widths, max_difference=0.01)
    break_it(monkeypatch)
    run = verify("-n", "24", "-k", "4", "--drafter", "random")
    assert run.exit_code == 7
    assert run.stderr.startswith("error: ") and "from plain decoding" in run.stderr
    text = run.stdout.decode()
    assert "unexplained: " in text and "near-tie: " not in text
    assert "; FAILED: " in text.splitlines()[-1]


def test_a_draft_with_noise_of_its_own_changes_no_text(verify: Verify, monkeypatch: Patch) -> None:
    plant(monkeypatch, WIDTHS)
    draw = MatchRule.draw
    monkeypatch.setattr(
        MatchRule,
        "draw",
        lambda self, row, at, history: draw(self, row, at + 1, history),
    )
    run = verify("-n", "24", "--drafter", "model")
    assert run.exit_code == 0, run.stdout.decode()


def residual_of_p(monkeypatch: Patch) -> None:
    monkeypatch.setattr(acceptance, "residual", lambda p, q, scale=1.0: p)


def block_by_the_token(monkeypatch: Patch) -> None:
    monkeypatch.setattr(acceptance, "prefix_acceptance", lambda s, z: s)


@pytest.mark.parametrize(
    ("break_it", "wrong"),
    [(residual_of_p, {"rejection", "block"}), (block_by_the_token, {"block"})],
)
def test_a_rule_that_does_not_keep_the_distribution_fails(
    verify: Verify, monkeypatch: Patch, break_it: Callable[[Patch], None], wrong: set[str]
) -> None:
    monkeypatch.setattr(command, "_QUICK", replace(command._QUICK, n_rounds=1000))
    monkeypatch.setattr(rows, "N_PAIRS", 1)  # that on which a wrong rule shows most
    plant(monkeypatch, WIDTHS)
    break_it(monkeypatch)
    run = verify("-n", "12", "--temp", "0.8", "--drafter", "model", "--json")
    assert run.exit_code == 7
    whole = run.json
    assert not whole["passed"] and whole["totals"]["unexplained"] == 0
    assert {c["accept"] for c in whole["rules"]["checks"] if not c["passed"]} == wrong
    assert all(rule in run.stderr for rule in wrong)


def differ_by_width(monkeypatch: Patch, size: float) -> None:
    """Fake kernels: in passes of several rows every other logit is `size` larger."""
    evaluate = LlamaContext.eval

    def fake(self: LlamaContext, tokens: Sequence[int], n_rows: int | None = None) -> Logits:
        rows = evaluate(self, tokens, n_rows)
        if len(tokens) > 1:
            rows = rows + np.where(np.arange(rows.shape[1]) % 2, size, 0).astype(np.float32)
        return rows

    monkeypatch.setattr(LlamaContext, "eval", fake)


@pytest.mark.parametrize(
    ("widths", "max_difference", "exit_code", "verdict"),
    [
        (WIDTHS, 0.2, 7, "unexplained"),  # claims equal bits
        (None, 0.2, 0, "near-tie"),
        (None, 0.09, 7, "unexplained"),  # more than twice what the probe saw
    ],
)
def test_kernels_that_differ_by_width_are_judged_by_the_plan(
    verify: Verify,
    monkeypatch: Patch,
    widths: tuple[int, ...] | None,
    max_difference: float,
    exit_code: int,
    verdict: str,
) -> None:
    plant(monkeypatch, widths, max_difference)
    differ_by_width(monkeypatch, 0.2)
    run = verify("-n", "40", "-k", "3", *NO_MODEL)
    assert run.exit_code == exit_code
    text = run.stdout.decode()
    verdicts = {line.split(":")[0].strip() for line in text.splitlines() if line.startswith("  ")}
    assert verdict in verdicts
    assert not verdicts & ({"unexplained", "near-tie"} - {verdict})


def test_a_matrix_goes_on_with_its_file(verify: Verify, monkeypatch: Patch, tmp_path: Path) -> None:
    plant(monkeypatch, WIDTHS)
    n_passes = 0
    evaluate = LlamaContext.eval

    def counted(self: LlamaContext, tokens: Sequence[int], n_rows: int | None = None) -> Logits:
        nonlocal n_passes
        n_passes += 1
        return evaluate(self, tokens, n_rows)

    monkeypatch.setattr(LlamaContext, "eval", counted)
    save = ("-n", "20", *NO_MODEL, "--save", str(tmp_path / "matrix.jsonl"))
    first = verify("-k", "3", *save)
    assert first.exit_code == 0 and n_passes > 100
    n_passes = 0
    assert verify("-k", "3", *save) == first
    assert n_passes == 0
    assert verify("-k", "3,5", *save).exit_code == 0
    assert n_passes > 0
    n_passes = 0
    assert verify("-k", "3", "--seed", "2", *save).exit_code == 0
    assert n_passes > 100


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        (("--temp", "warm"), "--temp is `warm`"),
        (("--temp", "0,-1"), "--temp is -1.0, but must be 0 or more"),
        (("--temp", "0,,1"), "--temp is ``"),
        (("--drafter", "model,oracle"), "--drafter is `oracle`, but must be one of `model`"),
        (("-k", "3,many"), "--draft-tokens is `many`, but must be a number or `auto`"),
        (("-k", "0"), "--draft-tokens is 0, but must be from 1 to 63"),
        (("-n", "0"), "--max-tokens is 0, but must be 1 or more"),
        (("--seed", "-1"), "--seed is -1"),
        (("--drafter", "model", "-d", "none"), "`--drafter model` needs a draft model"),
        (("--prompts", "nothing.jsonl"), "cannot read nothing.jsonl"),
        (("--save", "no/such/directory/file"), "cannot use no/such/directory/file"),
        (("-c", "8"), "tokens, but the context holds 8"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(
    verify: Verify, options: tuple[str, ...], fragment: str
) -> None:
    verify("-n", "8", *options).fails(2, fragment)


def test_a_file_that_cannot_be_saved_to_is_told_before_the_models_are_read(
    call: Call, tmp_path: Path
) -> None:
    (tmp_path / "no.gguf").write_text("no model")
    args = ("verify", tmp_path / "no.gguf", "-d", "none", "--drafter", "ngram")
    call(*args).fails(3, "no.gguf")
    call(*args, "--save", "no/such/file").fails(2, "cannot use no/such/file")
    missing = ("verify", "user/toy-GGUF:Q8_0", "-d", "none", "--drafter", "ngram", "--offline")
    call(*missing).fails(4, "not in the cache")
    call(*missing, "--save", "no/such/file").fails(2, "cannot use no/such/file")


def test_a_bad_line_of_prompts_is_named(verify: Verify, prompts: Path) -> None:
    prompts.write_text('{"prompt": "a"}\nhello\n')
    verify().fails(2, f"{prompts}, line 2 is not JSON")


def test_a_target_that_never_drafts_has_nothing_to_verify(
    call: Call, models: Models, prompts: Path, monkeypatch: Patch
) -> None:
    args = ("verify", models.mamba, "-d", "none", "--prompts", prompts)
    call(*args).fails(2, "there is nothing to verify", "recurrent")
    plant(monkeypatch, (1,))
    args = ("verify", models.target, "-d", "none", "--prompts", prompts)
    call(*args).fails(2, "there is nothing to verify", "hint: use `--exact off`")


def test_a_model_without_a_template_continues_the_prompts_as_they_are(
    call: Call, models: Models, prompts: Path
) -> None:
    args = ("verify", models.base, "-d", "none", "--prompts", prompts, "-n", "8", "--json")
    run = call(*args)
    assert run.exit_code == 0, run.stderr
    assert {c["drafter"] for c in run.json["comparisons"]} == {"ngram", "random"}


def test_without_own_prompts_the_first_of_each_kind_is_taken(
    models: Models, call: Call, monkeypatch: Patch
) -> None:
    """The tiny model reads bytes, so long prompts need more context than it was trained for."""
    plant(monkeypatch, WIDTHS)
    args = ("verify", models.target, "-d", "none", "-c", "6000", "-n", "4", "--temp", "0")
    kinds = [c["kind"] for c in call(*args, "--json", "--drafter", "ngram").json["comparisons"]]
    assert kinds == ["code", "edit", "prose", "steps", "extract"]
    full = call(*args, "--json", "--drafter", "ngram", "--full", "-k", "2").json["comparisons"]
    assert len(full) == 20


def many(models: Models, prompts: Path, save: Path) -> tuple[str, ...]:
    options = ("-n", "300", "-k", "1,2,3,4", "--exact", "off", "--save", str(save))
    return ("verify", str(models.target), "--prompts", str(prompts), *NO_MODEL, *options)


def test_an_interrupt_prints_and_keeps_what_is_finished(
    spec_cli: SpecCli, models: Models, prompts: Path, tmp_path: Path
) -> None:
    save = tmp_path / "matrix.jsonl"
    args = many(models, prompts, save)
    process = spec_cli.start(*args, "--json")
    wait_until(lambda: save.exists() and save.read_text().count("\n") >= 6, process)
    process.send_signal(signal.SIGINT)
    run = finished(process)
    assert run.exit_code == 130
    whole = run.json
    assert not whole["complete"] and whole["passed"]
    assert 0 < whole["totals"]["compared"] < whole["totals"]["planned"] == 32
    kept = [line for line in save.read_text().splitlines() if '"drafter"' in line]
    assert len(kept) == whole["totals"]["compared"]
    assert "interrupted after" in whole["conclusion"]
    assert run.stderr == ""


@pytest.mark.parametrize("columns", [80, 100])
def test_on_a_terminal_the_table_fits_and_the_progress_is_gone(
    spec_cli: SpecCli, models: Models, prompts: Path, columns: int
) -> None:
    words = [*spec_cli.program, "verify", str(models.target), "--prompts", str(prompts), "-n", "8"]
    child = pexpect.spawn(
        words[0],
        [*words[1:], *NO_MODEL, "-k", "1,3,7,auto", "--temp", "0,0.8,1.2", "--exact", "off"],
        dimensions=(50, columns),
        env=spec_cli.environ({"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}),
        cwd=str(spec_cli.home),
        timeout=60,
    )
    child.expect(pexpect.EOF)
    child.close()
    emulator = Emulator(columns, 50)
    emulator.feed(child.before)
    rows = emulator.rows
    assert child.exitstatus == 0
    assert rows[0] == "target  target.gguf" and emulator.below_cursor == []
    assert emulator.cursor_is_visible
    assert ["greeting", "1.2", "8", *"✓" * 8] in [row.split() for row in rows]
    assert "token for token (384 tokens)" in " ".join(rows)


def test_help_says_how_much_is_done_without_options(call: Call) -> None:
    text = " ".join(call("verify", "--help").stdout.decode().split())
    size = command._QUICK
    assert f"temperatures 0 and 0.8, {size.max_tokens} tokens" in text
    assert f"drafts of {size.draft_tokens} tokens" in text
    assert size.temps == "0,0.8" and "default: (0,0.8)" in text
    full = command._FULL
    assert f"-n {full.max_tokens}, -k {full.draft_tokens}, --temp {full.temps}" in text.replace(
        "│ ", ""
    )
