"""A measurement as one JSON object. Documented in docs/json.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from spec_cli.bench.compare import changes
from spec_cli.bench.matrix import PLAIN, Arm
from spec_cli.bench.report import Report
from spec_cli.bench.rows import row_of
from spec_cli.render.bench_blocks import BenchInfo
from spec_cli.render.json import exactness_object, system_object

SCHEMA = "spec-cli/bench/1"

Object = dict[str, object]


def bench_object(report: Report, info: BenchInfo) -> Object:
    """The whole object."""
    verdict = report.verdict
    return {
        "schema": SCHEMA,
        "passed": report.failure is None,
        "complete": not report.interrupted,
        "verdict": verdict.sentence,
        "best": _arm(verdict.arm),
        "command": info.command,
        "setup": info.setup,
        "exactness": exactness_object(info.run),
        "system": system_object(info.run) | {"machine": asdict(info.machine)},
        "groups": {
            "planned": len(report.matrix.groups()),
            "measured": report.n_groups,
            "repeated": report.n_repeated,
            "noisy": report.n_noisy,
        },
        "texts": {"compared": len(report.comparable), "different": len(report.different)},
        "scores": list(_scores(report)),
        "changes": list(_changes(report, info)),
        "runs": [row_of({}, run) for run in report.runs],
    }


def _scores(report: Report) -> Iterator[Object]:
    """Of every arm and temperature: the figures, and the gains on all prompts and by kind."""
    for temp in report.matrix.temps:
        for arm in (PLAIN, *report.matrix.arms_at(temp)):
            if figures := report.figures(arm, temp):
                kinds = () if arm.is_plain else (None, *report.kinds)
                yield {
                    **_arm(arm),
                    "temp": temp,
                    "gains": [_gain(report, arm, temp, kind) for kind in kinds],
                    "figures": asdict(figures),
                }


def _gain(report: Report, arm: Arm, temp: float, kind: str | None) -> Object:
    """The gain on prompts of `kind`, None for all; without figures where there are none."""
    score = report.score(arm, temp, kind)
    return {"kind": kind} | (asdict(score) if score else {})


def _changes(report: Report, info: BenchInfo) -> Iterator[Object]:
    if info.earlier is not None:
        for change in changes(info.earlier, report.kept, report.matrix):
            yield {**asdict(change), "arm": _arm(change.arm)}


def _arm(arm: Arm) -> Object:
    length = "auto" if arm.draft_tokens is None else arm.draft_tokens
    return {"drafter": arm.drafter, "draft_tokens": length, "accept": arm.accept}
