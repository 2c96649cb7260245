"""From lines to requests: those that an earlier run has answered are passed over."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from spec_cli.batch.request import Failure, Request, read_request
from spec_cli.batch.results import Stored
from spec_cli.errors import UsageError
from spec_cli.settings import GenerationSettings
from spec_cli.spec.counts import counted

_KEY_DIGITS = 32


def read_requests(
    lines: Iterable[bytes],
    stored: Sequence[Stored],
    run: GenerationSettings,
    facts: Mapping[str, Any],
    *,
    keeps_seed: bool,
) -> Iterator[Request | Failure]:
    """What the lines behind those of the `stored` results ask for.

    `facts` are what a result depends on besides its line. `keeps_seed`: lines without a seed get
    that which such lines had before, if there were any.
    Raises UsageError when a stored result is that of another line, or of other settings.
    """
    settled = json.dumps(facts, sort_keys=True).encode()
    n_lines = 0
    for index, line in enumerate(lines):
        n_lines += 1
        request = read_request(line, index, _key(line, settled), run)
        if index >= len(stored):
            yield request
        elif stored[index].key != request.key:
            raise UsageError(
                f"result {index} in the output is that of another line, or of other settings",
                hint="use the same input and options again, or another `--output` file",
            )
        elif keeps_seed and isinstance(request, Request) and not request.sets_seed:
            seed = stored[index].seed
            run = run if seed is None else replace(run, seed=seed)
    if n_lines < len(stored):
        raise UsageError(
            f"the output has {counted(len(stored), 'result')}, "
            f"but the input has {counted(n_lines, 'line')}",
            hint="give another `--output` file",
        )


def _key(line: bytes, settled: bytes) -> str:
    return sha256(settled + b"\n" + line.strip()).hexdigest()[:_KEY_DIGITS]
