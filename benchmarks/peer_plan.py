"""In which order arms answer prompts, and which of it a file of rows already holds.

A machine's speed drifts over minutes, and arms that are processes of their own cannot alternate
token by token. So a run is cut into blocks of a few arms and a few prompts, each with the
baseline among them, at a random place: ratios are formed within a block.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from peer_report import BASELINE, Row, Timings


@dataclass(frozen=True, slots=True)
class Block:
    """Arms in the order of their turns, and the ids of the prompts that each of them answers.

    `key` is a digest of all that decides what is measured.
    """

    key: str
    round: int
    arms: tuple[str, ...]
    prompts: tuple[str, ...]


def plan_blocks(
    arms: Sequence[str],
    prompts: Sequence[str],
    *,
    n_rounds: int,
    n_arms: int,
    n_prompts: int,
    seed: int,
    facts: object,
) -> Iterator[Block]:
    """Blocks of at most `n_arms` arms besides the baseline, and of `n_prompts` prompts.

    `facts` (JSON) are what else the rows depend on: with others the keys differ.
    """
    rng = random.Random(seed)
    others = [arm for arm in arms if arm != BASELINE]
    for n in range(n_rounds):
        for some_prompts in _cut(prompts, n_prompts):
            rng.shuffle(others)
            for some_arms in _cut(others, n_arms):
                order = [BASELINE, *some_arms]
                rng.shuffle(order)
                content = json.dumps([facts, n, order, some_prompts], sort_keys=True)
                key = hashlib.sha256(content.encode()).hexdigest()[:16]
                yield Block(key, n, tuple(order), tuple(some_prompts))


def rows_of(blocks: Iterable[Block], rows: Iterable[Row], temps: Sequence[float]) -> list[Row]:
    """The rows of those blocks that are complete; of a row measured twice, the later one."""
    by_block: dict[str, dict[tuple[str, str, float], Row]] = {}
    for row in rows:
        by_block.setdefault(row.block, {})[row.arm, row.prompt, row.temp] = row
    kept: list[Row] = []
    for block in blocks:
        measured = by_block.get(block.key, {})
        wanted = [(a, p, t) for a in block.arms for p in block.prompts for t in temps]
        if all(case in measured for case in wanted):
            kept += [measured[case] for case in wanted]
    return kept


def recover_rows(path: Path) -> list[Row]:
    """The rows of a file that `append_row` wrote; a last line that is unfinished is cut off it."""
    if not path.exists():
        return []
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if whole != data:
        path.write_bytes(whole)
    return [_row(json.loads(line)) for line in whole.splitlines()]


def append_row(path: Path, row: Row) -> None:
    """Add one line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(row)) + "\n")


def _row(fields: dict[str, Any]) -> Row:
    return Row(**fields | {"timings": Timings(**fields["timings"])})


def _cut(items: Sequence[str], n: int) -> Iterator[Sequence[str]]:
    return (tuple(items[start : start + n]) for start in range(0, max(len(items), 1), n))
