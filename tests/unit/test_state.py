"""Measurements are found again under exactly their key, and a bad file is as good as none."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from spec_cli.errors import ModelError
from spec_cli.state import StateStore, file_fingerprint, file_identity

KEY = {"file": "x.gguf", "threads": 2}


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    return StateStore(tmp_path / "state")


def test_a_value_is_found_under_its_own_key_only(store: StateStore) -> None:
    store.save("times", KEY, [1.5, 2.5])
    assert store.load("times", KEY) == [1.5, 2.5]
    assert store.load("times", {**KEY, "threads": 4}) is None
    assert store.load("others", KEY) is None


def test_a_later_value_replaces_an_earlier_one(store: StateStore) -> None:
    store.save("times", KEY, 1)
    store.save("times", KEY, 2)
    assert store.load("times", KEY) == 2


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"key": {}}', '{"key": 1, "value": 2}', "\0", "[" * 10**5]
)
def test_a_damaged_file_is_as_good_as_none(store: StateStore, tmp_path: Path, content: str) -> None:
    store.save("times", KEY, 1)
    (file,) = (tmp_path / "state" / "times").iterdir()
    file.write_text(content)
    assert store.load("times", KEY) is None
    assert store.entries("times", {}) == []


@pytest.mark.parametrize("key", [{}, {"file": "x.gguf"}, {**KEY, "threads": 4}])
def test_a_file_whose_key_was_edited_is_as_good_as_none(
    store: StateStore, tmp_path: Path, key: dict[str, object]
) -> None:
    store.save("times", KEY, 1)
    (file,) = (tmp_path / "state" / "times").iterdir()
    file.write_text(json.dumps({"key": key, "value": 1}))
    assert store.entries("times", {}) == []
    assert [store.load("times", k) for k in (KEY, key)] == [None, None]


def test_entries_are_found_by_a_part_of_their_key_the_newest_first(store: StateStore) -> None:
    for threads, time_s in ((2, 1), (4, 3), (8, 2)):
        key = {**KEY, "threads": threads}
        store.save("times", key, threads)
        (entry,) = store.entries("times", key)
        os.utime(entry.path, (time_s, time_s))
    store.save("times", {"file": "y.gguf", "threads": 2}, 0)
    assert [entry.value for entry in store.entries("times", {"file": "x.gguf"})] == [4, 8, 2]


def test_a_directory_that_cannot_be_written_loses_nothing_but_the_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = StateStore(tmp_path / "file")
    store.save("times", KEY, 1)
    assert store.load("times", KEY) is None


def test_a_directory_that_keeps_what_is_saved_has_no_problem(
    store: StateStore, tmp_path: Path
) -> None:
    assert store.problem() is None
    assert list((tmp_path / "state").iterdir()) == []


def test_a_directory_that_cannot_be_made_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    directory = tmp_path / "file" / "spec-cli"
    expected = f"cannot write to {directory}: {os.strerror(errno.ENOTDIR)}"
    store = StateStore(directory)
    assert [store.problem(), store.problem()] == [expected, None]  # told once


def test_a_full_disk_is_a_problem(store: StateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    assert "No space left on device" in (store.problem() or "")


def test_a_part_of_the_directory_that_is_another_users_is_a_problem(
    store: StateStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save("times", KEY, 1)
    monkeypatch.setattr(os, "access", lambda path, _mode: path != tmp_path / "state/times")
    assert str(tmp_path / "state/times") in (store.problem() or "")


def test_a_changed_file_has_another_identity(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"one")
    before = file_identity(path)
    path.write_bytes(b"two2")
    assert file_identity(path) != before


@pytest.mark.parametrize("look", [file_identity, file_fingerprint])
def test_a_model_that_has_gone_is_told_by_name(
    tmp_path: Path, look: Callable[[Path], object]
) -> None:
    with pytest.raises(ModelError) as error:
        look(tmp_path / "gone.gguf")
    assert str(tmp_path / "gone.gguf") in error.value.message


def test_a_model_that_cannot_be_opened_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=str(tmp_path)):
        file_fingerprint(tmp_path)  # a directory: it has an identity, and no bytes
