"""How well a draft model agrees with its target: what earlier runs of a pair have shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spec_cli.spec.survival import CONFIDENCES, Prior, Tally, no_tally
from spec_cli.state import StateStore, file_identity

ACCEPTANCE = "acceptance"
GREEDY_RULE = "greedy"  # any acceptance rule at temperature 0
_MOST = 4000.0  # guesses that are remembered; beyond them older ones fade


class LearnedAcceptance:
    """The tallies of one pair, bound to both files; `GREEDY_RULE` and other rules have their own.

    It decides what is drafted, never what is said. Of two runs that end together one may be lost.
    """

    def __init__(self, target: Path, draft: Path, *, state: StateStore) -> None:
        self._pair = {
            "target": file_identity(target),
            "draft": file_identity(draft),
            "levels": list(CONFIDENCES),
        }
        self._state = state

    def shown(self, rule: str) -> Tally:
        """What the runs so far have shown."""
        stored = self._state.load(ACCEPTANCE, self._key(rule))
        return (_tally(stored) if stored else None) or no_tally()

    def prior(self, default: Prior, rule: str) -> Prior:
        """`default`, as the runs so far correct it."""
        return default.after(self.shown(rule))

    def add(self, tally: Tally, rule: str) -> None:
        """Remember what one more run has shown."""
        total = self.shown(rule) + tally
        total *= min(1.0, _MOST / max(1.0, float(total.judged.sum())))
        value = {
            "judged": total.judged.tolist(),
            "accepted": total.accepted.tolist(),
            "following": total.following.tolist(),
        }
        self._state.save(ACCEPTANCE, self._key(rule), value)

    def _key(self, rule: str) -> dict[str, Any]:
        return {**self._pair, "rule": rule}


def _tally(stored: Any) -> Tally | None:
    """The tally that was stored; None where it is none, as after someone's edit."""
    empty = no_tally()
    try:
        judged = _counts(stored["judged"], empty.judged.shape)
        accepted = _counts(stored["accepted"], empty.accepted.shape)
        following = _counts(stored["following"], empty.following.shape)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return Tally(judged, accepted, following) if (accepted <= judged).all() else None


def _counts(value: Any, shape: Sequence[int]) -> np.ndarray[Any, np.dtype[np.float64]]:
    counts = np.array(value, dtype=np.float64)
    if counts.shape != tuple(shape) or not ((counts >= 0) & (counts <= 2 * _MOST)).all():
        raise ValueError("not counts")
    return counts
