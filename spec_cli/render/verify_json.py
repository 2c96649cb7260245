"""A verification as one JSON object. Documented in docs/json.md."""

from __future__ import annotations

import math
from dataclasses import asdict

from spec_cli.render.info import RunInfo
from spec_cli.render.json import exactness_object, system_object
from spec_cli.render.stdout import Stdout
from spec_cli.render.verify import Spell
from spec_cli.terminal import Terminal
from spec_cli.verify.comparison import Comparison
from spec_cli.verify.difference import Difference
from spec_cli.verify.matrix import Matrix
from spec_cli.verify.report import Report
from spec_cli.verify.rules import FALSE_ALARM, RuleCheck

SCHEMA = "spec-cli/verify/1"

Object = dict[str, object]


def print_json(
    terminal: Terminal, report: Report, matrix: Matrix, info: RunInfo, spell: Spell
) -> None:
    """Write the object to stdout. Raises BrokenPipeError."""
    Stdout(terminal.stdout).write_json(report_object(report, matrix, info, spell))


def report_object(report: Report, matrix: Matrix, info: RunInfo, spell: Spell) -> Object:
    """The whole object."""
    return {
        "schema": SCHEMA,
        "passed": report.failure is None,
        "complete": not report.interrupted,
        "conclusion": report.conclusion,
        "model": {
            "target": asdict(info.target),
            "draft": asdict(info.draft) if info.draft else None,
        },
        "seed": matrix.seed,
        "max_tokens": matrix.max_tokens,
        "exactness": exactness_object(info),
        "totals": _totals(report),
        "comparisons": [_comparison(comparison, spell) for comparison in report.comparisons],
        "rules": {
            "skipped": report.rules_skipped,
            "false_alarm": FALSE_ALARM,
            "checks": [_rule(check, len(report.rules)) for check in report.rules],
        },
        "system": system_object(info),
    }


def _totals(report: Report) -> Object:
    made = report.comparisons
    return {
        "planned": len(report.cells),
        "compared": len(made),
        "equal": len(report.equal),
        "near_ties": len(report.near_ties),
        "unexplained": len(report.unexplained),
        "equal_tokens": sum(c.n_tokens for c in report.equal),
        "passes": sum(c.n_passes for c in made),
        "drafted": sum(c.n_drafted for c in made),
        "accepted": sum(c.n_accepted for c in made),
        "widest_pass": max((c.max_width for c in made), default=None),
    }


def _comparison(comparison: Comparison, spell: Spell) -> Object:
    cell, difference = comparison.cell, comparison.difference
    return {
        "prompt": cell.prompt.id,
        "kind": cell.prompt.kind,
        "temp": cell.temp,
        "drafter": cell.drafter,
        "draft_tokens": "auto" if cell.draft_tokens is None else cell.draft_tokens,
        "tokens": comparison.n_tokens,
        "passes": comparison.n_passes,
        "drafted": comparison.n_drafted,
        "accepted": comparison.n_accepted,
        "widest_pass": comparison.max_width,
        "difference": _difference(difference, spell) if difference else None,
    }


def _difference(difference: Difference, spell: Spell) -> Object:
    return {
        "position": difference.position,
        "plain": _token(difference.plain, spell),
        "speculative": _token(difference.speculative, spell),
        "margin": difference.margin,
        "max_logit_difference": difference.row_difference,
        "near_tie": difference.is_near_tie,
        "reason": difference.reason,
    }


def _token(token: int | None, spell: Spell) -> Object | None:
    return None if token is None else {"id": token, "text": spell(token)}


def _rule(check: RuleCheck, n_checks: int) -> Object:
    test = check.test
    return {
        "accept": check.accept,
        "sampling": check.sampling,
        "prompt": check.prompt,
        "position": check.position,
        "rounds": check.n_rounds,
        "drafted": check.n_drafted,
        "accepted": check.n_accepted,
        "chi_square": test.statistic if math.isfinite(test.statistic) else None,
        "degrees_of_freedom": test.degrees_of_freedom,
        "p_value": test.p_value,
        "passed": check.passes(n_checks),
    }
