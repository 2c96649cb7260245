"""What a run did, in four lines on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from rich.style import Style

from spec_cli.events import DraftingOff, Event, Finished, FinishReason
from spec_cli.render.base import Renderer
from spec_cli.render.info import RunInfo
from spec_cli.render.style import (
    DIM,
    ORIGIN_STYLES,
    number,
    percent,
    rendered,
    round_times,
    seconds,
    speedup,
)
from spec_cli.spec.counts import counted
from spec_cli.spec.stats import RunStats

ENDS = {
    FinishReason.STOP: "end of text",
    FinishReason.LENGTH: "length limit",
    FinishReason.INTERRUPTED: "interrupted",
}


class Summary(Renderer):
    """Prints the summary when the run has finished."""

    def __init__(self, stderr: TextIO, info: RunInfo, *, styled: bool, legend: bool) -> None:
        """`styled`: dim, beside the text; `legend`: explain the colours of the text."""
        self._stderr = stderr
        self._info = info
        self._style = DIM if styled else Style()
        self._legend = legend
        self._drafting_off = info.drafting_off

    def handle(self, event: Event) -> None:
        """Remember why drafting ended; print at the end."""
        match event:
            case DraftingOff(reason=reason):
                self._drafting_off = reason
            case Finished():
                lines = summary_lines(self._info, event, self._drafting_off)
                lines = [rendered(line, self._style) for line in lines]
                if self._legend:
                    lines.append(_legend())
                self._stderr.write("".join(f"{line}\n" for line in lines))
                self._stderr.flush()
            case _:
                pass


def summary_lines(info: RunInfo, finished: Finished, drafting_off: str | None) -> list[str]:
    """Speed, drafting (where there was any, or a reason why not), the text and the run."""
    stats = finished.stats
    lines = [f"speed  {_speed(finished)}"]
    if draft := "; ".join(_draft(info, stats, drafting_off)):
        lines.append(f"draft  {draft}")
    return [*lines, f"text   {_text(info, stats)}", f"run    {_run(info, stats)}"]


def _speed(finished: Finished) -> str:
    stats = finished.stats
    rate = [f"{number(stats.tokens_per_s)} tok/s"]
    if stats.n_drafted and stats.speedup:
        rate.append(speedup(stats.speedup))
    took = f"{counted(stats.n_emitted, 'token')} in {seconds(stats.decode_s)}"
    end = ENDS.get(finished.reason, f"stop string {finished.stop!r}")
    return f"{', '.join(rate)}; {took}; {end}"


def _draft(info: RunInfo, stats: RunStats, drafting_off: str | None) -> Iterator[str]:
    if stats.n_drafted:
        counts = f"{stats.n_accepted:,}/{stats.n_drafted:,} accepted"
        rate = f"{counts} ({percent(stats.acceptance_rate)}), k={info.draft_tokens}"
        yield f"{rate}, {number(stats.acceptance_length)} tok/pass, {round_times(stats)}"
    if drafting_off:
        yield f"off: {drafting_off}"


def _text(info: RunInfo, stats: RunStats) -> str:
    """What drafting can have changed, and by which rule."""
    rule = info.accept if info.accept == "greedy" else f"{info.accept}, seed {info.seed}"
    return f"{info.plan.describe(info.near_ties(stats.n_near_ties))}; {rule}"


def _run(info: RunInfo, stats: RunStats) -> str:
    kept = f" ({stats.n_cached:,} kept)" if stats.n_cached else ""
    prompt = f"prompt {counted(info.n_prompt, 'token')}{kept} {seconds(stats.prefill_s)}"
    times = f"first token {seconds(stats.ttft_s)}, load {seconds(info.load_s)}"
    copy = ", Q4_0 draft" if info.draft_copy else ""
    return f"{prompt}, {times}{copy}"


def _legend() -> str:
    names = ", ".join(rendered(origin, style) for origin, style in ORIGIN_STYLES.items())
    return f"{rendered('tokens', DIM)} {names}"
