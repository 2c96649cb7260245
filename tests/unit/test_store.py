from __future__ import annotations

import hashlib
from pathlib import Path
from threading import Event, Thread

import pytest
from huggingface_hub import hf_hub_download, scan_cache_dir

from spec_cli import store
from spec_cli.errors import DownloadError
from spec_cli.store import Slot

CONTENT = b"GGUF" + bytes(range(256)) * 8
COMMIT = "b" * 40


def slot_for(cache_dir: Path, content: bytes = CONTENT, file: str = "x.gguf") -> Slot:
    digest = hashlib.sha256(content).hexdigest()
    return Slot(cache_dir, "user/repo", COMMIT, file, digest, len(content))


def fill(slot: Slot, content: bytes = CONTENT, branch: str | None = None) -> None:
    slot.partial_path.parent.mkdir(parents=True, exist_ok=True)
    slot.partial_path.write_bytes(content)
    store.place(slot, branch)


@pytest.mark.parametrize("file", ["x.gguf", "q8/x.gguf"])
def test_placed_file_is_found_by_the_hubs_own_client(tmp_path: Path, file: str) -> None:
    slot = slot_for(tmp_path, file=file)
    fill(slot)
    for revision in (COMMIT, "main"):
        found = hf_hub_download(
            "user/repo", file, revision=revision, cache_dir=tmp_path, local_files_only=True
        )
        assert Path(found) == slot.path
    assert slot.path.read_bytes() == CONTENT
    assert not slot.path.readlink().is_absolute()
    assert slot.path.readlink().name == slot.blob
    report = scan_cache_dir(tmp_path)
    assert not report.warnings
    assert {repo.repo_id for repo in report.repos} == {"user/repo"}


def test_file_of_no_hub_repository_is_listed_by_the_hubs_own_client(tmp_path: Path) -> None:
    digest = hashlib.sha256(CONTENT).hexdigest()
    fill(Slot(tmp_path, "toy-instruct", "0.1.2", "x.gguf", digest, len(CONTENT)))
    report = scan_cache_dir(tmp_path)
    assert not report.warnings
    assert {repo.repo_id for repo in report.repos} == {"toy-instruct"}


def test_wrong_content_is_never_left_in_place(tmp_path: Path) -> None:
    slot = slot_for(tmp_path)
    with pytest.raises(DownloadError, match="SHA-256"):
        fill(slot, CONTENT[:-1] + b"?")
    assert not slot.path.exists()
    assert not slot.blob_path.exists()
    assert not slot.partial_path.exists()


def test_wrong_size_is_never_left_in_place(tmp_path: Path) -> None:
    slot = slot_for(tmp_path)
    sizes = f"{len(CONTENT) - 1:,} bytes instead of {len(CONTENT):,}"
    with pytest.raises(DownloadError, match=sizes):
        fill(slot, CONTENT[:-1])
    assert not slot.path.exists()
    assert not slot.partial_path.exists()


def test_pinned_file_leaves_a_known_main_branch_alone(tmp_path: Path) -> None:
    slot = slot_for(tmp_path)
    ref = store.repo_dir(tmp_path, "user/repo") / "refs" / "main"
    ref.parent.mkdir(parents=True)
    ref.write_text("d" * 40)
    fill(slot, branch=None)
    assert store.commit_of(tmp_path, "user/repo", "main") == "d" * 40


def test_file_of_a_branch_moves_the_branch(tmp_path: Path) -> None:
    fill(slot_for(tmp_path), branch="main")
    assert store.commit_of(tmp_path, "user/repo", "main") == COMMIT
    newer = Slot(tmp_path, "user/repo", "e" * 40, "x.gguf", slot_for(tmp_path).blob, len(CONTENT))
    store.place(newer, branch="main")
    assert store.commit_of(tmp_path, "user/repo", "main") == "e" * 40


def test_content_that_is_here_under_another_commit_is_linked_not_fetched(tmp_path: Path) -> None:
    first = slot_for(tmp_path)
    fill(first)
    second = Slot(tmp_path, "user/repo", "e" * 40, "x.gguf", first.blob, first.size_bytes)
    assert second.missing_bytes == 0
    store.place(second, branch=None)
    assert second.path.samefile(first.path)


def test_without_symbolic_links_the_file_itself_is_in_the_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object) -> None:
        raise OSError("symbolic links are not supported")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    slot = slot_for(tmp_path)
    fill(slot)
    assert not slot.path.is_symlink()
    assert slot.path.read_bytes() == CONTENT
    assert slot.is_filled
    assert slot.missing_bytes == 0


def test_truncated_blob_counts_as_missing(tmp_path: Path) -> None:
    slot = slot_for(tmp_path)
    fill(slot)
    slot.blob_path.write_bytes(CONTENT[:10])
    assert not slot.is_filled
    assert slot.missing_bytes == len(CONTENT)


def test_partial_file_counts_as_had(tmp_path: Path) -> None:
    slot = slot_for(tmp_path)
    slot.partial_path.parent.mkdir(parents=True)
    slot.partial_path.write_bytes(CONTENT[:100])
    assert slot.missing_bytes == len(CONTENT) - 100


def test_waiting_for_another_process_reports_what_that_one_has(tmp_path: Path) -> None:
    slot = slot_for(tmp_path)
    slot.partial_path.parent.mkdir(parents=True)
    slot.partial_path.write_bytes(CONTENT[:100])
    held, waited, reported = Event(), Event(), []

    def hold() -> None:
        with store.locked(slot, on_wait=lambda _: None):
            held.set()
            waited.wait(timeout=30)

    def on_wait(n_bytes: int) -> None:
        reported.append(n_bytes)
        waited.set()

    holder = Thread(target=hold)
    holder.start()
    held.wait(timeout=30)
    with store.locked(slot, on_wait):
        assert reported[0] == 100
    holder.join()


def test_disk_that_is_too_small_is_refused_with_both_sizes(tmp_path: Path) -> None:
    not_yet_there = tmp_path / "a" / "b"
    free_bytes = store.free_space(not_yet_there)
    store.require_space(not_yet_there, 1)
    with pytest.raises(DownloadError, match=r"needs \d+\.\d\d GB .* has \d+\.\d\d GB free"):
        store.require_space(not_yet_there, free_bytes * 2)
