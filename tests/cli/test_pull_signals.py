"""A download that is stopped keeps what it has, and goes on the next time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM, Signals

import pytest

from tests.cli.conftest import SpecCli, finished
from tests.fake_hub import COMMIT, FakeHub, serve

CONTENT = os.urandom(1 << 20) * 24
SENT = 15 << 20
HALF = 10 << 20  # what is written of it: huggingface_hub writes pieces of that size
NAME = "user/toy-GGUF:Q8_0"


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with serve(FakeHub({"user/toy-GGUF": {"toy-q8_0.gguf": CONTENT}})) as hub:
        yield hub


@pytest.fixture
def env(hub: FakeHub, tmp_path: Path) -> dict[str, str]:
    return {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path), "HF_TOKEN": "hf_secretsecret"}


def files(directory: Path) -> dict[str, int]:
    """The files of the cache that are not locks, with their sizes."""
    found = (p for p in directory.rglob("*") if p.is_file() and ".locks" not in p.parts)
    return {path.name: path.stat().st_size for path in found}


def wait_for_half(directory: Path) -> None:
    for _ in range(4000):
        if any(size >= HALF for size in files(directory).values()):
            return
        time.sleep(0.01)
    raise AssertionError(files(directory))


@pytest.mark.parametrize(("number", "code"), [(SIGINT, 130), (SIGTERM, 143), (SIGHUP, 129)])
def test_a_signal_while_a_model_is_fetched_keeps_what_is_there(
    spec_cli: SpecCli,
    hub: FakeHub,
    env: dict[str, str],
    tmp_path: Path,
    number: Signals,
    code: int,
) -> None:
    hub.stalls_after = SENT
    process = spec_cli.start("pull", NAME, env=env)
    wait_for_half(tmp_path)
    process.send_signal(number)
    run = finished(process)
    assert (run.exit_code, run.stdout) == (code, b"")
    assert "error" not in run.stderr and "Traceback" not in run.stderr
    ((name, n_bytes),) = files(tmp_path).items()
    assert name.endswith(".incomplete") and n_bytes >= HALF
    hub.stalls_after = None
    again = spec_cli("pull", NAME, env=env)
    assert again.exit_code == 0
    assert Path(again.stdout.decode().strip()).read_bytes() == CONTENT
    assert hub.requests[-1][1] == f"bytes={n_bytes}-"


def test_two_at_once_fetch_it_once(
    spec_cli: SpecCli, hub: FakeHub, env: dict[str, str], tmp_path: Path
) -> None:
    both = [spec_cli.start("pull", NAME, env=env) for _ in range(2)]
    one, other = (finished(process) for process in both)
    assert (one.exit_code, one.stdout) == (0, other.stdout)
    assert Path(one.stdout.decode().strip()).read_bytes() == CONTENT
    assert [path for path, _ in hub.requests].count(
        f"/user/toy-GGUF/resolve/{COMMIT}/toy-q8_0.gguf"
    ) == 1


def test_a_limit_on_file_sizes_is_a_download_error_and_keeps_what_is_there(
    spec_cli: SpecCli, env: dict[str, str], tmp_path: Path
) -> None:
    run = spec_cli("pull", NAME, env=env, shell='ulimit -f 24576; "$@"')
    run.fails(4, "cannot write to the cache", "File too large")
    assert all(name.endswith(".incomplete") for name in files(tmp_path))
    again = spec_cli("pull", NAME, env=env)
    assert Path(again.stdout.decode().strip()).read_bytes() == CONTENT


def test_a_link_in_place_of_the_partial_file_is_not_followed(
    spec_cli: SpecCli, hub: FakeHub, env: dict[str, str], tmp_path: Path
) -> None:
    hub.stalls_after = SENT
    process = spec_cli.start("pull", NAME, env=env)
    wait_for_half(tmp_path)
    process.send_signal(SIGINT)
    finished(process)
    (partial,) = (path for path in tmp_path.rglob("*.incomplete"))
    partial.unlink()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    partial.symlink_to(victim)
    hub.stalls_after = None
    spec_cli("pull", NAME, env=env).fails(4, "cannot write to the cache")
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("debug", ["", "1"])
@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_no_message_holds_a_secret(
    spec_cli: SpecCli, hub: FakeHub, env: dict[str, str], status: int, debug: str
) -> None:
    hub.refusals["user/toy-GGUF"] = (status, "GatedRepo" if status < 404 else "")
    with_password = hub.url.replace("://", "://me:pass-w0rd@")
    run = spec_cli("pull", NAME, env={**env, "HF_ENDPOINT": with_password, "SPEC_CLI_DEBUG": debug})
    assert run.exit_code == 4
    assert "error: " in run.stderr
    assert "secretsecret" not in run.stderr and "pass-w0rd" not in run.stderr
