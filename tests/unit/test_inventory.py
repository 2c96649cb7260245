from __future__ import annotations

from pathlib import Path

from spec_cli.inventory import cached_files, links_to
from spec_cli.modelref import RepoFile
from tests.hub_cache import put

REPO = "user/toy-GGUF"


def test_models_of_the_cache_are_listed_whoever_fetched_them(tmp_path: Path) -> None:
    put(tmp_path, REPO, "toy-Q8_0.gguf", b"eight")
    put(tmp_path, REPO, "README.md", b"# Toy")
    put(tmp_path, "a/b", "deep/x.gguf", b"deep")
    first, second = cached_files(tmp_path, {})
    assert (first.repo, first.file, first.name) == ("a/b", "deep/x.gguf", "hf://a/b/deep/x.gguf")
    assert (second.name, second.size_bytes) == (f"{REPO}:Q8_0", 5)
    assert second.path.read_bytes() == b"eight"


def test_empty_or_missing_cache_has_no_models(tmp_path: Path) -> None:
    assert cached_files(tmp_path / "none", {}) == []
    assert cached_files(tmp_path, {}) == []


def test_split_model_counts_once_and_only_when_it_is_whole(tmp_path: Path) -> None:
    put(tmp_path, REPO, "big-Q4_0-00001-of-00002.gguf", b"one")
    assert cached_files(tmp_path, {}) == []
    put(tmp_path, REPO, "big-Q4_0-00002-of-00002.gguf", b"two!")
    (model,) = cached_files(tmp_path, {})
    assert (model.size_bytes, model.path.name) == (7, "big-Q4_0-00001-of-00002.gguf")


def test_one_content_in_two_revisions_is_one_model(tmp_path: Path) -> None:
    put(tmp_path, REPO, "toy-Q8_0.gguf", b"same", revision="b" * 40)
    put(tmp_path, REPO, "toy-Q8_0.gguf", b"same", revision="c" * 40)
    put(tmp_path, REPO, "toy-Q8_0.gguf", b"other", revision="d" * 40)
    assert len(cached_files(tmp_path, {})) == 2


def test_registry_name_goes_before_others(tmp_path: Path) -> None:
    put(tmp_path, "toy", "x.gguf", b"x")
    known = {"toy:q8_0": RepoFile("toy:Q8_0", "toy", quant="Q8_0", file="x.gguf")}
    assert [model.name for model in cached_files(tmp_path, known)] == ["toy:Q8_0"]


def test_quant_that_two_files_share_is_no_name_for_the_longer(tmp_path: Path) -> None:
    for file in ("x-Q4_K_M.gguf", "long-x-Q4_K_M.gguf"):
        put(tmp_path, REPO, file, file.encode())
    names = {model.file: model.name for model in cached_files(tmp_path, {})}
    assert names["x-Q4_K_M.gguf"] == f"{REPO}:Q4_K_M"
    assert names["long-x-Q4_K_M.gguf"] == f"hf://{REPO}/long-x-Q4_K_M.gguf"


def test_all_names_of_a_content_are_found(tmp_path: Path) -> None:
    one = put(tmp_path, REPO, "toy-Q8_0.gguf", b"same", revision="b" * 40)
    two = put(tmp_path, REPO, "toy-Q8_0.gguf", b"same", revision="c" * 40)
    put(tmp_path, REPO, "toy-Q4_0.gguf", b"other", revision="c" * 40)
    assert links_to({one}, tmp_path) == {one, two}
