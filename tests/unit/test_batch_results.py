"""The file of results: what it holds is kept, and it is never left with half a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spec_cli.batch.results import SCHEMA, ResultFile, Stored
from spec_cli.errors import ExitCode, SpecError, UsageError


def row(index: int, seed: int | None = 5) -> dict[str, object]:
    start = {"schema": SCHEMA, "index": index, "key": f"key {index}"}
    return start | ({} if seed is None else {"seed": seed})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.jsonl"


def write(path: Path, n: int) -> None:
    with ResultFile(path) as file:
        for index in range(n):
            file.write(row(index))


def test_results_are_found_again_in_order(path: Path) -> None:
    with ResultFile(path) as file:
        assert file.stored == []
        file.write(row(0))
        file.write(row(1, seed=None))
    with ResultFile(path) as file:
        assert file.stored == [Stored("key 0", 5), Stored("key 1", None)]
        assert [stored.is_answer for stored in file.stored] == [True, False]


def test_each_result_is_one_line_that_is_there_at_once(path: Path) -> None:
    with ResultFile(path) as file:
        file.write(row(0) | {"text": "a\nb\u2028ü"})
        assert path.read_bytes().count(b"\n") == 1
        assert json.loads(path.read_text())["text"] == "a\nb\u2028ü"


def test_a_line_that_was_cut_off_anywhere_is_removed(path: Path) -> None:
    write(path, 2)
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for end in range(first, len(whole)):
        path.write_bytes(whole[:end])
        with ResultFile(path) as file:
            assert file.stored == [Stored("key 0", 5)]
            assert path.read_bytes() == whole[:first]
            file.write(row(1))
        assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "content",
    [
        b"notes\n",
        b"notes without an end",
        b'{"prompt": "x"}\n',
        b"[]\n",
        b'{"schema": "spec-cli/batch/2", "index": 0, "key": "k"}\n',
        b'{"schema": "spec-cli/batch/1", "index": 0, "key": "k", "seed": "1"}\n',
        b'{"schema": "spec-cli/batch/1", "index": 1, "key": "k"}\n',
        b'{"schema": "spec-cli/batch/1", "index": 0}\n',
        b"\xff\n",
        b"[" * 100_000 + b"\n",
    ],
)
def test_a_file_of_something_else_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(UsageError, match="line 1 is not the result"):
        ResultFile(path)
    assert path.read_bytes() == content


def test_two_runs_do_not_write_to_one_file(path: Path) -> None:
    with ResultFile(path), pytest.raises(UsageError, match="another run is writing"):
        ResultFile(path)
    write(path, 1)


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Is a directory"):
        ResultFile(tmp_path)
    with pytest.raises(UsageError, match="No such file"):
        ResultFile(tmp_path / "none" / "out.jsonl")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_told(path: Path) -> None:
    with ResultFile(Path("/dev/full")) as file, pytest.raises(SpecError) as raised:
        file.write(row(0))
    assert raised.value.message == "cannot write /dev/full: No space left on device"
    assert raised.value.exit_code is ExitCode.UNEXPECTED


def test_a_device_holds_no_earlier_results(path: Path) -> None:
    with ResultFile(Path("/dev/null")) as file:
        assert file.stored == []
        file.write(row(0))
