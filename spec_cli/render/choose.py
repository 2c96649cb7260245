"""Which renderers a run gets: decided by the streams and by what the user asked for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TextIO

from spec_cli.render.base import Renderer, Tee
from spec_cli.render.flow import TextFlow
from spec_cli.render.info import RunInfo
from spec_cli.render.json import JsonLines, JsonObject
from spec_cli.render.live import LiveRenderer
from spec_cli.render.notices import Notices
from spec_cli.render.stdout import Stdout
from spec_cli.render.style import ORIGIN_STYLES
from spec_cli.render.summary import Summary
from spec_cli.render.text import PipeText, TerminalText
from spec_cli.terminal import Terminal


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """What the user asked for. `json` wins over `jsonl`."""

    quiet: bool = False
    json: bool = False
    jsonl: bool = False
    show_origin: bool = False
    no_tui: bool = False


def choose_renderers(
    terminal: Terminal,
    options: RenderOptions,
    info: RunInfo,
    *,
    plain_step_estimate_s: float | None,
    clock: Callable[[], float] = time.monotonic,
) -> Renderer:
    """Text or JSON on stdout; on stderr a panel where there can be one, notices, a summary.

    `plain_step_estimate_s` is the cost table's time of one plain step, when there is a table.
    """
    output = _output(terminal, options, info)
    text = output if isinstance(output, TerminalText) and terminal.stdout_is_tty else None
    notices = Notices(
        terminal.stderr,
        quiet=options.quiet,
        beside_text=text is not None and terminal.stderr_is_tty,
    )
    renderers: list[Renderer] = [output, notices]
    if _can_animate(terminal, options):
        size = partial(_size, terminal.stderr)
        live = LiveRenderer(
            terminal.stderr,
            info,
            notices,
            flow=TextFlow(text, size().columns) if text else None,
            color=terminal.color,
            plain_step_estimate_s=plain_step_estimate_s,
            clock=clock,
            size=size,
        )
        # The panel is gone before JSON is written to the same terminal.
        renderers = [live] if text else [live, output]
    if not options.quiet:
        styled = terminal.stderr_color
        legend = styled and isinstance(output, TerminalText) and output.styled
        renderers.append(Summary(terminal.stderr, info, styled=styled, legend=legend))
    return Tee(renderers)


def _output(terminal: Terminal, options: RenderOptions, info: RunInfo) -> Renderer:
    stdout = Stdout(terminal.stdout)
    if options.json:
        return JsonObject(stdout, info)
    if options.jsonl:
        return JsonLines(stdout, info)
    styles = ORIGIN_STYLES if options.show_origin and terminal.stdout_color else None
    if terminal.stdout_is_tty or styles:
        return TerminalText(stdout, styles)
    return PipeText(stdout)


def _can_animate(terminal: Terminal, options: RenderOptions) -> bool:
    lines_of_json = options.jsonl and terminal.stdout_is_tty  # they would run into the panel
    return terminal.animate and not (options.quiet or options.no_tui or lines_of_json)


def _size(stderr: TextIO) -> os.terminal_size:
    """The terminal's size; a terminal that does not know it (0 x 0) counts as 80 x 24."""
    columns, lines = os.get_terminal_size(stderr.fileno())
    return os.terminal_size((columns or 80, lines or 24))
