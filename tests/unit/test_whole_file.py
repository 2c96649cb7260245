"""Files that are there whole or not at all, where the user said and nowhere else."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from spec_cli.errors import SpecError, UsageError
from spec_cli.whole_file import WholeFile, open_private


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def write(path: Path, data: bytes = b"new", *, private: bool = False) -> None:
    with WholeFile(path, private=private) as whole:
        whole.file.write(data)
        whole.keep()


def test_a_file_is_in_its_place_only_when_it_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with WholeFile(path) as whole:
        whole.file.write(b"new")
        assert not path.exists()
        whole.keep()
        assert path.read_bytes() == b"new"
    assert names_in(tmp_path) == ["out"]


def test_without_keep_the_old_file_stays_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(ValueError), WholeFile(path) as whole:
        whole.file.write(b"new")
        raise ValueError
    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == ["out"]


def test_permissions_are_those_of_the_file_before_or_the_umasks(tmp_path: Path) -> None:
    path = tmp_path / "out"
    before = os.umask(0o027)
    try:
        write(path)
        assert mode_of(path) == 0o640
        path.chmod(0o604)
        write(path)
        assert mode_of(path) == 0o604
        write(path, private=True)
        assert mode_of(path) == 0o600
    finally:
        os.umask(before)


def test_a_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    link.symlink_to(real)
    write(link)
    assert link.is_symlink() and real.read_bytes() == b"new"


def test_a_directory_that_is_gone_is_told(tmp_path: Path) -> None:
    directory = tmp_path / "gone"
    directory.mkdir()
    with WholeFile(directory / "out") as whole:
        shutil.rmtree(directory)
        with pytest.raises(SpecError, match=r"cannot write .*out: No such file"):
            whole.keep()


def test_what_is_no_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    directory, fifo = tmp_path / "dir", tmp_path / "fifo"
    directory.mkdir()
    os.mkfifo(fifo)
    for name, target in (("a", directory), ("b", tmp_path / "nothing"), ("c", tmp_path / "c")):
        (tmp_path / name).symlink_to(target)
    before = names_in(tmp_path)
    for name in ("dir", "fifo", "a", "b", "c", "no/such", "x" * 300, "\0", ""):
        with pytest.raises(UsageError, match="cannot write"):
            WholeFile(tmp_path / name if name else Path(name))
    with pytest.raises(UsageError, match="not a regular file"):
        WholeFile(Path(os.devnull))
    assert names_in(tmp_path) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_write_protected_file_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.touch(mode=0o444)
    with pytest.raises(UsageError, match="write-protected"):
        WholeFile(path)


def test_a_private_file_is_the_owners_alone_also_where_it_was_not(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(b"something longer")
    path.chmod(0o644)
    with open_private(path) as file:
        file.write(b"new")
    assert (path.read_bytes(), mode_of(path)) == (b"new", 0o600)
    with open_private(tmp_path / "fresh"):
        assert mode_of(tmp_path / "fresh") == 0o600


def test_a_private_file_follows_no_link_and_is_nothing_else_than_a_file(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.write_bytes(b"old")
    (tmp_path / "link").symlink_to(real)
    os.mkfifo(tmp_path / "fifo")
    for name, reason in (("link", "it is a link"), ("fifo", ""), (".", "")):
        with pytest.raises(UsageError, match=f"cannot write .*{reason}"):
            open_private(tmp_path / name)
    with pytest.raises(UsageError, match="not a regular file"):
        open_private(Path(os.devnull))
    assert real.read_bytes() == b"old"
