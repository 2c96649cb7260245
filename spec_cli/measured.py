"""What earlier runs measured of model files on this machine, found without loading anything.

A run looks up exactly its own set-up. Here the set-up of the newest measurement is taken, and what
is to be compared with it must have the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spec_cli.calibration import PASS_TIMES, times_from_json
from spec_cli.draft_copy import DIGESTS
from spec_cli.exactness import PLANS, PROBE_VERSION, plan_from_json
from spec_cli.learned import ACCEPTANCE, LearnedAcceptance
from spec_cli.spec.costs import DRAFT_WIDTHS, PassTimes
from spec_cli.spec.exactness import ExactnessPlan
from spec_cli.spec.settings import Exact
from spec_cli.spec.survival import Tally
from spec_cli.state import PARALLEL_PLANS, REHEARSED, Entry, StateStore, file_identity

_KINDS = (PLANS, PASS_TIMES, DIGESTS, REHEARSED, PARALLEL_PLANS)
_SETUP = ("build", "devices", "n_gpu_layers", "n_threads")


@dataclass(frozen=True, slots=True)
class MeasuredTarget:
    """The exactness plan of a target, with its pass times, found with `--exact` as `exact` says.

    `setup` is what times of any model depend on: build, devices and their layers, threads.
    """

    file: str
    exact: Exact
    plan: ExactnessPlan
    setup: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Measurements:
    """The measurements kept in `state`."""

    state: StateStore

    def target(self, path: Path) -> MeasuredTarget | None:
        """The newest plan of the model file at `path`; one of the default `--exact` goes first."""
        found = self._plans(file_identity(path))
        return min(found, key=lambda target: target.exact is not Exact.AUTO, default=None)

    def any_drafted_for(self) -> MeasuredTarget | None:
        """The newest plan of any model whose passes have room for drafts."""
        return next((found for found in self._plans({}) if found.plan.max_width != 1), None)

    def draft_times(self, path: Path, setup: Mapping[str, Any]) -> PassTimes | None:
        """The pass times of the draft model file at `path` in that set-up."""
        part = {**file_identity(path), **setup, "widths": list(DRAFT_WIDTHS)}
        entries = self.state.entries(PASS_TIMES, part)
        return times_from_json(entries[0].value) if entries else None

    def shown(self, target: Path, draft: Path, rule: str) -> Tally:
        """What runs of a pair have shown about guesses; see `LearnedAcceptance`."""
        return LearnedAcceptance(target, draft, state=self.state).shown(rule)

    def of_file(self, path: Path) -> list[Entry]:
        """Everything kept about the model file at `path`, alone or in a pair."""
        identity = file_identity(path)
        alone = [entry for kind in _KINDS for entry in self.state.entries(kind, identity)]
        roles = ("target", "draft")
        paired = [e for role in roles for e in self.state.entries(ACCEPTANCE, {role: identity})]
        return [*alone, *paired]

    def _plans(self, part: Mapping[str, Any]) -> list[MeasuredTarget]:
        entries = self.state.entries(PLANS, {**part, "probe": PROBE_VERSION})
        return [
            MeasuredTarget(
                entry.key["file"],
                Exact(entry.key["exact"]),
                plan,
                {name: entry.key[name] for name in _SETUP},
            )
            for entry in entries
            if (plan := plan_from_json(entry.value)) is not None
        ]
