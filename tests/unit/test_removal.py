from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from filelock import FileLock
from huggingface_hub import constants

from spec_cli import hub
from spec_cli.errors import ModelError
from spec_cli.learned import ACCEPTANCE
from spec_cli.measured import Measurements
from spec_cli.modelref import LocalFile, ModelRef, Pair, RepoFile
from spec_cli.removal import Removal, plan_removal
from spec_cli.state import StateStore, file_identity
from spec_cli.store import lock_path, repo_dir
from tests.hub_cache import put
from tests.tiny_gguf import write_tiny_model
from tests.unit.test_measured import save_draft, save_plan

BIG = RepoFile("user/big-GGUF:Q8_0", "user/big-GGUF", quant="Q8_0")
SMALL = RepoFile("user/small-GGUF:Q8_0", "user/small-GGUF", quant="Q8_0")
OTHER = RepoFile("user/other-GGUF:Q8_0", "user/other-GGUF", quant="Q8_0")
PAIR = Pair("pair", BIG, SMALL)


@dataclass(frozen=True, slots=True)
class Home:
    cache: Path
    copies: Path
    state: StateStore
    big: Path
    small: Path

    def plan(self, *refs: ModelRef, others: tuple[Pair, ...] = ()) -> Removal:
        return plan_removal(refs, others, copies=self.copies, measurements=Measurements(self.state))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    cache = tmp_path / "cache"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    content = write_tiny_model(tmp_path / "small.gguf", n_layer=1).read_bytes()
    return Home(
        cache,
        tmp_path / "copies",
        StateStore(tmp_path / "state"),
        put(cache, "user/big-GGUF", "big-Q8_0.gguf", b"big" * 100),
        put(cache, "user/small-GGUF", "small-Q8_0.gguf", content),
    )


def test_plan_changes_nothing(home: Home) -> None:
    removal = home.plan(*PAIR.models)
    assert removal.freed_bytes == home.big.stat().st_size + home.small.stat().st_size
    assert home.big.exists() and home.small.exists()


def test_what_was_planned_is_gone_with_the_folders_of_its_repositories(home: Home) -> None:
    home.plan(*PAIR.models).carry_out()
    assert list(home.cache.glob("models--*")) == []


def test_other_files_and_revisions_of_a_repository_stay(home: Home) -> None:
    stays = put(home.cache, "user/big-GGUF", "big-Q4_0.gguf", b"other")
    home.plan(BIG).carry_out()
    assert not home.big.exists()
    assert stays.read_bytes() == b"other"
    assert hub.cache_dir() == home.cache and home.small.exists()


def test_revision_of_the_same_name_in_another_repository_stays(home: Home) -> None:
    for _ in range(8):  # sets have no order
        twins = [put(home.cache, f"user/twin{i}", "x-Q8_0.gguf", bytes([i])) for i in range(5)]
        home.plan(RepoFile("user/twin2:Q8_0", "user/twin2", quant="Q8_0")).carry_out()
        assert [twin.exists() for twin in twins] == [True, True, False, True, True]


def test_every_name_of_the_content_goes(home: Home) -> None:
    later = put(home.cache, "user/big-GGUF", "big-Q8_0.gguf", b"big" * 100, revision="b" * 40)
    removal = home.plan(BIG)
    assert removal.links == {home.big, later}
    assert removal.freed_bytes == 300
    removal.carry_out()
    assert not home.big.is_symlink() and not later.is_symlink()
    assert list(home.cache.glob("models--user--big-GGUF")) == []


def test_file_that_a_whole_other_pair_needs_stays(home: Home) -> None:
    put(home.cache, "user/other-GGUF", "other-Q8_0.gguf", b"other")
    removal = home.plan(*PAIR.models, others=(Pair("second", OTHER, SMALL),))
    assert [model.name for model in removal.models] == [BIG.name]
    assert removal.kept == {SMALL.name: "the cached pair `second` needs it, too"}
    removal.carry_out()
    assert home.small.exists() and not home.big.exists()


def test_pair_of_which_a_file_is_missing_needs_nothing(home: Home) -> None:
    removal = home.plan(*PAIR.models, others=(Pair("second", OTHER, SMALL),))
    assert [model.name for model in removal.models] == [BIG.name, SMALL.name]


def test_file_of_ones_own_is_never_deleted(home: Home, tmp_path: Path) -> None:
    own = LocalFile("./small.gguf", tmp_path / "small.gguf")
    removal = home.plan(BIG, own, OTHER)
    assert removal.kept == {
        "./small.gguf": "it is not in the cache, but a file of your own",
        OTHER.name: "it is not in the cache",
    }
    removal.carry_out()
    assert own.path.exists()


def test_copies_and_measurements_go_with_their_model(home: Home) -> None:
    home.copies.mkdir()
    copy = home.copies / "small-Q8_0-draft-q4_0-123.gguf"
    copy.write_bytes(home.small.read_bytes())
    beside = [copy.with_suffix(".lock"), copy.with_name(f"{copy.name}.1.incomplete")]
    for path in beside:
        path.write_bytes(b"")
    foreign = home.copies / "small-Q8_0-draft-q4_0-456.gguf"
    write_tiny_model(foreign, n_layer=2)
    save_plan(home.state, home.big, 1.0)
    save_draft(home.state, home.small, 0.1)
    save_draft(home.state, copy, 0.1)
    save_draft(home.state, foreign, 0.1)
    learned = {"target": file_identity(home.big), "draft": file_identity(home.small)}
    home.state.save(ACCEPTANCE, learned, {})
    removal = home.plan(*PAIR.models)
    assert removal.copies == (copy,)
    assert len(removal.measurements) == 4
    removal.carry_out()
    assert not copy.exists() and foreign.exists()
    assert not any(path.exists() for path in beside)
    assert Measurements(home.state).any_drafted_for() is None
    assert len(home.state.entries("pass-times", {})) == 1
    assert home.state.entries(ACCEPTANCE, {}) == []


def left(home: Home, repo: str, blob: str) -> list[Path]:
    """All that can be left of fetching `blob`, by us and by the hub's own client."""
    blobs = repo_dir(home.cache, repo) / "blobs"
    lock = lock_path(home.cache, repo, blob)
    names = ("spec-cli.incomplete", "spec-cli-parts.incomplete", "1a2b3c4d.incomplete")
    paths = [lock, *(blobs / f"{blob}.{name}" for name in names)]
    paths.append(blobs / f"{blob}.spec-cli.wheels" / "a.whl")
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"left" if path != lock else b"")
    return paths


def test_what_a_download_left_goes_with_its_model_and_that_of_others_stays(home: Home) -> None:
    ours = left(home, BIG.repo, home.big.readlink().name)
    others = [*left(home, BIG.repo, "f" * 64), *left(home, SMALL.repo, "f" * 64)]
    removal = home.plan(BIG)
    assert len(removal.partials) == 4 and removal.n_locks == 1
    assert removal.freed_bytes == 300 + 4 * 4
    removal.carry_out()
    assert not home.big.exists()
    assert not any(path.exists() for path in ours)
    assert all(path.exists() for path in others)


def test_no_folder_is_left_of_a_model_that_was_alone(home: Home) -> None:
    left(home, BIG.repo, home.big.readlink().name)
    home.plan(BIG).carry_out()
    assert not list(home.cache.rglob("*big-GGUF*"))


def test_interrupted_download_of_a_known_file_can_be_deleted(home: Home) -> None:
    known = replace(OTHER, sha256="a" * 64)
    ours, others = left(home, OTHER.repo, "a" * 64), left(home, OTHER.repo, "f" * 64)
    removal = home.plan(known)
    assert not removal.models and not removal.kept
    removal.carry_out()
    assert not any(path.exists() for path in ours)
    assert all(path.exists() for path in others)
    assert home.plan(known).kept == {OTHER.name: "it is not in the cache"}


def test_interrupted_download_of_an_unknown_file_can_be_deleted_where_nothing_else_is(
    home: Home,
) -> None:
    left(home, OTHER.repo, "f" * 64)
    home.plan(OTHER).carry_out()
    assert not list(home.cache.rglob("*other-GGUF*"))
    stays = left(home, BIG.repo, "f" * 64)
    assert not home.plan(replace(BIG, quant="Q4_0"))
    assert all(path.exists() for path in stays)


def test_model_that_another_process_fetches_stays(home: Home) -> None:
    blob = home.big.readlink().name
    paths = left(home, BIG.repo, blob)
    before = home.plan(BIG)
    with FileLock(paths[0]):
        assert "another process holds the lock" in home.plan(BIG).kept[BIG.name]
        with pytest.raises(ModelError, match="another process holds the lock"):
            before.carry_out()
        assert home.big.exists() and all(path.exists() for path in paths)


def test_links_are_not_followed(home: Home, tmp_path: Path) -> None:
    blob = home.big.readlink().name
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "file").write_bytes(b"foreign")
    (foreign / f"{blob}.lock").write_bytes(b"")
    (home.cache / ".locks").mkdir()
    lock_path(home.cache, BIG.repo, blob).parent.symlink_to(foreign)
    for name in ("1.incomplete", "spec-cli.wheels"):
        link = home.big.parents[2] / "blobs" / f"{blob}.{name}"
        link.symlink_to(foreign / "file" if name[0] == "1" else foreign)
    removal = home.plan(BIG)
    assert removal.leftovers == ()
    removal.carry_out()
    assert sorted(path.name for path in foreign.iterdir()) == sorted(["file", f"{blob}.lock"])


def test_damaged_repository_is_named_and_nothing_is_deleted(home: Home) -> None:
    (home.cache / "models--user--big-GGUF/refs/gone").write_text("f" * 40)
    with pytest.raises(ModelError, match=r"cannot delete .*big-Q8_0\.gguf.*missing commit"):
        home.plan(*PAIR.models).carry_out()
    assert home.big.exists() and home.small.exists()
