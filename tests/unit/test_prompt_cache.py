"""A prompt cache gives back what was written, and nothing that anybody else has touched."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.prompt_cache import Part, UnusableCacheError, read_cache, user_key, write_cache
from spec_cli.prompt_reuse import n_usable
from spec_cli.state import StateStore

KEY = bytes(range(32))
TARGET = {"target": {"size": 5}, "build": "b1", "devices": ("CPU",)}
DRAFT = {"draft model": {"size": 2}}
PARTS = {
    "target": Part(TARGET, [1, 2, 151_935], b"\x00state\xff" * 9),
    "draft": Part(DRAFT, [1], b"small"),
}
BINDINGS: Mapping[str, Mapping[str, Any]] = {"target": TARGET, "draft": DRAFT}


def written(parts: Mapping[str, Part] = PARTS, key: bytes = KEY) -> bytes:
    file = io.BytesIO()
    write_cache(file, key, parts)
    return file.getvalue()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "cache"
    path.write_bytes(written())
    return path


def contents(parts: Mapping[str, Part]) -> dict[str, tuple[list[int], bytes]]:
    return {name: (list(part.tokens), bytes(part.state)) for name, part in parts.items()}


def test_what_was_written_is_read(path: Path) -> None:
    assert contents(read_cache(path, KEY, BINDINGS)) == contents(PARTS)


def test_a_later_part_that_is_not_wanted_or_no_longer_fits_is_passed_over(path: Path) -> None:
    assert list(read_cache(path, KEY, {"target": TARGET})) == ["target"]
    assert list(read_cache(path, KEY, {**BINDINGS, "draft": {}})) == ["target"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"target": {"size": 6}}, "target"),
        ({"build": "b2"}, "build of llama.cpp"),
        ({"new": 1}, "new"),
    ],
)
def test_a_file_made_with_something_else_says_with_what(
    path: Path, change: dict[str, Any], named: str
) -> None:
    with pytest.raises(UnusableCacheError, match=f"^it was made with another {named}$"):
        read_cache(path, KEY, {"target": {**TARGET, **change}})


def test_no_file_is_no_damage(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_cache(tmp_path / "none", KEY, BINDINGS)


def test_a_file_with_any_byte_changed_or_cut_off_anywhere_is_not_used(path: Path) -> None:
    whole = written()
    for at, byte in enumerate(whole):
        for data in (whole[:at], whole[:at] + bytes([byte ^ 1]) + whole[at + 1 :]):
            path.write_bytes(data)
            with pytest.raises(UnusableCacheError):
                read_cache(path, KEY, BINDINGS)


@given(data=st.binary(max_size=200), n=st.integers(0, 60))
def test_any_bytes_are_refused_without_harm(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, n: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    for content in (data, written()[:n] + data, written() + data + b"\0"):
        path.write_bytes(content)
        with pytest.raises(UnusableCacheError):
            read_cache(path, KEY, BINDINGS)


def test_a_file_that_another_key_has_signed_is_not_used(path: Path) -> None:
    path.write_bytes(written(key=bytes(32)))
    with pytest.raises(UnusableCacheError, match="not written by you on this machine"):
        read_cache(path, KEY, BINDINGS)


def test_a_header_that_claims_to_be_huge_is_not_read(path: Path) -> None:
    magic = written().partition(b"\n")[0] + b"\n"
    path.write_bytes(magic + b"\xff\xff\xff\xff")
    with pytest.raises(UnusableCacheError, match="it is no prompt cache"):
        read_cache(path, KEY, BINDINGS)


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name in ("fifo", "."):
        with pytest.raises(UnusableCacheError):
            read_cache(tmp_path / name, KEY, BINDINGS)


def test_a_user_has_one_key_which_nobody_else_can_read(tmp_path: Path) -> None:
    key = user_key(StateStore(tmp_path))
    assert key == user_key(StateStore(tmp_path))
    assert len(key) == 32 and key != user_key(StateStore(tmp_path / "other"))
    (file,) = (p for p in (tmp_path / "secret").iterdir())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_damaged_key_is_made_anew(tmp_path: Path) -> None:
    user_key(StateStore(tmp_path))
    (file,) = (tmp_path / "secret").iterdir()
    text = file.read_text()
    for damaged in ("", text.replace('"value": "', '"value": "xy')):
        file.write_text(damaged)
        key = user_key(StateStore(tmp_path))
        assert len(key) == 32 and key == user_key(StateStore(tmp_path))


@pytest.mark.parametrize(
    ("cached", "prompt", "n"),
    [
        ("abcdefgh", "abcdefgh", 8),  # the very same: all of it
        ("abcdefgh", "abcdefghi", 6),  # whole passes of three only
        ("abcdefgh", "abcdefg", 6),
        ("abcdefgh", "abcdxfgh", 3),
        ("abcdefgh", "xbc", 0),
        ("", "", 0),
        ("ab", "abc", 0),
    ],
)
def test_what_is_used_was_written_by_the_passes_that_would_write_it(
    cached: str, prompt: str, n: int
) -> None:
    assert n_usable([*cached.encode()], [*prompt.encode()], 3) == n
