"""`spec-cli run --estimate`: the memory plan of a pair, before it is fetched or loaded."""

from __future__ import annotations

import json

from spec_cli.events import Notice
from spec_cli.fitter import Fitter
from spec_cli.fitting import first_context
from spec_cli.headers import find_headers
from spec_cli.host_memory import host_memory
from spec_cli.modelref import Pair
from spec_cli.pairing import check_pair
from spec_cli.render.inert import one_line
from spec_cli.render.memory import plan_lines, plan_object
from spec_cli.render.stdout import Stdout
from spec_cli.settings import SessionSettings
from spec_cli.terminal import Terminal


def print_estimate(
    pair: Pair,
    settings: SessionSettings,
    terminal: Terminal,
    *,
    offline: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write the plan to stdout, from the headers alone: of what is not here no more is fetched.

    Raises ModelError, PairError, DownloadError; ResourceError when the pair has no room.
    """

    def say(message: str) -> None:
        if not quiet:
            terminal.stderr.write(f"{one_line(message)}\n")

    (target, *drafts), _ = find_headers(pair.models, offline=offline, on_remote=say)
    draft = drafts[0] if drafts else None
    if draft:
        check_pair(target, draft)
    fitter = Fitter(settings, host=host_memory, notify=_ignore)
    plan = fitter.plan(target, draft, first_context(settings, target))
    text = json.dumps(plan_object(plan)) if as_json else "\n".join(plan_lines(plan))
    Stdout(terminal.stdout).write(f"{text}\n")
    if error := fitter.shortage(plan, target, draft):
        raise error


def _ignore(_notice: Notice) -> None:
    """The plan says it itself."""
