"""Which lines are answered: all but those whose result is there already."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from spec_cli.batch.intake import read_requests
from spec_cli.batch.lines import MAX_LINE_BYTES, LineReader
from spec_cli.batch.request import Failure, Request
from spec_cli.batch.results import Stored
from spec_cli.errors import Cancelled, UsageError
from spec_cli.settings import GenerationSettings

RUN = GenerationSettings(seed=1)
FACTS = {"target": "a", "generation": {"temp": 0.8}}
LINES = [b'"one"', b'{"prompt": "two", "seed": 9}', b"bad", b'"four"']


def requests(
    stored: Sequence[Stored] = (),
    lines: Sequence[bytes] = LINES,
    *,
    facts: dict[str, Any] = FACTS,
    keeps_seed: bool = False,
) -> list[Request | Failure]:
    return list(read_requests(lines, stored, RUN, facts, keeps_seed=keeps_seed))


def results(n: int, seed: int = 1) -> list[Stored]:
    """What a run of the first lines leaves."""
    return [
        Stored(
            found.key,
            None if isinstance(found, Failure) else (9 if found.sets_seed else seed),
        )
        for found in requests()[:n]
    ]


def seeds(found: Sequence[Request | Failure]) -> list[int]:
    return [one.generation.seed for one in found if isinstance(one, Request)]


def test_lines_are_counted_from_0_in_their_order() -> None:
    found = requests()
    assert [one.index for one in found] == [0, 1, 2, 3]
    assert [isinstance(one, Failure) for one in found] == [False, False, True, False]
    assert len({one.key for one in found}) == 4


@pytest.mark.parametrize("n", range(5))
def test_lines_with_a_result_are_passed_over(n: int) -> None:
    assert [one.key for one in requests(results(n))] == [one.key for one in requests()[n:]]


def test_a_run_without_a_seed_goes_on_with_the_seed_it_had() -> None:
    assert seeds(requests(results(2, seed=77), keeps_seed=True)) == [77]
    assert seeds(requests(results(2, seed=0), keeps_seed=True)) == [0]
    assert seeds(requests(results(2, seed=77))) == [1]


def test_a_seed_of_one_line_is_not_that_of_the_others() -> None:
    lines = LINES[1:]
    [first, *_] = requests(lines=lines)
    assert seeds(requests([Stored(first.key, 9)], lines, keeps_seed=True)) == [1]


def test_another_line_or_other_settings_are_refused() -> None:
    with pytest.raises(UsageError, match="result 0 in the output is that of another line"):
        requests(results(2), lines=[b'"uno"', *LINES[1:]])
    with pytest.raises(UsageError, match="result 0"):
        requests(results(2), facts=FACTS | {"target": "b"})
    with pytest.raises(UsageError, match="result 1"):
        requests(results(2), lines=[LINES[0], LINES[0]])


def test_an_input_that_was_cut_is_refused() -> None:
    with pytest.raises(UsageError, match="has 3 results, but the input has 2 lines"):
        requests(results(3), lines=LINES[:2])


def lines_of(data: bytes) -> list[bytes]:
    reader, writer = os.pipe()
    feed = threading.Thread(target=lambda: (os.write(writer, data), os.close(writer)))
    feed.start()
    found = list(LineReader(reader, lambda: False))
    feed.join()
    os.close(reader)
    return found


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n \n\r\n", []),
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\n\nb\n", [b"a\r", b"b"]),
        (b"x" * 200_000 + b"\ny\n", [b"x" * 200_000, b"y"]),
        (b"x" * (MAX_LINE_BYTES + 200_000) + b"\ny", [b"x" * (MAX_LINE_BYTES + 1), b"y"]),
    ],
)
def test_lines_are_what_line_ends_part_and_blank_ones_do_not_count(
    data: bytes, lines: list[bytes]
) -> None:
    assert lines_of(data) == lines


def test_a_line_is_there_before_the_next_one_comes() -> None:
    reader, writer = os.pipe()
    lines = iter(LineReader(reader, lambda: False))
    for line in (b"a", b"b"):
        os.write(writer, line + b"\n")
        assert next(lines) == line
    os.close(writer)
    assert list(lines) == []
    os.close(reader)


def test_an_input_that_cannot_be_read_is_told() -> None:
    unreadable = os.open(os.devnull, os.O_WRONLY)
    with pytest.raises(UsageError, match="cannot read the input: Bad file descriptor"):
        next(iter(LineReader(unreadable, lambda: False)))
    os.close(unreadable)


def test_waiting_for_a_line_ends_when_the_user_stops_it() -> None:
    reader, writer = os.pipe()
    answers = iter([False, False])
    with pytest.raises(Cancelled):
        next(iter(LineReader(reader, lambda: next(answers, True))))
    os.close(reader)
    os.close(writer)
