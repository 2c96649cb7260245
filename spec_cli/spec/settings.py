"""What a user sets of the theory, as values: all that the command line needs, without numpy."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from enum import StrEnum

from spec_cli.errors import UsageError, wrong_value

_MAX_COUNT = 2**31 - 1
_MAX_BIAS = 1e6  # far above any logit, and a sum with one is still a number
MAX_ROWS = 16  # of a pass of the target: its cost is measured up to here


class Accept(StrEnum):
    """The acceptance rule. All keep the target's distribution; at temperature 0 all are greedy."""

    COUPLED = "coupled"
    REJECTION = "rejection"
    BLOCK = "block"


class Exact(StrEnum):
    """Whether target passes keep to one class of widths.

    `auto`: where it costs less than `MAX_AUTO_PRICE`; `on`: always, at the lowest price there
    is; `off`: never.
    """

    AUTO = "auto"
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """Sampling parameters with llama.cpp's names, meaning and defaults.

    `temp` 0 is greedy decoding. `top_k` 0, `top_p` 1, `min_p` 0, `repeat_penalty` 1 and
    penalties of 0 switch that step off; `repeat_last_n` is the penalties' window in tokens.
    `logit_bias` pairs token ids with what is added to their logits; -inf forbids a token.
    """

    temp: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        _require("--temp", self.temp, self.temp >= 0, "0 or more, and finite")
        _require("--top-k", self.top_k, 0 <= self.top_k <= _MAX_COUNT, f"from 0 to {_MAX_COUNT}")
        _require("--top-p", self.top_p, 0 < self.top_p <= 1, "above 0 and at most 1")
        _require("--min-p", self.min_p, 0 <= self.min_p <= 1, "from 0 to 1")
        in_range = 0.01 <= self.repeat_penalty <= 100
        _require("--repeat-penalty", self.repeat_penalty, in_range, "from 0.01 to 100")
        in_range = 0 <= self.repeat_last_n <= _MAX_COUNT
        _require("--repeat-last-n", self.repeat_last_n, in_range, f"from 0 to {_MAX_COUNT}")
        for flag, penalty in (
            ("--presence-penalty", self.presence_penalty),
            ("--frequency-penalty", self.frequency_penalty),
        ):
            _require(flag, penalty, abs(penalty) <= 100, "from -100 to 100")
        for token, bias in self.logit_bias:
            if token < 0 or not (abs(bias) <= _MAX_BIAS or bias == -math.inf):
                raise UsageError(
                    f"--logit-bias gives token {token} the bias {bias}",
                    hint=f"an id is 0 or more, a bias from -{_MAX_BIAS:g} to {_MAX_BIAS:g}, "
                    "or `-inf`",
                )

    @property
    def n_history(self) -> int:
        """How many of the last tokens the penalties look at; 0 when there are none."""
        return self.repeat_last_n if self._penalises else 0

    @property
    def _penalises(self) -> bool:
        return self.repeat_penalty != 1 or self.presence_penalty != 0 or self.frequency_penalty != 0


def _require(flag: str, value: float, holds: bool, wanted: str) -> None:
    if not holds or not abs(value) <= sys.float_info.max:  # an int has no largest value
        raise wrong_value(flag, value, wanted)
