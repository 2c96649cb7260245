from __future__ import annotations

import fcntl
import os
import stat
import threading
from pathlib import Path

import pytest

from spec_cli.errors import UsageError
from spec_cli.files import MAX_INPUT_BYTES, open_shared, read_input, write_whole


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_whole(path, "one")
    reader = path.open()
    write_whole(path, "twö")
    assert (reader.read(), path.read_text(encoding="utf-8")) == ("one", "twö")
    assert list(tmp_path.iterdir()) == [path]
    reader.close()


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim, link = tmp_path / "victim", tmp_path / "link"
    victim.write_text("precious")
    link.symlink_to(victim)
    write_whole(link, "new")
    assert victim.read_text() == "precious"
    assert not link.is_symlink() and link.read_text() == "new"


def test_what_was_there_stays_where_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    write_whole(path, "old")

    def full(self: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_umask_decides_who_may_read(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "x", "")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640


def test_a_private_file_is_for_its_owner_alone_and_others_obey_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "x"
    mask = os.umask(0o022)
    try:
        for private, mode in ((False, 0o644), (True, 0o600)):
            write_whole(path, "text", private=private)
            assert stat.S_IMODE(path.stat().st_mode) == mode
    finally:
        os.umask(mask)


def test_a_file_or_a_pipe_that_the_user_names_is_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"text")
    assert read_input(tmp_path / "x", "it") == b"text"
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[b"flow"])
    writer.start()
    assert read_input(tmp_path / "pipe", "it") == b"flow"
    writer.join()


@pytest.mark.parametrize(
    ("name", "reason"),
    [("none", "No such file"), (".", "Is a directory"), ("a\0b", "embedded null byte")],
)
def test_what_cannot_be_read_is_told_with_the_reason(
    tmp_path: Path, name: str, reason: str
) -> None:
    with pytest.raises(UsageError, match=f"cannot read the grammar: {reason}") as raised:
        read_input(tmp_path / name, "the grammar", hint="another")
    assert raised.value.hint == "another"


def test_no_more_is_read_than_any_context_holds(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.touch()
    os.truncate(path, MAX_INPUT_BYTES)
    assert len(read_input(path, "it")) == MAX_INPUT_BYTES
    os.truncate(path, MAX_INPUT_BYTES + 1)
    with pytest.raises(UsageError, match="it holds more than 32 MiB"):
        read_input(path, "it")


def test_a_shared_file_is_locked_while_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with open_shared(path), path.open("rb") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_shared_file_is_a_regular_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is not a regular file"), open_shared(tmp_path / "pipe"):
        pass
