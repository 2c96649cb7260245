"""`spec-cli run --estimate`: the memory plan of a pair, without loading it."""

from __future__ import annotations

import json
from pathlib import Path

from spec_cli.events import Notice
from spec_cli.fitter import Fitter
from spec_cli.fitting import first_context
from spec_cli.gguf import read_header
from spec_cli.host_memory import host_memory
from spec_cli.pairing import check_pair
from spec_cli.render.memory import plan_lines, plan_object
from spec_cli.render.stdout import Stdout
from spec_cli.settings import SessionSettings
from spec_cli.terminal import Terminal


def print_estimate(
    target: Path,
    draft: Path | None,
    settings: SessionSettings,
    terminal: Terminal,
    *,
    as_json: bool,
) -> None:
    """Write the plan to stdout. Raises ModelError, PairError; ResourceError when it has no room."""
    target_header = read_header(target)
    draft_header = read_header(draft) if draft else None
    if draft_header:
        check_pair(target_header, draft_header)
    fitter = Fitter(settings, host=host_memory, notify=_ignore)
    plan = fitter.plan(target_header, draft_header, first_context(settings, target_header))
    text = json.dumps(plan_object(plan)) if as_json else "\n".join(plan_lines(plan))
    Stdout(terminal.stdout).write(f"{text}\n")
    if error := fitter.shortage(plan, target_header, draft_header):
        raise error


def _ignore(_notice: Notice) -> None:
    """The plan says it itself."""
