"""What a session gets from the process it runs in."""

from __future__ import annotations

import time

from spec_cli.cli.signals import Interrupts
from spec_cli.events import Notice
from spec_cli.loader import Environment
from spec_cli.places import copies_dir, state_dir
from spec_cli.render.status import Status
from spec_cli.state import StateStore


def surroundings(
    interrupts: Interrupts,
    notices: list[Notice],
    status: Status,
    *,
    learns: bool = False,
    state: StateStore | None = None,
) -> Environment:
    """The user's directories, the real clock and signals; notices are gathered in `notices`.

    `learns`: the next run starts with what this one shows about guesses. `state` is given where
    one run has several of these.
    """
    return Environment(
        state=state or state_store(),
        clock=time.perf_counter,
        cancelled=interrupts,
        notify=notices.append,
        progress=status.show,
        copies=copies_dir(),
        learns=learns,
        rehearses=True,
    )


def state_store() -> StateStore:
    """Where measurements are kept."""
    return StateStore(state_dir())
