from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from spec_cli.files import write_whole


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
