"""Files of a chat: private, whole, and never through a link."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from spec_cli.cli.chat_files import read_text, replace_text, write_new
from spec_cli.cli.chat_input import open_history
from spec_cli.errors import UsageError


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_is_private_and_is_not_written_twice(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    write_new(path, "one")
    assert mode_of(path) == 0o600
    with pytest.raises(UsageError, match="is there already") as caught:
        write_new(path, "two")
    assert "`/save! " in (caught.value.hint or "")
    assert path.read_text() == "one"
    replace_text(path, "two")
    assert path.read_text() == "two" and mode_of(path) == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("write", [write_new, replace_text])
@pytest.mark.parametrize("is_there", [False, True])
def test_nothing_is_written_through_a_link(tmp_path: Path, write: object, is_there: bool) -> None:
    aim, link = tmp_path / "aim", tmp_path / "link"
    if is_there:
        aim.write_text("mine")
    link.symlink_to(aim)
    with pytest.raises(UsageError):
        write(link, "text")  # type: ignore[operator]
    assert link.is_symlink()
    assert aim.exists() == is_there and (not is_there or aim.read_text() == "mine")


def test_what_is_no_regular_file_is_neither_replaced_nor_read(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (fifo, tmp_path):
        with pytest.raises(UsageError, match=r"not a regular file|is a directory"):
            replace_text(path, "text")
        with pytest.raises(UsageError, match=r"not a regular file|Is a directory"):
            read_text(path, follow=True)


def test_a_place_that_cannot_be_written_is_told_with_its_reason(tmp_path: Path) -> None:
    for write in (write_new, replace_text):
        with pytest.raises(UsageError, match=r"cannot write .*: No such file or directory"):
            write(tmp_path / "no" / "chat.json", "text")


def test_a_saved_chat_is_not_read_through_a_link_but_a_file_for_a_message_is(
    tmp_path: Path,
) -> None:
    aim, link = tmp_path / "aim", tmp_path / "link"
    aim.write_text("text")
    link.symlink_to(aim)
    assert read_text(link, follow=True) == "text"
    with pytest.raises(UsageError, match="it is a symbolic link"):
        read_text(link, follow=False)


def test_a_file_that_is_no_text_or_too_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="not valid UTF-8"):
        read_text(path, follow=True)
    with path.open("wb") as file:
        file.truncate((16 << 20) + 1)
    with pytest.raises(UsageError, match="more than 16 MiB"):
        read_text(path, follow=True)


def test_the_history_is_private_also_where_it_was_not(tmp_path: Path) -> None:
    path = tmp_path / "state" / "history"
    history = open_history(path)
    history.append_string("hello\nthere")
    history.append_string("no text: \udcff")
    path.chmod(0o644)
    again = open_history(path)
    assert list(again.load_history_strings()) == ["no text: ?", "hello\nthere"]
    assert mode_of(path) == 0o600


def test_a_history_that_is_another_users_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history"
    open_history(path).append_string("hello")

    def refused(_number: int, _mode: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchmod", refused)
    assert list(open_history(path).load_history_strings()) == []


def test_a_history_that_cannot_be_kept_is_none(tmp_path: Path) -> None:
    aim, link = tmp_path / "aim", tmp_path / "link"
    link.symlink_to(aim)
    open_history(link).append_string("hello")
    assert not aim.exists()
    open_history(aim / "x" / "y").append_string("hello")
