"""How results are shown, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """What the user asked for. `json` wins over `jsonl`; `brief`: a line in place of a summary.

    `quiet` says nothing of reasoning: that is hidden by `hide_reasoning`.
    """

    quiet: bool = False
    json: bool = False
    jsonl: bool = False
    show_origin: bool = False
    no_tui: bool = False
    brief: bool = False
    hide_reasoning: bool = False
    echo: bool = False


class Format(StrEnum):
    """How a measurement is printed."""

    TEXT = "text"
    MD = "md"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    SQL = "sql"
