"""Signals while a run is on: remembered, given back afterwards, and ignored where they were."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from spec_cli.cli.signals import Interrupts, Terminated, raise_on_termination

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = [signal.getsignal(number) for number in NUMBERS]
    yield
    for number, handler in zip(NUMBERS, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_is_remembered_and_its_old_handler_comes_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Interrupts() as interrupts:
        assert not interrupts()
        signal.raise_signal(number)
        assert interrupts()
    assert interrupts.exit_code == 128 + number
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_that_the_caller_ignores_stays_ignored(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise_on_termination()
    with Interrupts() as interrupts:
        signal.raise_signal(number)
        assert not interrupts()
    assert signal.getsignal(number) is signal.SIG_IGN


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_termination_outside_of_a_run_unwinds_the_stack(number: signal.Signals) -> None:
    raise_on_termination()
    with pytest.raises(Terminated) as caught:
        signal.raise_signal(number)
    assert caught.value.signal == number


@pytest.mark.parametrize("stderr", [subprocess.DEVNULL, None], ids=["open", "closed"])
@pytest.mark.parametrize("number", NUMBERS)
def test_a_second_signal_ends_a_process_that_does_not_hear_the_first(
    number: signal.Signals, stderr: int | None
) -> None:
    code = (
        "import signal\nfrom spec_cli.cli.signals import Interrupts\nwith Interrupts():\n"
        f"  signal.raise_signal({int(number)})\n  signal.raise_signal({int(number)})\n"
    )
    command = [sys.executable, "-c", code]
    if stderr is None:
        command = ["/bin/sh", "-c", '"$@" 2>&-', "sh", *command]
    assert subprocess.run(command, stderr=stderr, check=False).returncode == 128 + number


def test_the_signal_that_ends_the_process_lets_it_leave_things_in_order() -> None:
    code = (
        "import os, signal\nfrom spec_cli.cli.signals import Interrupts\n"
        "with Interrupts(last=2, leaving=lambda: os.write(1, b'left')):\n"
        "  signal.raise_signal(2)\n  os.write(1, b'stays ')\n  signal.raise_signal(2)\n"
    )
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, check=False)
    assert (ended.returncode, ended.stdout) == (130, b"stays left")
