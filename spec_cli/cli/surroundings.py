"""What a session gets from the process it runs in."""

from __future__ import annotations

import time

from platformdirs import user_cache_path, user_state_path

from spec_cli.cli.signals import Interrupts
from spec_cli.events import Notice
from spec_cli.loader import Environment
from spec_cli.render.status import Status
from spec_cli.state import StateStore


def surroundings(interrupts: Interrupts, notices: list[Notice], status: Status) -> Environment:
    """The user's directories, the real clock and signals; notices are gathered in `notices`."""
    return Environment(
        state=StateStore(user_state_path("spec-cli", appauthor=False)),
        clock=time.perf_counter,
        cancelled=interrupts,
        notify=notices.append,
        progress=status.show,
        copies=user_cache_path("spec-cli", appauthor=False) / "drafts",
        rehearses=True,
    )
