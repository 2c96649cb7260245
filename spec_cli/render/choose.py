"""Which renderers a run gets: decided by the streams and by what the user asked for."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.style import Style

from spec_cli.render.base import Renderer, Tee
from spec_cli.render.flow import TextFlow
from spec_cli.render.info import RunInfo
from spec_cli.render.json import JsonLines, JsonObject
from spec_cli.render.live import LiveRenderer
from spec_cli.render.notices import Notices
from spec_cli.render.options import RenderOptions
from spec_cli.render.reasoning import ReasoningText
from spec_cli.render.stdout import Stdout
from spec_cli.render.style import ORIGIN_STYLES
from spec_cli.render.summary import Summary
from spec_cli.render.text import PipeText, TerminalText
from spec_cli.render.turn import TurnLine
from spec_cli.terminal import Terminal


def choose_renderers(
    terminal: Terminal,
    options: RenderOptions,
    info: RunInfo,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Renderer:
    """Text or JSON on stdout; on stderr a panel where there can be one, notices, a summary."""
    reasoning = _reasoning(terminal, options)
    output = _output(terminal, options, info, reasoning)
    text = output if isinstance(output, TerminalText) and terminal.stdout_is_tty else None
    notices = Notices(
        terminal.stderr,
        quiet=options.quiet,
        beside_text=text is not None and terminal.stderr_is_tty,
        beside_reasoning=reasoning is not None,
    )
    renderers: list[Renderer] = [*([reasoning] if reasoning else []), output, notices]
    if _can_animate(terminal, options):
        alone = TerminalText(Stdout(terminal.stderr), reasoning=reasoning) if reasoning else None
        flowing = text or alone
        live = LiveRenderer(
            terminal.stderr,
            info,
            notices,
            flow=TextFlow(flowing, terminal.stderr_size().columns) if flowing else None,
            previews=text is None,
            shows_reasoning=reasoning is not None,
            color=terminal.color,
            clock=clock,
            size=terminal.stderr_size,
        )
        # The panel is gone before JSON is written to the same terminal.
        renderers = [live] if text else [live, output]
    if not options.quiet:
        renderers.append(_summary(terminal, options, info, output))
    return Tee(renderers)


def _summary(
    terminal: Terminal, options: RenderOptions, info: RunInfo, output: Renderer
) -> Renderer:
    """What remains of the figures, with a legend where `output` is coloured by origin."""
    styled = terminal.stderr_color
    if options.brief:
        size = terminal.stderr_size if terminal.stderr_is_tty else None
        return TurnLine(terminal.stderr, info, styled=styled, size=size)
    legend = styled and isinstance(output, TerminalText) and output.styled
    return Summary(terminal.stderr, info, styled=styled, legend=legend)


def _reasoning(terminal: Terminal, options: RenderOptions) -> ReasoningText | None:
    """Where reasoning is shown, if it is: in JSON it stands beside the text."""
    if options.hide_reasoning or options.json or options.jsonl:
        return None
    return ReasoningText(terminal.stderr, Style(dim=True) if terminal.stderr_color else Style())


def _output(
    terminal: Terminal, options: RenderOptions, info: RunInfo, reasoning: ReasoningText | None
) -> Renderer:
    stdout = Stdout(terminal.stdout)
    if options.json:
        return JsonObject(stdout, info)
    if options.jsonl:
        return JsonLines(stdout, info)
    styles = ORIGIN_STYLES if options.show_origin and terminal.stdout_color else None
    if terminal.stdout_is_tty or styles:
        return TerminalText(stdout, styles, reasoning=reasoning)
    return PipeText(stdout)


def _can_animate(terminal: Terminal, options: RenderOptions) -> bool:
    lines_of_json = options.jsonl and terminal.stdout_is_tty  # they would run into the panel
    return terminal.animate and not (options.quiet or options.no_tui or lines_of_json)
