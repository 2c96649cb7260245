"""A measurement as lines and tables, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spec_cli.bench.compare import Change, Earlier, changes, differences
from spec_cli.bench.figures import Figures
from spec_cli.bench.machine import Machine
from spec_cli.bench.matrix import PLAIN, Arm
from spec_cli.bench.ratios import Score
from spec_cli.bench.report import Report
from spec_cli.bench.rows import Row
from spec_cli.bench.runner import MAX_NOISE
from spec_cli.bench.statistics import MIN_RATIOS
from spec_cli.bench.verdict import interval
from spec_cli.render.blocks import Block, Command, Grid
from spec_cli.render.inert import one_line
from spec_cli.render.info import RunInfo
from spec_cli.render.style import UNKNOWN, number, percent, seconds
from spec_cli.spec.counts import counted

_ID_CHARS = 18  # of a prompt's id
_POSITIONS = 8  # of a draft that are shown


@dataclass(frozen=True, slots=True)
class BenchInfo:
    """What a report tells besides the measurement: `command` is the one to paste."""

    run: RunInfo
    machine: Machine
    setup: Row
    earlier: Earlier | None
    command: str


def bench_blocks(report: Report, info: BenchInfo) -> Iterator[Block]:
    """The report from top to bottom."""
    yield from _facts(report, info)
    for temp in report.matrix.temps:
        if report.figures(PLAIN, temp):
            yield ""
            yield from _at(report, temp)
    if info.earlier is not None:
        yield from _changes(report, info.earlier, info.setup)
    yield ""
    yield from _trust(report)
    yield ""
    yield one_line(report.verdict.sentence)
    if report.runs:
        yield Command(f"  {info.command}")


def _facts(report: Report, info: BenchInfo) -> Iterator[str]:
    run, matrix = info.run, report.matrix
    yield f"target   {one_line(run.target.file)}"
    yield f"draft    {one_line(run.draft.file) if run.draft else 'none'}"
    yield f"exact    {report.plan.describe()}"
    yield f"machine  {one_line(info.machine.cpu)}, {counted(run.n_threads, 'thread')}"
    prompts = f"{counted(len(matrix.prompts), 'prompt')} of {counted(len(report.kinds), 'kind')}"
    temps = ", ".join(f"{temp:g}" for temp in matrix.temps)
    length = f"up to {counted(matrix.max_tokens, 'token')}"
    yield f"texts    {prompts}; temp {temps}; {length}; seed {matrix.seed}"
    yield f"runs     {counted(matrix.n_rounds, 'round')}; {len(report.runs):,} runs are finished"


def _at(report: Report, temp: float) -> Iterator[Block]:
    """The tables of one temperature."""
    arms = [arm for arm in report.matrix.arms_at(temp) if report.figures(arm, temp)]
    plain = report.figures(PLAIN, temp)
    assert plain is not None
    yield (
        f"temp {temp:g}, plain decoding: first token after {seconds(plain.ttft_s)}, "
        f"prompt {number(plain.prompt_tokens_per_s)} tokens/s"
    )
    yield [["", "tokens/s", "speed-up", "95 % interval", "worst prompt"]] + [
        _speed_row(report, arm, temp) for arm in (PLAIN, *arms)
    ]
    figures = [(arm, f) for arm in arms if (f := report.figures(arm, temp))]
    yield ""
    yield _drafting(figures)
    if any(f.oracle_stop is not None for _, f in figures):
        yield "oracle: with perfect stopping; free: with free guesses, too; by the cost table"
    if any(f.n_drafted for _, f in figures):
        yield ""
        yield _by_position(figures)
    if len(report.kinds) > 1:
        yield ""
        yield _by_kind(report, arms, temp)
        yield f"( ): the interval includes 1.00, or there are fewer than {MIN_RATIOS} prompts"


def _speed_row(report: Report, arm: Arm, temp: float) -> list[str]:
    figures, score = report.figures(arm, temp), report.score(arm, temp)
    assert figures is not None and score is not None
    rate = number(figures.tokens_per_s)
    if arm.is_plain:
        return [arm.name, rate, "", "", ""]
    worst = f"{score.worst:.2f}x {one_line(score.worst_prompt)[:_ID_CHARS]}"
    return [arm.name, rate, f"{score.speedup.mean:.2f}x", interval(score.speedup), worst]


def _drafting(arms: Sequence[tuple[Arm, Figures]]) -> Grid:
    """What was drafted, where the time went, and the limits where they are known."""
    header = ["drafting", "accepted", "length", "draft", "verify", "host"]
    rows = [
        [
            arm.name,
            percent(f.acceptance_rate),
            f"{f.acceptance_length:.2f}",
            *(percent(share) for share in (f.draft_share, f.verify_share, f.host_share)),
        ]
        for arm, f in arms
    ]
    if any(f.oracle_stop is not None for _, f in arms):
        header += ["oracle", "free"]
        for row, (_, f) in zip(rows, arms, strict=True):
            row += [_ratio(f.oracle_stop), _ratio(f.free_draft)]
    return [header, *rows]


def _by_position(arms: Sequence[tuple[Arm, Figures]]) -> Grid:
    """The acceptance of the first draft token, the second and so on, in per cent."""
    n = min(_POSITIONS, max(len(f.acceptance_at) for _, f in arms))
    rows = [
        [arm.name, *(percent(rate) for rate in f.acceptance_at[:n])]
        for arm, f in arms
        if f.acceptance_at
    ]
    return [
        ["accepted at", *(str(i + 1) for i in range(n))],
        *([*row, *[""] * (n + 1 - len(row))] for row in rows),
    ]


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}x"


def _by_kind(report: Report, arms: Sequence[Arm], temp: float) -> Grid:
    header = ["speed-up", *(one_line(kind)[:_ID_CHARS] for kind in report.kinds)]
    return [header] + [
        [arm.name, *(_of_kind(report.score(arm, temp, kind)) for kind in report.kinds)]
        for arm in arms
    ]


def _of_kind(score: Score | None) -> str:
    if score is None:
        return ""
    mean = f"{score.speedup.mean:.2f}"
    return mean if score.speedup.side else f"({mean})"


def _changes(report: Report, earlier: Earlier, setup: Row) -> Iterator[Block]:
    yield ""
    found = list(changes(earlier, report.kept, report.matrix))
    yield [["then and now", "temp", "kind", "then", "now", "change", "95 % interval"]] + [
        _change_row(change) for change in found
    ]
    for name, then, now in differences(earlier.setup, setup):
        yield f"{name}: then {_value(then)}, now {_value(now)}"


def _change_row(change: Change) -> list[str]:
    kind = "all" if change.kind is None else one_line(change.kind)
    return [
        change.arm.name,
        f"{change.temp:g}",
        kind,
        f"{change.then:.2f}x",
        f"{change.now:.2f}x",
        _gained(change.change.mean),
        interval(change.change, _gained),
    ]


def _gained(ratio: float) -> str:
    """`+12 %`, `-3 %`."""
    return f"{100 * (ratio - 1):+.0f} %"


def _value(value: object) -> str:
    return UNKNOWN if value is None else one_line(str(value))


def _trust(report: Report) -> Iterator[str]:
    """What tells how far the figures can be trusted."""
    n = report.n_groups
    if report.interrupted:
        yield f"interrupted: {n:,} of {len(report.matrix.groups()):,} groups of runs were finished"
    if n:
        yield _noise(report)
        yield _texts(report)


def _noise(report: Report) -> str:
    loads = [run.load for run in report.runs if run.load is not None]
    load = f"; load average {min(loads):.1f} to {max(loads):.1f}" if loads else ""
    limit, n, n_repeated = percent(MAX_NOISE), report.n_ever_noisy, report.n_repeated
    if not n:
        return f"noise: none, plain decoding stayed within {limit}{load}"
    again = "measured again" if n_repeated == n else f"{n_repeated:,} of them measured again"
    return (
        f"noise: plain decoding was off by more than {limit} in {n:,} of "
        f"{counted(report.n_groups, 'group')}, {again}; {report.n_noisy:,} still noisy, "
        f"and counted{load}"
    )


def _texts(report: Report) -> str:
    n, different = len(report.comparable), report.different
    if not different:
        return f"texts: all {n:,} equal plain decoding, token for token"
    verb = "differs" if len(different) == 1 else "differ"
    first = min(different, key=lambda run: run.measure.first_difference or 0)
    return (
        f"texts: {len(different):,} of {n:,} {verb} from plain decoding, the first after "
        f"{counted(first.measure.first_difference or 0, 'token')} "
        f"({one_line(first.prompt)}, temp {first.temp:g}, {first.arm.name})"
    )
