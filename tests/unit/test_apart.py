"""Work in a process of its own: what it wrote, why it failed, and that it can be stopped."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spec_cli.errors import Cancelled
from spec_cli.llama import apart
from spec_cli.llama.apart import Ended, run_apart


def run(code: str, cancelled: Callable[[], bool] = lambda: False) -> Ended:
    """Run Python code as the one thing that another process does."""
    return run_apart("timeit", "-n1", "-r1", code, cancelled=cancelled)


def test_what_a_process_writes_is_kept() -> None:
    ended = run("print('result')")
    assert (ended.exit_code, ended.errors) == (0, ())
    assert "result" in ended.output


def test_an_error_is_what_a_process_says_last() -> None:
    ended = run("import sys; print('a warning', file=sys.stderr); sys.exit('why')")
    assert (ended.exit_code, ended.reason) == (1, "SystemExit: why")


def test_a_crash_is_what_a_process_says_first_in_whatever_bytes() -> None:
    ended = run("import os; os.write(2, b'\\nassertion \\xff\\na trace\\n'); os.abort()")
    assert ended.exit_code < 0 and ended.reason == "assertion \ufffd"


def test_a_process_that_says_nothing_is_told_by_its_signal() -> None:
    ended = run("import os; os.kill(os.getpid(), 9)")
    assert (ended.exit_code, ended.reason) == (-9, "the process was ended by signal 9")


def test_a_process_is_stopped_when_the_user_stops() -> None:
    with pytest.raises(Cancelled):
        run("import time; time.sleep(600)", cancelled=lambda: True)


def test_a_process_that_the_users_ctrl_c_ends_too_has_not_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(apart, "_POLL_S", 600)  # it has ended before anyone asks
    with pytest.raises(Cancelled):
        run("import os; os.kill(os.getpid(), 2)", cancelled=lambda: True)
