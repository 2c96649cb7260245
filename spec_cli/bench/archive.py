"""Finished runs, in memory and, where asked for, in a file of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from spec_cli.bench.matrix import PLAIN, Arm, Group, Matrix
from spec_cli.bench.measure import Run
from spec_cli.bench.rows import SCHEMA, Row, Setup, row_of, run_of, setup_of
from spec_cli.errors import UsageError
from spec_cli.row_file import RowFile, RowFormat


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of a file: the run, and the set-up that it was made in."""

    setup: Row
    run: Run


_FORMAT = RowFormat(
    SCHEMA, "spec-cli bench", "--export", lambda row: Entry(setup_of(row), run_of(row))
)


class Archive:
    """The runs of one set-up; what `file` has for exactly this set-up is among them."""

    def __init__(self, file: RowFile[Entry] | None, setup: Setup) -> None:
        self.setup: Row = json.loads(json.dumps(dict(setup)))
        self._file = file
        self._runs: dict[Hashable, Run] = {}
        for entry in file.rows if file else ():
            if entry.setup == self.setup:
                self._keep(entry.run)

    def find(self, group: Group, arm: Arm, turn: int = 0) -> Run | None:
        """The run of `arm` in `group`, if it was made."""
        return self._runs.get(_key_of(group, arm, turn))

    def add(self, runs: Sequence[Run]) -> None:
        """Keep the runs of a group. Raises SpecError when they cannot be written."""
        for run in runs:
            self._keep(run)
        if self._file is not None:
            self._file.append([row_of(self.setup, run) for run in runs])

    def runs(self, matrix: Matrix) -> list[Run]:
        """All runs that belong to `matrix`, group by group, repeated groups behind them."""
        groups = matrix.groups()
        groups += [Group(g.prompt, g.temp, g.round, attempt=1) for g in groups]
        keys = [
            _key_of(group, arm, turn)
            for group in groups
            for arm, turn in [(PLAIN, 0), *((a, 0) for a in matrix.arms_at(group.temp)), (PLAIN, 1)]
        ]
        return [self._runs[key] for key in keys if key in self._runs]

    def _keep(self, run: Run) -> None:
        prompt = (run.prompt, run.prompt_sha256)
        self._runs[(run.arm, *prompt, run.temp, run.round, run.attempt, run.turn)] = run


def open_export(path: Path) -> RowFile[Entry]:
    """The file of `--export`, to go on with. Raises UsageError when it cannot be used."""
    return RowFile(path, _FORMAT)


def read_export(path: Path) -> list[Entry]:
    """The whole lines of a file that `--export` wrote. Raises UsageError."""
    entries = _FORMAT.read(path)
    if not entries:
        raise UsageError(f"{path} holds no runs", hint="give a file that `--export` wrote")
    return entries


def sha256_of(text: str) -> str:
    """What tells a prompt from another of the same name."""
    return sha256(text.encode()).hexdigest()


def _key_of(group: Group, arm: Arm, turn: int) -> Hashable:
    prompt = (group.prompt.id, sha256_of(group.prompt.text))
    return (arm, *prompt, group.temp, group.round, group.attempt, turn)
