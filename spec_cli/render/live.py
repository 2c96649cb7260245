"""The live panel on a terminal's standard error, below the text where that is the same terminal."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TextIO

from rich.console import Console

from spec_cli.events import (
    DraftingOff,
    Event,
    Finished,
    Notice,
    Origin,
    PromptProgress,
    PromptText,
    ReasoningDelta,
    RoundDone,
    TextDelta,
)
from spec_cli.render.base import Renderer
from spec_cli.render.flow import TextFlow
from spec_cli.render.footer import Footer
from spec_cli.render.info import RunInfo
from spec_cli.render.notices import Notices
from spec_cli.render.panel import PanelState, glyphs_for, panel_rows
from spec_cli.render.reasoning import PARTING
from spec_cli.spec.stats import RoundCount, RunStats

_REPAINTS_PER_S = 7.0
_BURST = 3.0  # at most 10 in any second; the lines of a slow round need not wait for the next one
_MIN_COLUMNS = 12
_MAX_WIDTH = 64  # rows a terminal need not wrap when it is made narrower
_SHARE = 3  # one row of so many is the panel's, at most
_PREVIEW_CHARS = 400


class RepaintBudget:
    """Allows `_REPAINTS_PER_S` repaints a second, and `_BURST` at once after a rest."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._credit = _BURST
        self._at = clock()

    def spend(self) -> bool:
        """Whether a repaint is allowed now; if so, it counts."""
        now = self._clock()
        self._credit = min(_BURST, self._credit + (now - self._at) * _REPAINTS_PER_S)
        self._at = now
        if self._credit < 1:
            return False
        self._credit -= 1
        return True


class LiveRenderer(Renderer):
    """Shows the panel until the run has finished; nothing of it remains.

    Text is written at once where it stays on its row, else with the next repaint.
    """

    def __init__(
        self,
        stderr: TextIO,
        info: RunInfo,
        notices: Notices,
        *,
        flow: TextFlow | None,
        previews: bool,
        shows_reasoning: bool,
        color: bool,
        clock: Callable[[], float],
        size: Callable[[], os.terminal_size],
    ) -> None:
        """`flow` writes to this terminal: reasoning if it `shows_reasoning`, and the text, unless
        that goes elsewhere and is only previewed here. None: nothing is written here."""
        self._info = info
        self._flow = flow
        self._previews = previews
        self._shows_reasoning = shows_reasoning
        self._parting = ""  # due before the text
        self._preview = ""
        self._notices = notices
        self._size = size
        self._budget = RepaintBudget(clock)
        self._footer = Footer(stderr)
        self._glyphs = glyphs_for(stderr.encoding)
        self._console = Console(
            file=stderr,
            force_terminal=True,
            color_system="standard" if color else None,
            no_color=False,  # `color` knows more than the environment
        )
        self._stats = RunStats()
        self._progress: PromptProgress | None = None
        self._drafting_off = info.drafting_off
        self._stale = False  # the panel shows older figures than we have
        self._closed = False

    def handle(self, event: Event) -> None:
        """Take the event in; repaint when it is something to see and the budget allows."""
        match event:
            case RoundDone():
                self._count(event)
            case DraftingOff(reason=reason):
                self._drafting_off = reason
            case PromptProgress():
                self._progress = event
                self._stale = True
                self._repaint_if_due()
            case PromptText(text=text):
                self._notices.handle(event)
                if not self._previews:
                    self._add_text(TextDelta(text, (), Origin.GIVEN))
            case ReasoningDelta(text=text):
                self._notices.handle(event)
                self._add_reasoning(text)
            case TextDelta():
                self._notices.handle(event)
                self._add_text(event)
            case Notice():
                if not (self._flow and self._flow.is_at_margin):
                    self._footer.lift()
                self._notices.handle(event)
                self._repaint()
            case Finished():
                self._close()
                self._notices.handle(event)

    def __exit__(self, *exc: object) -> None:
        self._close()
        self._notices.__exit__(*exc)

    def _count(self, done: RoundDone) -> None:
        count = RoundCount(done.n_drafted, done.n_accepted, done.n_emitted)
        self._stats.add_round(
            count, draft_s=done.draft_s, verify_s=done.verify_s, host_s=done.host_s
        )
        self._stats.plain_step_estimate_s = done.plain_step_s
        self._stale = True

    def _add_text(self, delta: TextDelta) -> None:
        if delta.text and self._parting:
            self._flow_on(self._parting, None)
            self._parting = ""
        if self._previews:
            self._preview = (self._preview + delta.text)[-_PREVIEW_CHARS:]
            self._stale = True
        elif delta.text:
            self._flow_on(delta.text, delta.origin)
        self._repaint_if_due()

    def _add_reasoning(self, text: str) -> None:
        if self._shows_reasoning and text:
            self._flow_on(text, None)
            self._parting = PARTING
        self._repaint_if_due()

    def _flow_on(self, text: str, origin: Origin | None) -> None:
        assert self._flow is not None
        self._flow.resize(self._size().columns)
        self._flow.add(text, origin)

    def _repaint_if_due(self) -> None:
        text_waits = self._flow is not None and self._flow.waits
        if (self._stale or text_waits) and self._budget.spend():
            self._repaint()

    def _repaint(self) -> None:
        size = self._size()
        if self._flow:
            self._flow.resize(size.columns)
            self._flow.leave_margin()
            if self._flow.is_at_margin:
                return
            if self._flow.waits:
                self._footer.lift()
                self._flow.release()
        self._footer.draw(self._rows(size))
        self._stale = False

    def _rows(self, size: os.terminal_size) -> list[str]:
        """The panel, leaving two thirds of the rows and the last column to the text."""
        if size.columns < _MIN_COLUMNS:
            return []
        state = PanelState(self._stats, self._progress, self._drafting_off, self._preview)
        width = min(size.columns - 1, _MAX_WIDTH)
        rows = panel_rows(state, self._info, width, self._glyphs)
        with self._console.capture() as capture:
            for row in rows[: size.lines // _SHARE]:
                self._console.print(row, soft_wrap=True)
        return capture.get().splitlines()

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._flow:
                self._flow.resize(self._size().columns)
                self._flow.leave_margin()
                if self._flow.is_at_margin:
                    self._flow.finish()  # to the next line
            self._footer.close()
            if self._flow:
                self._flow.finish()
