"""SIGINT and SIGTERM in every phase of a run."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM

import pytest

from tests.cli.conftest import GREEDY, Done, SpecCli, wait_until
from tests.cli.tiny_models import Models

SOON_S = 20  # on a busy machine; without the signal, each of these runs would take minutes
each_signal = pytest.mark.parametrize(
    ("number", "exit_code"), [(SIGINT, 130), (SIGTERM, 143), (SIGHUP, 129)]
)
ENDLESS = (*GREEDY, "-c", "60000", "-k", "2")


@pytest.fixture(scope="module")
def long_prompt(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The options for a prompt that takes very long to evaluate."""
    path = tmp_path_factory.mktemp("prompt") / "long.txt"
    path.write_text("the quick brown fox jumps over the lazy dog. " * 1200)
    return "run", "-f", str(path), "-c", "60000", "-n", "2"


def read(process: subprocess.Popen[bytes], n_bytes: int) -> bytes:
    """The next bytes of stdout, past its buffer, of which `communicate` would know nothing."""
    assert process.stdout is not None
    data = b""
    while len(data) < n_bytes:
        more = os.read(process.stdout.fileno(), n_bytes - len(data))
        assert more, "it has ended"
        data += more
    return data


def read_line(process: subprocess.Popen[bytes]) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        line += read(process, 1)
    return line


def ended(process: subprocess.Popen[bytes]) -> Done:
    """What the process leaves behind, after what was read of it; it has to end soon."""
    try:
        stdout, stderr = process.communicate(timeout=SOON_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return Done(process.returncode, stdout, stderr.decode())


@each_signal
def test_a_signal_while_text_comes_keeps_the_text_and_sums_up(
    spec_cli: SpecCli, models: Models, plain: Done, number: signal.Signals, exit_code: int
) -> None:
    process = spec_cli.start(*ENDLESS, *models.pair)
    begin = read(process, 20)
    process.send_signal(number)
    run = ended(process)
    assert run.exit_code == exit_code
    assert begin.decode() == plain.json["text"][:20]
    assert run.stdout.endswith(b"\n")
    assert "; interrupted\n" in run.stderr
    assert "error" not in run.stderr and "Traceback" not in run.stderr


def test_a_signal_while_text_comes_leaves_whole_json(spec_cli: SpecCli, models: Models) -> None:
    process = spec_cli.start(*ENDLESS, *models.pair, "--jsonl")
    lines = [read_line(process) for _ in range(9)]
    process.send_signal(SIGINT)
    run = ended(process)
    events = [json.loads(line) for line in [*lines, *run.stdout.splitlines()]]
    assert run.exit_code == 130
    assert events[0]["event"] == "start"
    assert events[-1]["event"] == "end"
    assert events[-1]["finish_reason"] == "interrupted"
    tokens = [token for event in events if event["event"] == "text" for token in event["tokens"]]
    assert tokens == events[-1]["tokens"]


@each_signal
def test_a_signal_while_the_prompt_is_read_in_ends_the_run(
    spec_cli: SpecCli,
    models: Models,
    long_prompt: tuple[str, ...],
    number: signal.Signals,
    exit_code: int,
) -> None:
    process = spec_cli.start(*long_prompt, "-m", models.target, "--jsonl")
    assert b'"start"' in read_line(process)
    process.send_signal(number)
    run = ended(process)
    assert run.exit_code == exit_code
    assert (run.events[-1]["finish_reason"], run.events[-1]["tokens"]) == ("interrupted", [])
    assert run.events[-1]["ttft_ms"] is None


def test_a_second_signal_ends_the_run_at_once_and_leaves_no_file(
    spec_cli: SpecCli, models: Models, long_prompt: tuple[str, ...], tmp_path: Path
) -> None:
    files = ("-o", tmp_path / "answer", "--prompt-cache", tmp_path / "cache")
    process = spec_cli.start(*long_prompt, "-m", models.target, "--jsonl", *files)
    wait_until(lambda: any(part.stat().st_size for part in tmp_path.glob(".answer.*")), process)
    process.send_signal(SIGINT)
    process.send_signal(SIGTERM)
    assert ended(process).exit_code in (130, 143)
    assert list(tmp_path.iterdir()) == []


def test_a_signal_while_a_recurrent_model_reads_the_prompt_in_ends_the_run(
    spec_cli: SpecCli, models: Models, tmp_path: Path
) -> None:
    path = tmp_path / "long.txt"
    path.write_text("the quick brown fox jumps over the lazy dog. " * 20_000)
    args = ("run", "-f", path, "-c", "1000000", "-n", "2")
    process = spec_cli.start(*args, "-m", models.mamba, "--jsonl")
    assert b'"start"' in read_line(process)
    time.sleep(0.5)  # some of the prompt is in the memory
    process.send_signal(SIGINT)
    run = ended(process)
    assert run.exit_code == 130
    assert run.events[-1]["finish_reason"] == "interrupted"


def open_when_read(fifo: Path, process: subprocess.Popen[bytes]) -> int:
    """Open `fifo` for writing as soon as `process` has it open for reading."""
    writers: list[int] = []

    def is_open() -> bool:
        with suppress(OSError):
            writers.append(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        return bool(writers)

    wait_until(is_open, process)
    return writers[0]


@each_signal
def test_a_signal_while_input_is_awaited_ends_the_run_without_a_word(
    spec_cli: SpecCli, tmp_path: Path, number: signal.Signals, exit_code: int
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process = spec_cli.start("run", "-f", fifo)
    writer = open_when_read(fifo, process)
    # Between opening and reading Python would not hear a signal before the read has ended.
    os.write(writer, b"x")
    wait_until(lambda: not n_unread(writer), process)
    process.send_signal(number)
    assert ended(process) == Done(exit_code, b"", "")
    os.close(writer)


def n_unread(pipe: int) -> int:
    """How many bytes are in a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def wait_for_import(process: subprocess.Popen[bytes], module: bytes) -> None:
    """Wait until a process with PYTHONPROFILEIMPORTTIME has imported `module`."""
    assert process.stderr is not None
    assert any(line.rstrip().endswith(b" " + module) for line in process.stderr)


def test_a_signal_while_the_program_starts_ends_it_without_a_traceback(spec_cli: SpecCli) -> None:
    process = spec_cli.start("run", "hi", env={"PYTHONPROFILEIMPORTTIME": "1"})
    wait_for_import(process, b"typer")
    process.send_signal(SIGINT)
    run = ended(process)
    assert run.exit_code in (130, -SIGINT)
    assert "Traceback" not in run.stderr


def test_a_signal_while_a_template_takes_forever_ends_the_run(
    spec_cli: SpecCli, models: Models, tmp_path: Path
) -> None:
    forever = tmp_path / "forever.jinja"
    forever.write_text("{{ 10 ** (10 ** 9) }}")
    process = spec_cli.start("run", "hi", "-m", models.target, "--chat-template", forever)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_until(children.read_text, process)
    process.send_signal(SIGINT)
    assert ended(process) == Done(130, b"", "")


def test_a_signal_while_a_long_text_is_tokenised_ends_the_run(
    spec_cli: SpecCli, models: Models, tmp_path: Path
) -> None:
    path = tmp_path / "long.txt"
    path.write_text("a" * (2 << 20))
    # A text is tokenised in a thread, the only one besides the first.
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    args = ("run", "--raw", "-f", path, "-m", models.slow_to_read, "-t", "1")
    process = spec_cli.start(*args, env=one)
    threads = Path(f"/proc/{process.pid}/task")
    wait_until(lambda: len(list(threads.iterdir())) > 1, process)
    process.send_signal(SIGINT)
    assert ended(process) == Done(130, b"", "")


def test_signals_in_quick_succession_end_a_run_like_one(spec_cli: SpecCli, models: Models) -> None:
    process = spec_cli.start(*ENDLESS, *models.pair)
    read(process, 1)
    for number in (SIGINT, SIGTERM, SIGINT):
        process.send_signal(number)
    run = ended(process)
    # The interpreter gives signals their own way back before it ends.
    assert run.exit_code in (130, 143, -SIGINT, -SIGTERM)
    assert "Traceback" not in run.stderr


def test_a_terminal_that_hangs_up_ends_the_run_that_writes_to_it(
    spec_cli: SpecCli, models: Models
) -> None:
    pid, master = pty.fork()
    if pid == 0:
        words = [*spec_cli.program, *ENDLESS, *models.pair]
        os.execvpe(words[0], words, spec_cli.environ({"TERM": "xterm"}))
    seen = b""
    while len(seen) < 2000:
        seen += os.read(master, 1000)
    os.close(master)
    for _ in range(100 * SOON_S):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            break
        time.sleep(0.01)
    else:
        os.kill(pid, signal.SIGKILL)
        raise AssertionError(os.waitpid(pid, 0))
    assert os.waitstatus_to_exitcode(status) == 129
