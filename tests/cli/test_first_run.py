"""The first run of a pair: models are tried, probed and copied once, whatever comes in between."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGKILL, SIGTERM

import pytest

from tests.cli.conftest import GREEDY, N_TOKENS, Done, SpecCli, finished, wait_until
from tests.cli.tiny_models import Models

ENDLESS = (*GREEDY, "-c", "60000")
PLAIN = ("-n", str(N_TOKENS), "--exact", "on")


@pytest.fixture
def fresh(tmp_path: Path) -> SpecCli:
    """A user who has never run anything."""
    return SpecCli(tmp_path)


def assert_left_in_order(home: Path) -> None:
    """What is kept between runs is whole; nothing half-made lies about."""
    kept = [p for kind in ("STATE", "CACHE") for p in (home / kind).rglob("*") if p.is_file()]
    for path in kept:
        assert path.suffix in (".json", ".gguf", ".lock"), path
        if path.suffix == ".json":
            json.loads(path.read_text())


STEPS = ("rehearsed/*", "exactness-plans/*", "drafts/*.gguf", "pass-times/*")  # what each leaves


def wait_for(step: str, fresh: SpecCli, process: subprocess.Popen[bytes]) -> None:
    """Wait until a step of a first run is done."""
    wait_until(lambda: list(fresh.home.glob(f"*/spec-cli/{step}")), process)


@pytest.mark.parametrize(
    ("number", "step"),
    [(SIGINT, None), *zip((SIGTERM, SIGHUP, SIGINT, SIGTERM), STEPS, strict=True)],
)
def test_a_signal_at_any_time_ends_a_first_run_and_leaves_nothing_half_made(
    fresh: SpecCli, models: Models, plain: Done, number: int, step: str | None
) -> None:
    process = fresh.start(*ENDLESS, *models.pair)
    if step is not None:
        wait_for(step, fresh, process)
    process.send_signal(number)
    run = finished(process)
    assert run.exit_code in (128 + number, -number), run.stderr
    assert "error" not in run.stderr and "Traceback" not in run.stderr
    assert plain.json["text"].startswith(run.stdout.decode()[:N_TOKENS].rstrip("\n"))
    assert_left_in_order(fresh.home)


def test_a_run_after_one_that_was_killed_is_like_any_other(
    fresh: SpecCli, models: Models, plain: Done
) -> None:
    for step in STEPS[:3]:
        process = fresh.start(*ENDLESS, *models.pair)
        wait_for(step, fresh, process)
        process.send_signal(SIGKILL)
        finished(process)
    run = fresh(*GREEDY, *PLAIN, *models.pair, "--json")
    assert run.json["tokens"] == plain.json["tokens"]
    # A kill in the middle of a write may leave a scratch directory of state, but no half a model.
    assert not list(fresh.home.glob("*/spec-cli/drafts/*.incomplete"))


def test_two_first_runs_at_once_say_the_same(fresh: SpecCli, models: Models, plain: Done) -> None:
    both = [fresh.start(*GREEDY, *PLAIN, *models.pair, "--json") for _ in range(2)]
    for run in [finished(process) for process in both]:
        assert run.exit_code == 0, run.stderr
        assert run.json["tokens"] == plain.json["tokens"]
    assert_left_in_order(fresh.home)


def test_what_is_kept_is_for_its_owner_alone(fresh: SpecCli, models: Models) -> None:
    fresh(*GREEDY, "-n", "4", *models.pair)
    for kept in ("STATE/spec-cli", "CACHE/spec-cli"):
        directories = [p for p in (fresh.home / kept).iterdir() if p.is_dir()]
        assert directories
        assert all(p.stat().st_mode & 0o077 == 0 for p in directories)


def test_a_home_that_cannot_be_written_is_no_trouble(
    tmp_path: Path, models: Models, plain: Done
) -> None:
    (tmp_path / "STATE").write_text("")
    (tmp_path / "CACHE").write_text("")
    run = SpecCli(tmp_path)(*GREEDY, *PLAIN, *models.pair, "-q", "--json")
    assert (run.exit_code, run.stderr) == (0, "")
    assert run.json["tokens"] == plain.json["tokens"]


@pytest.mark.parametrize("n_blocks", [0, 1, 100])
def test_a_limit_on_file_sizes_loses_nothing_but_the_memory(
    fresh: SpecCli, models: Models, plain: Done, n_blocks: int
) -> None:
    args = (*GREEDY, *PLAIN, *models.pair, "-q", "--json")
    run = fresh(*args, shell=f'ulimit -f {n_blocks}; "$@" | cat')
    assert (run.exit_code, run.stderr) == (0, "")
    assert run.json["tokens"] == plain.json["tokens"]
    assert_left_in_order(fresh.home)
