"""A file of settings: what it says, and on which line."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_cli.cli.config_file import key_lines, read_config_file
from spec_cli.cli.config_settings import Scope
from spec_cli.errors import UsageError

DOCUMENT = '''\
# temp = 1
model = "a"

stop = [
  "temp = 2",
  # temp = 3
  """
temp = 4
""",
]
"temp" = 5
bench.seed = 6
[run]  # [other]
temp = 7

[ "verify" ]

max-tokens = 8
'''


def test_each_key_has_the_line_on_which_it_is_set() -> None:
    assert key_lines(DOCUMENT) == {
        ("model",): 2,
        ("stop",): 4,
        ("temp",): 11,
        ("bench",): 12,
        ("bench", "seed"): 12,
        ("run",): 13,
        ("run", "temp"): 14,
        ("verify",): 16,
        ("verify", "max-tokens"): 18,
    }


def test_a_file_of_windows_has_the_same_lines() -> None:
    assert key_lines(DOCUMENT.replace("\n", "\r\n")) == key_lines(DOCUMENT)


@pytest.mark.parametrize(
    "text",
    ["[a.b.c]\nd = 1", "[[a]]\nb = 1\n[[a]]\nb = 2", "a.b.c.d = 1", "a = {b = {c = 1}}", "[a]"],
)
def test_what_lies_deeper_has_a_line_too(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.toml").write_text(text)
    values = read_config_file(tmp_path / "x.toml", Scope.USER).values
    assert [keys[0] for keys in values] == ["a"]
    assert all(given.origin.line in (1, 2) for given in values.values())


KEYS = st.text("ab-_.\" 'é", max_size=3)
TEXTS = st.text("a=#[]\"'\n é", max_size=6)
VALUES = st.one_of(st.integers(0, 9), st.booleans(), TEXTS, st.lists(TEXTS, max_size=3))


@settings(deadline=None)
@given(st.dictionaries(KEYS, VALUES, max_size=4), st.dictionaries(KEYS, VALUES, max_size=4))
def test_the_line_of_a_key_begins_with_it(top: dict[str, object], below: dict[str, object]) -> None:
    quoted = [f"{_quoted(key)} = {_toml(value)}" for key, value in top.items()]
    lines = [*quoted, "[table]", *(f"{_quoted(k)} = {_toml(v)}" for k, v in below.items())]
    text = "\n".join(lines)
    assert tomllib.loads(text)["table"] == below
    starts = [1 + sum(line.count("\n") + 1 for line in lines[:n]) for n in range(len(lines))]
    found = key_lines(text)
    assert [found[(key,)] for key in top] == starts[: len(top)]
    assert [found[("table", key)] for key in below] == starts[len(top) + 1 :]


def _quoted(text: str) -> str:
    escaped = "".join(c if c.isalnum() or c in " -_.'" else f"\\U{ord(c):08x}" for c in text)
    return f'"{escaped}"'


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[\n" + "".join(f"  {_quoted(item)},\n" for item in value) + "]"
    return str(value) if isinstance(value, int) else _quoted(str(value))


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"temp = \n", "line 1"),
        (b"a = 1\na = 2\n", "line 2"),
        (b"\xff = 1", "not valid UTF-8"),
        (b"a = " + b"[" * 5000, "cannot read"),
    ],
    ids=["syntax", "twice", "latin-1", "deep"],
)
def test_a_file_that_is_no_toml_is_refused_with_the_place(
    tmp_path: Path, content: bytes, cause: str
) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=cause) as error:
        read_config_file(path, Scope.USER)
    assert str(path) in error.value.message


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(b"\xef\xbb\xbftemp = 1\n")
    assert list(read_config_file(tmp_path / "x.toml", Scope.USER).values) == [("temp",)]
