"""What holds for all tests."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

settings.register_profile("spec-cli", deadline=None)  # machines are busy: no test asserts a time
settings.load_profile("spec-cli")


@pytest.fixture(scope="session", autouse=True)
def _heard_signals() -> None:
    """In the background, or under nohup, tests begin with signals ignored, and so would the
    programs that they start and stop. A handler is not inherited."""
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: lambda *_: None}
    for number, handler in handlers.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
