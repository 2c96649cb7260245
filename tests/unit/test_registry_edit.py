from __future__ import annotations

import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_cli.errors import UsageError
from spec_cli.registry_edit import add_pair, forget_pair
from spec_cli.registry_file import read_registry_file

TEXT = """\
# my models
default = "one"  # the best

[pairs.one]
target = "user/one-GGUF:Q8_0"  # big
notes = "keep"

# what is known
[files."user/one-GGUF:Q8_0"]
license = "MIT"

[pairs.two]
target = "user/two-GGUF:Q8_0"
"""
FIELDS: dict[str, str | int] = {"target": "user/new-GGUF:Q8_0", "draft_tokens": 3}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "models.toml"
    path.write_text(TEXT)
    return path


def test_first_pair_makes_file_and_directory(tmp_path: Path) -> None:
    path = tmp_path / "deep/er/models.toml"
    add_pair(path, "one", FIELDS)
    assert tomllib.loads(path.read_text()) == {"pairs": {"one": FIELDS}}
    assert list(path.parent.iterdir()) == [path]


def test_added_pair_leaves_every_line_as_it_was(path: Path) -> None:
    add_pair(path, "new", FIELDS)
    text = path.read_text()
    assert set(TEXT.splitlines()) <= set(text.splitlines())
    positions = [text.index(line) for line in TEXT.splitlines() if line]
    assert positions == sorted(positions)
    assert tomllib.loads(text)["pairs"]["new"] == FIELDS


def test_replaced_pair_keeps_its_place_and_loses_what_it_no_longer_has(path: Path) -> None:
    add_pair(path, "one", FIELDS)
    text = path.read_text()
    assert tomllib.loads(text)["pairs"]["one"] == FIELDS
    assert text.index("[pairs.one]") < text.index("# what is known") < text.index("[pairs.two]")


@pytest.mark.parametrize("name", ["one", "two"])
def test_forgotten_pair_is_gone_and_nothing_else(path: Path, name: str) -> None:
    assert forget_pair(path, name)
    before, after = tomllib.loads(TEXT), tomllib.loads(path.read_text())
    del before["pairs"][name]
    assert after == before
    assert "# my models" in path.read_text()


def test_adding_and_forgetting_leaves_the_file_as_it_was(path: Path) -> None:
    add_pair(path, "new", FIELDS)
    forget_pair(path, "new")
    assert path.read_text().split() == TEXT.split()


def test_forgetting_what_is_not_there_touches_nothing(path: Path, tmp_path: Path) -> None:
    assert not forget_pair(path, "three")
    assert not forget_pair(tmp_path / "none.toml", "three")
    assert path.read_text() == TEXT
    assert not (tmp_path / "none.toml").exists()


def test_link_to_the_users_file_stays_a_link(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    add_pair(link, "new", FIELDS)
    assert link.is_symlink()
    assert "new" in read_registry_file(path).pairs


def test_mode_of_the_file_stays(path: Path) -> None:
    path.chmod(0o640)
    add_pair(path, "new", FIELDS)
    assert path.stat().st_mode & 0o777 == 0o640


def test_pairs_that_are_added_at_the_same_time_are_all_kept(path: Path) -> None:
    names = [f"new{i}" for i in range(8)]
    barrier = Barrier(len(names))

    def add(name: str) -> None:
        barrier.wait()
        add_pair(path, name, FIELDS)

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(add, names))
    assert set(names) <= set(read_registry_file(path).pairs)
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_is_not_utf8_is_a_usage_error(path: Path) -> None:
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="not valid UTF-8"):
        add_pair(path, "new", FIELDS)
    assert path.read_bytes() == b"\xff"


def test_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot write .*file/models.toml"):
        add_pair(tmp_path / "file/models.toml", "one", FIELDS)


@settings(deadline=None)
@given(
    name=st.from_regex(r"\w[\w.+-]{0,20}", fullmatch=True),
    notes=st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
)
def test_any_name_and_any_notes_come_back(
    tmp_path_factory: pytest.TempPathFactory, name: str, notes: str
) -> None:
    path = tmp_path_factory.mktemp("registry") / "models.toml"
    path.write_text(TEXT)
    add_pair(path, name, {**FIELDS, "notes": notes})
    assert read_registry_file(path).pairs[name].notes == notes
    assert forget_pair(path, name)
    assert name not in read_registry_file(path).pairs
