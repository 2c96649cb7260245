from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from spec_cli.errors import ExitCode, ModelError, UsageError
from spec_cli.modelref import LocalFile, Mirror, RepoFile, parse_model
from spec_cli.registry import (
    Registry,
    load_registry,
    origin,
    registry_paths,
    user_registry_path,
)

Write = Callable[..., Path]

COMMIT = "c" * 40
SHA256 = "5" * 64

BASE = f"""
default = "toy"
[pairs.toy]
target = "user/toy-GGUF:Q8_0"
draft = "user/tiny-GGUF"
draft_tokens = 4
notes = "A toy"
[files."user/toy-GGUF:Q8_0"]
file = "toy-q8_0.gguf"
revision = "{COMMIT}"
size_bytes = 100
sha256 = "{SHA256}"
license = "MIT"
[files."user/toy-GGUF:Q8_0".mirror]
package = "toy-part{{n}}"
version = "1.0"
parts = 12
member = "toy_part{{n}}/part{{n:02}}.bin"
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def _write(text: str, name: str = "models.toml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return _write


@pytest.fixture
def registry(write: Write) -> Registry:
    return load_registry([write(BASE)])


# -- how a model is written


@pytest.mark.parametrize(
    ("text", "repo", "quant"),
    [
        ("Qwen/Qwen3-8B-GGUF:Q4_K_M", "Qwen/Qwen3-8B-GGUF", "Q4_K_M"),
        ("Qwen/Qwen3-8B-GGUF:q8_0", "Qwen/Qwen3-8B-GGUF", "q8_0"),
        ("Qwen/Qwen3-8B-GGUF", "Qwen/Qwen3-8B-GGUF", "Q4_K_M"),
        ("user.x/repo_1.5-it:UD-Q4_K_XL", "user.x/repo_1.5-it", "UD-Q4_K_XL"),
    ],
)
def test_repository_with_a_quant(text: str, repo: str, quant: str) -> None:
    assert parse_model(text) == RepoFile(name=text, repo=repo, quant=quant)


@pytest.mark.parametrize(
    ("text", "file", "revision"),
    [
        ("hf://user/repo/x.gguf", "x.gguf", None),
        ("hf://user/repo/q8/x.gguf", "q8/x.gguf", None),
        ("hf://user/repo@main/q8/x.gguf", "q8/x.gguf", "main"),
        (f"hf://user/repo/x.gguf@{COMMIT}", "x.gguf", COMMIT),
    ],
)
def test_file_of_a_repository(text: str, file: str, revision: str | None) -> None:
    assert parse_model(text) == RepoFile(name=text, repo="user/repo", file=file, revision=revision)


@pytest.mark.parametrize("text", ["./x", "x.gguf", "sub/X.GGUF", "../a/b", "/abs/x.gguf", ".x"])
def test_path_is_a_local_file(text: str) -> None:
    assert parse_model(text) == LocalFile(name=text, path=Path(text))


def test_path_with_a_tilde_starts_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert parse_model("~/x") == LocalFile(name="~/x", path=Path("/home/me/x"))


def test_file_that_exists_is_a_local_file_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "model").touch()
    assert parse_model("model", tmp_path) == LocalFile(name="model", path=tmp_path / "model")
    assert parse_model("other", tmp_path) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "toy",
        "a/b/c",
        "a/b:",
        "hf://user/repo",
        "hf://user/repo/x.bin",
        "hf://user/repo/../x.gguf",
        "hf://user/repo/../../../etc/x.gguf",
        "hf://user/repo//x.gguf",
        "hf://user/repo@../x.gguf",
        "hf://user/repo/x.gguf@../../y",
    ],
)
def test_other_text_is_no_model(text: str) -> None:
    assert parse_model(text) is None


# -- what the registry knows


def test_pair_has_its_facts(registry: Registry) -> None:
    assert registry.default is registry.pairs["toy"]
    target = RepoFile(
        name="user/toy-GGUF:Q8_0",
        repo="user/toy-GGUF",
        quant="Q8_0",
        file="toy-q8_0.gguf",
        revision=COMMIT,
        size_bytes=100,
        sha256=SHA256,
        license="MIT",
        mirror=Mirror("toy-part{n}", "1.0", "toy_part{n}/part{n:02}.bin", 12),
    )
    assert registry.default.target == target
    assert registry.default.draft == RepoFile("user/tiny-GGUF", "user/tiny-GGUF", "Q4_K_M")
    assert registry.default.draft_tokens == 4
    assert registry.default.notes == "A toy"


def test_pieces_of_a_mirror_are_numbered() -> None:
    mirror = Mirror("toy-part{n}", "1.0", "toy_part{n}/part{n:02}.bin", 12)
    assert (mirror.requirement(3), mirror.member_of(3)) == (
        "toy-part3==1.0",
        "toy_part3/part03.bin",
    )
    assert (mirror.requirement(12), mirror.member_of(12)) == (
        "toy-part12==1.0",
        "toy_part12/part12.bin",
    )


@pytest.mark.parametrize(
    "text",
    ["toy", "user/toy-GGUF:Q8_0", "User/Toy-GGUF:q8_0", "hf://user/toy-GGUF/toy-q8_0.gguf"],
)
def test_known_file_has_its_facts_however_it_is_named(registry: Registry, text: str) -> None:
    ref = registry.model(text)
    assert isinstance(ref, RepoFile)
    assert (ref.sha256, ref.revision) == (SHA256, COMMIT)


def test_other_revision_of_a_known_file_has_no_facts(registry: Registry) -> None:
    ref = registry.model("hf://user/toy-GGUF@main/toy-q8_0.gguf")
    assert isinstance(ref, RepoFile)
    assert (ref.sha256, ref.revision) == (None, "main")


def test_any_model_can_stand_where_a_pair_is_named(registry: Registry) -> None:
    pair = registry.pair("user/other:Q8_0")
    assert (pair.target, pair.draft) == (RepoFile("user/other:Q8_0", "user/other", "Q8_0"), None)
    assert registry.pair("toy") is registry.default


def test_unknown_name_is_a_model_error_with_the_nearest_name(registry: Registry) -> None:
    with pytest.raises(ModelError, match="no model is called `Toi`") as raised:
        registry.pair("Toi")
    assert raised.value.exit_code is ExitCode.MODEL
    assert str(raised.value.hint).startswith("did you mean `toy`?")


def test_name_near_to_nothing_is_told_the_forms(registry: Registry) -> None:
    with pytest.raises(ModelError) as raised:
        registry.model("zzzzzz")
    assert "user/repo:QUANT" in str(raised.value.hint)


# -- layers


def test_later_file_adds_and_replaces_whole_pairs(write: Write) -> None:
    over = """
    default = "mine"
    [pairs.toy]
    target = "user/toy-GGUF:Q8_0"
    [pairs.mine]
    target = "./mine.gguf"
    """
    path = write(over, "user/models.toml")
    registry = load_registry([write(BASE), path])
    assert registry.default.name == "mine"
    assert registry.default.target == LocalFile("./mine.gguf", path.parent / "mine.gguf")
    assert registry.pairs["toy"].draft is None
    assert registry.pairs["toy"].draft_tokens is None
    assert registry.pairs["toy"].target == load_registry([write(BASE)]).default.target


def test_later_facts_hold_for_an_earlier_pair(write: Write) -> None:
    over = '[files."user/tiny-GGUF:q4_k_m"]\nfile = "tiny.gguf"\nlicense = "MIT"'
    draft = load_registry([write(BASE), write(over, "over.toml")]).default.draft
    assert isinstance(draft, RepoFile)
    assert (draft.file, draft.license) == ("tiny.gguf", "MIT")


def test_registry_files_rank_packaged_user_directory(write: Write, tmp_path: Path) -> None:
    config, cwd = tmp_path / "config", tmp_path / "cwd"
    cwd.mkdir()
    packaged = registry_paths(cwd, config)
    assert len(packaged) == 1
    user = write("", "config/models.toml")
    here = write("", "cwd/models.toml")
    assert registry_paths(cwd, config) == [*packaged, user, here]


def test_packaged_file_in_the_current_directory_is_read_once(tmp_path: Path) -> None:
    (packaged,) = registry_paths(tmp_path, tmp_path)
    assert registry_paths(packaged.parent, tmp_path) == [packaged]


def test_packaged_registry_is_sound(tmp_path: Path) -> None:
    registry = load_registry(registry_paths(tmp_path, tmp_path))
    assert registry.default.name == "qwen2.5-coder-1.5b"
    assert registry.default.draft is not None
    for known in registry.files.values():
        assert known.license, known.name
        if known.on_hub and known.revision is not None:
            assert re.fullmatch("[0-9a-f]{40}", known.revision), known.name
    models = [(pair.target, pair.draft) for pair in registry.pairs.values()]
    named = {ref.name for pair in models for ref in pair if ref}
    assert {known.name for known in registry.files.values()} <= named


# -- mistakes

MISTAKES = [
    ("x = " + "[" * 100_000, "cannot read", None),
    ("default = ", "cannot read", None),
    ("defualt = 'toy'", "unknown key `defualt`", "did you mean `default`?"),
    ("default = 1", "`default` is 1, but must be a string", None),
    ("default = 'tyo'", "`default` names the unknown pair `tyo`", "did you mean `toy`?"),
    ("pairs = 1", "`pairs` is 1, but must be a table", None),
    ("pairs.mine = 1", "[pairs.mine]: must be a table", None),
    ("[pairs.mine]", "[pairs.mine]: `target` is missing", None),
    ("[pairs.mine]\ntarget = 1", "`target` is 1, but must be a string", None),
    ("[pairs.mine]\ntarget = 'nothing'", "names `nothing`, which is not a model", "write `user/"),
    ("[pairs.mine]\ntarget='a/b'\ndraft=''", "names ``, which is not a model", "write `user/"),
    ("[pairs.'m.1']\ntarget='a/b'\nnote=''", '[pairs."m.1"]: unknown key', "`notes`?"),
    ("[pairs.mine]\ntarget='a/b'\nxyzzy=''", "unknown key `xyzzy`", "known are target, draft"),
    (
        "[pairs.mine]\ntarget='a/b'\ndraft_tokens=0",
        "`draft_tokens` is 0, but must be from 1 to 63",
        None,
    ),
    (
        "[pairs.mine]\ntarget='a/b'\ndraft_tokens=64",
        "[pairs.mine]: `draft_tokens` is 64, but must be from 1 to 63",
        None,
    ),
    (
        "[pairs.mine]\ntarget='a/b'\ndraft_tokens=true",
        "`draft_tokens` is true, but must be an integer",
        None,
    ),
    ("[files.'a/b']", 'the name must be "user/repo:QUANT"', None),
    ("[files.'a/b:Q']\nsha265='x'", "unknown key `sha265`", "did you mean `sha256`?"),
    (
        "[files.'a/b:Q']\nsha256='ABC'",
        "`sha256` is `ABC`, but must be 64 lower-case hex digits",
        None,
    ),
    (
        "[files.'a/b:Q']\nfile='../x.gguf'",
        "`file` is `../x.gguf`, but must be a path in the repository",
        None,
    ),
    ("[files.'a/b:Q']\nfile=\"x\\u0000.gguf\"", "must be a path in the repository", None),
    (
        "[files.'a/b:Q']\nfile='/x.gguf'",
        "`file` is `/x.gguf`, but must be a path in the repository",
        None,
    ),
    (
        "[files.'a/b:Q']\nrevision='../x'",
        "`revision` is `../x`, but must be a commit or a version",
        None,
    ),
    ("[files.'b:Q']\nlicense='MIT'", "a file of no hub repository needs a mirror", None),
    (
        "[files.'a/b:Q']\nmirror={package='p', version='1', member='m'}",
        "a mirror needs file, revision, size_bytes and sha256",
        None,
    ),
    ("[files.'a/b:Q']\nmirror={package='p', version='1'}", "`member` is missing", None),
    ("[files.'a/b:Q']\nmirror={packages='p'}", "unknown key `packages`", "`package`?"),
    (
        "[files.'a/b:Q']\nmirror={package='p', version='1', member='m', parts=0}",
        "`parts` is 0, but must be positive",
        None,
    ),
    ("[files.'a/b:Q']\nsize_bytes=0", "`size_bytes` is 0, but must be positive", None),
]


@pytest.mark.parametrize(("text", "message", "hint"), MISTAKES)
def test_mistake_names_the_file_and_the_key(
    write: Write, text: str, message: str, hint: str | None
) -> None:
    path = write(text, "mine.toml")
    with pytest.raises(UsageError) as raised:
        load_registry([write(BASE), path])
    assert raised.value.exit_code is ExitCode.USAGE
    assert str(path) in raised.value.message
    assert message in raised.value.message
    assert hint is None or hint in str(raised.value.hint)


PACKAGES = [
    "./p",
    "../p",
    "/p",
    "-r",
    "--index-url=x",
    "p @ file:///p",
    "git+https://h/p",
    "p[x]",
    "",
]
VERSIONS = ["1/../p", "1.zip", "1+p.zip", "1 @ x", "1,>0", "1*", "-r", ""]


@pytest.mark.parametrize(
    ("key", "value"),
    [*(("package", p) for p in PACKAGES), *(("version", v) for v in VERSIONS)],
)
def test_a_mirror_names_a_package_of_an_index_and_nothing_whose_code_pip_would_run(
    write: Write, key: str, value: str
) -> None:
    mirror = {"package": "p", "version": "1.0rc1.post2", "member": "m"}
    facts = f"[files.'a/b:Q']\nfile='f'\nrevision='1'\nsize_bytes=1\nsha256='{SHA256}'\n"

    def load(mirror: dict[str, str]) -> Registry:
        table = ", ".join(f"{name} = '{text}'" for name, text in mirror.items())
        return load_registry([write(BASE), write(f"{facts}mirror={{{table}}}", "mine.toml")])

    assert load(mirror).files["a/b:q"].mirror == Mirror(**mirror)
    with pytest.raises(UsageError, match=f"`{key}` is"):
        load(mirror | {key: value})


def test_file_that_is_not_utf8_is_a_usage_error(write: Write) -> None:
    path = write("")
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="cannot read"):
        load_registry([path])


def test_byte_order_mark_of_an_editor_counts_for_nothing(write: Write) -> None:
    assert load_registry([write("\ufeff" + BASE)]).default.name == "toy"


def test_registry_without_a_default_is_refused(write: Write) -> None:
    with pytest.raises(UsageError, match="default"):
        load_registry([write("")])


# -- where a pair is named


def test_origin_of_a_pair_is_the_last_file_that_names_it(write: Write) -> None:
    base = write(BASE)
    own = write(
        '[pairs.own]\ntarget = "user/own-GGUF:Q8_0"\n[pairs.toy]\ntarget = "./toy.gguf"\n',
        "own.toml",
    )
    registry = load_registry([base, own])
    assert registry.origins == {"toy": own, "own": own}
    assert load_registry([base]).origins == {"toy": base}


def test_origins_have_names() -> None:
    packaged, *_ = registry_paths(cwd=Path("/nowhere"), config_dir=Path("/nowhere"))
    assert origin(packaged) == "built in"
    assert origin(user_registry_path()) == "user"
    assert origin(Path("/elsewhere/models.toml")) == "directory"
