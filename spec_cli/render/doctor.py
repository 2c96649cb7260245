"""A check-up as text to paste, and as an object for `--json`. Documented in docs/machine.md."""

from __future__ import annotations

from spec_cli.doctor.report import Report
from spec_cli.render.inert import one_line

SCHEMA = "spec-cli/doctor/1"


def report_lines(report: Report) -> list[str]:
    """The report, section by section, and the findings at its end."""
    lines: list[str] = []
    for section in report.sections:
        if not section.rows:
            continue
        lines.append(section.title)
        width = max(len(name) for name, _ in section.rows)
        lines += [f"  {name:{width}}  {one_line(value)}" for name, value in section.rows]
        lines.append("")
    lines.append("findings" if report.findings else "nothing is wrong")
    for finding in report.findings:
        mark = "FAILED" if finding.failed else "note"
        lines.append(f"  {mark}: {one_line(finding.message)}")
        if finding.hint:
            lines.append(f"    {one_line(finding.hint)}")
    return lines


def report_object(report: Report) -> dict[str, object]:
    """The report for `--json`."""
    return {
        "schema": SCHEMA,
        "ok": not report.failed,
        "sections": {
            section.title: dict(section.rows) for section in report.sections if section.rows
        },
        "findings": [
            {"message": f.message, "hint": f.hint, "failed": f.failed} for f in report.findings
        ],
    }
