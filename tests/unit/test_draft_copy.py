"""Copies of the draft: made once, bound to what they were made from, and never a reason to fail."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.draft_copy import Copy, DraftCopies, NoCopy, worth_it
from spec_cli.errors import Cancelled, ResourceError
from spec_cli.gguf import Header, read_header
from spec_cli.spec.costs import PassTimes
from spec_cli.state import StateStore
from tests.tiny_gguf import write_tiny_model

Q4_0, Q2_K = 2, 10  # enum ggml_type
FLAT = PassTimes((1, 16), (1.0, 1.0))


@dataclass
class FakeQuantizer:
    """Takes the place of `quantize_apart`: a copy is whole at once, and the calls are counted."""

    error: Exception | None = None
    seconds: float = 0.0
    n_calls: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(
        self, source: Path, destination: Path, file_type: str, *, cancelled: Callable[[], bool]
    ) -> None:
        assert file_type == "q4_0"
        with self.lock:
            self.n_calls += 1
        time.sleep(self.seconds)
        partial = destination.with_name(f"{destination.name}.{self.n_calls}.incomplete")
        shutil.copy(source, partial)
        if self.error:
            raise self.error
        partial.replace(destination)


@pytest.fixture
def quantizer(monkeypatch: pytest.MonkeyPatch) -> FakeQuantizer:
    fake = FakeQuantizer()
    monkeypatch.setattr("spec_cli.draft_copy.quantize_apart", fake)
    return fake


@pytest.fixture
def source(tmp_path: Path) -> Header:
    return read_header(write_tiny_model(tmp_path / "draft.gguf"))


def copies(
    tmp_path: Path,
    *,
    directory: str = "copies",
    build: str = "1",
    state: str = "state",
    cancelled: bool = False,
    told: list[str] | None = None,
) -> DraftCopies:
    return DraftCopies(
        tmp_path / directory,
        build=build,
        state=StateStore(tmp_path / state),
        cancelled=lambda: cancelled,
        progress=lambda what, fraction: None if told is None else told.append(what),
    )


def path_of(found: Copy | NoCopy) -> Path:
    assert isinstance(found, Copy)
    return found.path


def reason_of(found: Copy | NoCopy) -> str:
    assert isinstance(found, NoCopy)
    return found.reason


def gguf_files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if ".gguf" in path.name)


def test_a_copy_is_made_once(tmp_path: Path, quantizer: FakeQuantizer, source: Header) -> None:
    told: list[str] = []
    first = copies(tmp_path, told=told).copy_of(source)
    path = path_of(first)
    assert first == Copy(path, made=True)
    assert len(told) == 1
    for state in ("state", "another"):
        again = copies(tmp_path, state=state, told=told).copy_of(source)
        assert again == Copy(path, made=False)
    assert quantizer.n_calls == 1
    assert len(told) == 1
    assert gguf_files(tmp_path / "copies") == [path.name]


def test_a_source_is_hashed_once(
    tmp_path: Path, quantizer: FakeQuantizer, source: Header, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = path_of(copies(tmp_path).copy_of(source))
    monkeypatch.setattr("spec_cli.draft_copy._digest", None)
    assert copies(tmp_path).copy_of(source) == Copy(path, made=False)


def test_hashing_a_source_can_be_cancelled(
    tmp_path: Path, quantizer: FakeQuantizer, source: Header
) -> None:
    with pytest.raises(Cancelled):
        copies(tmp_path, cancelled=True).copy_of(source)
    assert quantizer.n_calls == 0


def test_a_changed_source_gets_a_copy_of_its_own(
    tmp_path: Path, quantizer: FakeQuantizer, source: Header
) -> None:
    before = path_of(copies(tmp_path).copy_of(source))
    write_tiny_model(source.path, seed=5)
    os.utime(source.path, ns=(0, 0))  # whatever the clock's resolution is
    after = copies(tmp_path).copy_of(read_header(source.path))
    assert path_of(after) != before
    assert after == Copy(path_of(after), made=True)
    assert path_of(after).read_bytes() == source.path.read_bytes()


def test_the_same_content_elsewhere_shares_the_copy(
    tmp_path: Path, quantizer: FakeQuantizer, source: Header
) -> None:
    path = path_of(copies(tmp_path).copy_of(source))
    other = tmp_path / "other" / source.path.name
    other.parent.mkdir()
    shutil.copy(source.path, other)
    assert copies(tmp_path).copy_of(read_header(other)) == Copy(path, made=False)


def test_another_build_makes_another_copy(
    tmp_path: Path, quantizer: FakeQuantizer, source: Header
) -> None:
    assert copies(tmp_path).copy_of(source) != copies(tmp_path, build="2").copy_of(source)
    assert quantizer.n_calls == 2


@pytest.mark.parametrize("name", ["a b\n[x]*.gguf", "é" * 120 + ".gguf", "-x.gguf"])
def test_any_name_of_a_source_makes_a_name_of_a_copy(
    tmp_path: Path, quantizer: FakeQuantizer, name: str
) -> None:
    (tmp_path / "in").mkdir()
    source = read_header(write_tiny_model(tmp_path / "in" / name))
    path = path_of(copies(tmp_path).copy_of(source))
    assert path.parent == tmp_path / "copies"
    assert path.exists()


def test_what_a_killed_attempt_left_does_no_harm_and_goes(
    tmp_path: Path, quantizer: FakeQuantizer, source: Header
) -> None:
    path = path_of(copies(tmp_path).copy_of(source))
    path.rename(path.with_name(f"{path.name}.abc.incomplete"))
    assert copies(tmp_path).copy_of(source) == Copy(path, made=True)
    assert gguf_files(path.parent) == [path.name]


@pytest.mark.parametrize("damage", ["cut", "other", "directory"])
def test_what_is_no_copy_is_not_taken_for_one(
    tmp_path: Path, quantizer: FakeQuantizer, source: Header, damage: str
) -> None:
    path = path_of(copies(tmp_path).copy_of(source))
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "other":
        write_tiny_model(path, n_layer=1)
    else:
        path.unlink()
        path.mkdir()
    found = copies(tmp_path).copy_of(source)
    if damage == "directory":
        assert "directory" in reason_of(found)
    else:
        assert found == Copy(path, made=True)
        assert path.read_bytes() == source.path.read_bytes()


def test_a_link_is_no_copy_even_to_a_good_one(
    tmp_path: Path, quantizer: FakeQuantizer, source: Header
) -> None:
    path = path_of(copies(tmp_path).copy_of(source))
    elsewhere = path.rename(tmp_path / "elsewhere.gguf")
    path.symlink_to(elsewhere)
    assert copies(tmp_path).copy_of(source) == Copy(path, made=True)
    assert not path.is_symlink()


def test_a_failed_attempt_is_a_reason_and_leaves_nothing(
    tmp_path: Path, quantizer: FakeQuantizer, source: Header
) -> None:
    quantizer.error = ResourceError("the disk burns")
    assert reason_of(copies(tmp_path).copy_of(source)) == "the disk burns"
    assert gguf_files(tmp_path / "copies") == []
    quantizer.error = None
    assert path_of(copies(tmp_path).copy_of(source)).exists()


def test_a_cancelled_attempt_leaves_nothing_and_no_lock(
    tmp_path: Path, quantizer: FakeQuantizer, source: Header
) -> None:
    quantizer.error = Cancelled()
    with pytest.raises(Cancelled):
        copies(tmp_path).copy_of(source)
    assert gguf_files(tmp_path / "copies") == []
    quantizer.error = None
    # Would wait, and be cancelled, if the lock were still held.
    assert path_of(copies(tmp_path, cancelled=True).copy_of(source)).exists()


def test_makers_at_once_end_with_one_copy(
    tmp_path: Path, quantizer: FakeQuantizer, source: Header
) -> None:
    quantizer.seconds = 0.1
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: copies(tmp_path).copy_of(source), range(4)))
    assert quantizer.n_calls == 1
    assert sorted(isinstance(copy, Copy) and copy.made for copy in found) == [False] * 3 + [True]
    assert len({path_of(copy) for copy in found}) == 1


def test_waiting_for_another_maker_can_be_cancelled(
    tmp_path: Path, quantizer: FakeQuantizer, source: Header
) -> None:
    path = path_of(copies(tmp_path).copy_of(source))
    path.unlink()
    with FileLock(path.with_suffix(".lock")), pytest.raises(Cancelled):
        copies(tmp_path, cancelled=True).copy_of(source)
    assert quantizer.n_calls == 1


def test_a_full_disk_is_a_reason_before_the_first_byte(
    tmp_path: Path, quantizer: FakeQuantizer, source: Header, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spec_cli.draft_copy.free_space", lambda directory: 12_000_000)
    reason = reason_of(copies(tmp_path).copy_of(source))
    assert "needs 0.27 GB free" in reason
    assert "there are 0.01 GB" in reason
    assert quantizer.n_calls == 0


def test_a_directory_that_cannot_be_made_is_a_reason(
    tmp_path: Path, quantizer: FakeQuantizer, source: Header
) -> None:
    (tmp_path / "file").write_text("")
    reason = reason_of(copies(tmp_path, directory="file/copies").copy_of(source))
    assert str(tmp_path / "file" / "copies") in reason
    assert "Not a directory" in reason


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_cannot_be_written_is_a_reason(
    tmp_path: Path, quantizer: FakeQuantizer, source: Header
) -> None:
    (tmp_path / "copies").mkdir(mode=0o500)
    assert "Permission denied" in reason_of(copies(tmp_path).copy_of(source))


def test_the_directory_is_the_users_alone(
    tmp_path: Path, quantizer: FakeQuantizer, source: Header
) -> None:
    copies(tmp_path).copy_of(source)
    assert (tmp_path / "copies").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("kind", [Q4_0, Q2_K])
def test_a_source_no_larger_than_q4_0_gets_no_copy(
    tmp_path: Path, quantizer: FakeQuantizer, source: Header, kind: int
) -> None:
    small = tuple(replace(t, kind=kind) if len(t.shape) > 1 else t for t in source.tensors)
    saved = sum(t.n_bytes for t in source.tensors) - sum(t.n_bytes for t in small)
    header = replace(source, tensors=small, n_bytes=source.n_bytes - saved, quant="Q_TINY")
    assert "hardly be smaller than draft.gguf, Q_TINY" in reason_of(
        copies(tmp_path).copy_of(header)
    )
    assert quantizer.n_calls == 0


def test_a_recurrent_source_gets_no_copy(tmp_path: Path, quantizer: FakeQuantizer) -> None:
    mamba = read_header(write_tiny_model(tmp_path / "mamba.gguf", arch="mamba"))
    assert "attention layers alone" in reason_of(copies(tmp_path).copy_of(mamba))


@pytest.mark.parametrize("name", ["blk.1.ssm_in.weight", "blk.0.time_mix_key.weight"])
def test_a_hybrid_source_gets_no_copy(
    tmp_path: Path, quantizer: FakeQuantizer, source: Header, name: str
) -> None:
    extra = replace(source.tensors[0], name=name)
    hybrid = replace(source, tensors=(*source.tensors, extra))
    assert "attention layers alone" in reason_of(copies(tmp_path).copy_of(hybrid))


def test_a_split_source_gets_no_copy(
    tmp_path: Path, quantizer: FakeQuantizer, source: Header
) -> None:
    split = replace(source, path=tmp_path / "draft-00001-of-00002.gguf")
    assert "split into parts" in reason_of(copies(tmp_path).copy_of(split))


def test_a_copy_at_half_the_time_is_worth_it() -> None:
    assert worth_it(FLAT, original_token_s=0.2, copy_token_s=0.1, k_max=15)


def test_a_copy_that_hardly_saves_time_is_not_worth_its_worse_guesses() -> None:
    # At k = 1: 1.85 / 1.2 = 1.542 with the original, 1.835 / 1.195 = 1.536 with the copy.
    assert not worth_it(FLAT, original_token_s=0.2, copy_token_s=0.195, k_max=1)
    assert worth_it(FLAT, original_token_s=0.2, copy_token_s=0.185, k_max=1)


@given(
    token_s=st.floats(1e-4, 10), slower=st.floats(1, 3), k_max=st.integers(0, 15),
    slope=st.floats(0, 1),
)  # fmt: skip
def test_a_copy_that_is_no_faster_is_never_worth_it(
    token_s: float, slower: float, k_max: int, slope: float
) -> None:
    target = PassTimes((1, 16), (1.0, 1.0 + 15 * slope))
    assert not worth_it(
        target, original_token_s=token_s, copy_token_s=slower * token_s, k_max=k_max
    )
