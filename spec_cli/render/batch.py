"""How far a batch is: a line on a terminal while it runs, a summary at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from rich.progress import TextColumn

from spec_cli.batch.tally import Tally
from spec_cli.events import DraftingOff, Event, Notice, PromptProgress, RoundDone
from spec_cli.render.bar import bar, progress_line
from spec_cli.render.inert import inert, one_line
from spec_cli.render.style import number, percent, seconds
from spec_cli.spec.counts import counted
from spec_cli.spec.stats import RoundCount
from spec_cli.terminal import Terminal


class BatchProgress:
    """Shows the counts of `tally`, and each notice once. Used as a context manager around it."""

    def __init__(
        self,
        terminal: Terminal,
        tally: Tally,
        *,
        n_lines: int | None,
        quiet: bool,
        animate: bool,
        clock: Callable[[], float],
    ) -> None:
        """`n_lines` is None where the input has no known end; `clock` gives seconds."""
        self._stderr, self._tally, self._quiet = terminal.stderr, tally, quiet
        self._n_lines, self._clock = n_lines, clock
        self._started: float | None = None
        self._drafting_off: str | None = None
        self.exactness: str | None = None  # of the passes, in words, once that is known
        self._told: set[str] = set()
        count = TextColumn("{task.fields[count]}")
        self._bar = progress_line(terminal, bar(), count, disable=quiet or not animate)
        self._task = self._bar.add_task("waiting for a line", total=n_lines, count="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def doing(self, what: str, fraction: float | None) -> None:
        """Show what is being done before a line can be answered."""
        done = "" if fraction is None else f" {fraction:4.0%}"
        self._bar.update(self._task, description=f"{one_line(what)}{done}")

    def handle(self, event: Event) -> None:
        """Count what happens while a line is answered."""
        match event:
            case PromptProgress():
                self.show()
            case RoundDone():
                self.count(event)
            case DraftingOff(reason=reason):
                self._drafting_off = reason
            case Notice():
                self.tell([event])
            case _:
                pass

    def count(self, done: RoundDone | RoundCount) -> None:
        """Count a round of one line."""
        self._tally.add_round(done)
        self.show()

    def show(self) -> None:
        """Show the counts as they are now; the first call starts the clock."""
        if self._started is None:
            self._started = self._clock()
        total = "" if self._n_lines is None else f"/{self._n_lines:,}"
        self._bar.update(
            self._task,
            description=", ".join(_figures(self._tally, self._elapsed_s)),
            completed=self._tally.n_done,
            count=f"{self._tally.n_done:,}{total}",
        )

    def tell(self, notices: Iterable[Notice]) -> None:
        """Print those that say something new; numbers in them do not make them new."""
        for notice in notices:
            is_warning = notice.level == "warning"
            what = "".join(c for c in notice.message if c not in "0123456789,")
            if what in self._told or (self._quiet and not is_warning):
                continue
            self._told.add(what)
            self._print(f"{'warning' if is_warning else 'note'}: {notice.message}")
            if notice.hint:
                self._print(f"hint: {notice.hint}")

    def summarise(self) -> None:
        """Print what was done."""
        if self._quiet:
            return
        tally = self._tally
        counts = [f"{tally.n_answered:,} answered"]
        counts += [f"{tally.n_found:,} found in the output"] if tally.n_found else []
        counts += [f"{tally.n_failed:,} failed"] if tally.n_failed else []
        lines = [f"lines  {', '.join(counts)}"]
        if tally.n_tokens:
            took = f"{counted(tally.n_tokens, 'token')} in {seconds(self._elapsed_s)}"
            rate = f"{number(tally.n_tokens / self._elapsed_s)} tok/s"
            lines.append(f"speed  {rate}; {took}, prompts included")
        if tally.n_drafted:
            accepted = f"{tally.n_accepted:,}/{tally.n_drafted:,} accepted"
            rate = f"{accepted} ({percent(tally.acceptance_rate)})"
            lines.append(f"draft  {rate}, {number(tally.acceptance_length)} tok/pass")
        elif self._drafting_off:
            lines.append(f"draft  off: {self._drafting_off}")
        if self.exactness:
            lines.append(f"text   {self.exactness}")
        self._stderr.write("".join(f"{line}\n" for line in lines))
        self._stderr.flush()

    @property
    def _elapsed_s(self) -> float:
        return 0.0 if self._started is None else self._clock() - self._started

    def _print(self, line: str) -> None:
        self._bar.console.print(
            inert(line), markup=False, emoji=False, highlight=False, soft_wrap=True
        )


def _figures(tally: Tally, elapsed_s: float) -> Iterable[str]:
    yield "answering"
    if tally.n_tokens and elapsed_s:
        yield f"{number(tally.n_tokens / elapsed_s)} tok/s"
    if tally.n_drafted:
        yield f"{percent(tally.acceptance_rate)} accepted"
    if tally.n_failed:
        yield f"{tally.n_failed:,} failed"
