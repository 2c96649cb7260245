"""What a check-up found: facts in sections, and findings that say what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from spec_cli.errors import SpecError


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be, and what to type; `failed`: the pair cannot run."""

    message: str
    hint: str | None
    failed: bool = False

    @classmethod
    def of(cls, error: SpecError) -> Self:
        """An error that keeps the pair from running."""
        return cls(error.message, error.hint, failed=True)

    def mapped(self, change: Callable[[str], str]) -> Finding:
        """The finding with its texts changed."""
        hint = None if self.hint is None else change(self.hint)
        return Finding(change(self.message), hint, self.failed)


@dataclass(frozen=True, slots=True)
class Section:
    """Facts about one topic: their names and values."""

    title: str
    rows: tuple[tuple[str, str], ...]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """All sections; their findings are the report's."""

    sections: tuple[Section, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Each once, those that keep the pair from running first."""
        found = dict.fromkeys(f for section in self.sections for f in section.findings)
        return tuple(sorted(found, key=lambda finding: not finding.failed))

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The findings that keep the pair from running."""
        return tuple(finding for finding in self.findings if finding.failed)

    def mapped(self, change: Callable[[str], str]) -> Report:
        """The report with every value and finding changed."""
        return Report(
            tuple(
                Section(
                    s.title,
                    tuple((name, change(value)) for name, value in s.rows),
                    tuple(finding.mapped(change) for finding in s.findings),
                )
                for s in self.sections
            )
        )


def shortened(home: Path) -> Callable[[str], str]:
    """Writes the home directory as `~`: a report tells nobody whose machine it is."""
    if home == Path("/"):
        return lambda text: text
    whole = re.compile(rf"(?<!\w){re.escape(str(home))}(?![\w-])")
    return lambda text: whole.sub("~", text)
