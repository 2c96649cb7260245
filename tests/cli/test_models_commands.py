"""`spec-cli models show|path|rm|check|suggest|add|forget`, and what a shell completes."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pexpect
import pytest
from huggingface_hub import constants

from tests.cli.conftest import Call, Done, SpecCli
from tests.cli.tiny_models import Models
from tests.hub_cache import put

REGISTRY = """
[pairs.toy]
target = "user/toy-GGUF:Q8_0"
draft = "user/tiny-GGUF:Q8_0"
notes = "A toy"
[pairs.alone]
target = "user/toy-GGUF:Q8_0"
"""


@dataclass(frozen=True, slots=True)
class Home:
    """A home with a pair `toy` in its registry and its cache."""

    path: Path
    call: Call
    target: Path
    draft: Path

    @property
    def registry(self) -> Path:
        return self.path / "CONFIG/spec-cli/models.toml"

    def __call__(self, *args: str | Path, **how: bytes) -> Done:
        return self.call("models", *args, **how)


@pytest.fixture
def home(tmp_path: Path, models: Models, monkeypatch: pytest.MonkeyPatch) -> Home:
    spec_cli = SpecCli(tmp_path)
    cache = tmp_path / "hf/hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    for name, value in spec_cli.own.items():
        monkeypatch.setenv(name, value)
    home = Home(
        tmp_path,
        Call(spec_cli),
        put(cache, "user/toy-GGUF", "toy-Q8_0.gguf", models.target.read_bytes()),
        put(cache, "user/tiny-GGUF", "tiny-Q8_0.gguf", models.draft.read_bytes()),
    )
    home.registry.parent.mkdir(parents=True)
    home.registry.write_text(REGISTRY)
    return home


# -- list --files


def test_files_of_the_cache_are_listed_with_what_they_say(home: Home) -> None:
    heading, *lines = home("list", "--files").stdout.decode().splitlines()
    assert heading.split()[:3] == ["FILE", "SIZE", "QUANT"]
    assert len(lines) == 2
    assert "toy-Q8_0.gguf" in lines[1] and " llama " in lines[1] and " F32 " in lines[1]
    files = home("--files", "--json").json["files"]
    assert [file["name"] for file in files] == ["user/tiny-GGUF:Q8_0", "user/toy-GGUF:Q8_0"]
    assert files[1]["path"] == str(home.target)


def test_option_before_a_command_is_an_error(home: Home) -> None:
    home("--json", "show", "toy").fails(2, "--json", "`spec-cli models show --json`")


# -- path


def test_path_is_alone_on_stdout(home: Home) -> None:
    assert home("path", "toy") == Done(0, f"{home.target}\n".encode(), "")
    assert home("path", "toy", "--draft") == Done(0, f"{home.draft}\n".encode(), "")


def test_path_of_what_is_not_cached_names_the_pull_command(home: Home) -> None:
    home("path", "qwen3-8b").fails(3, "is not in the cache", "`spec-cli pull qwen3-8b`")
    home("path", "alone", "--draft").fails(3, "has no draft model")
    home("path", "toi").fails(3, "did you mean `toy`?")


# -- show


def test_show_tells_what_the_file_and_the_registry_say(home: Home) -> None:
    text = home("show", "toy").stdout.decode()
    for expected in ("A toy", "user/toy-GGUF:Q8_0", str(home.draft), "320 tokens, gpt2", "(user)"):
        assert expected in text
    assert "x plain where 60 to 90 % of the guesses are right (costs estimated)" in text


def test_show_tells_why_a_file_is_not_usable(home: Home, tmp_path: Path) -> None:
    page = tmp_path / "page.gguf"
    page.write_text("<html>")
    assert f"not usable: {page} is a web page" in home("show", page).stdout.decode()


def test_show_as_json(home: Home) -> None:
    shown = home("show", "toy", "--json").json
    assert shown["schema"] == "spec-cli/model/1"
    assert shown["from"] == str(home.registry)
    assert shown["target"]["header"]["layers"] == 2
    assert shown["target"]["path"] == str(home.target)
    assert shown["target"]["measured"] is None
    assert shown["prediction"]["measured"] is False
    missing = home("show", "qwen3-8b", "--json").json
    assert missing["target"]["header"] is missing["prediction"] is None
    assert missing["target"]["license"] == "Apache-2.0"


def test_show_of_a_model_that_is_no_pair(home: Home, models: Models) -> None:
    text = home("show", models.target).stdout.decode()
    assert "no draft model" in text
    assert "defined" not in text


def test_what_a_run_measured_is_shown_and_used(home: Home, models: Models) -> None:
    assert home("check", "toy").stdout.decode().count("typical for this kind of pair") == 2
    words = ("--temp", "0", "-k", "3", "-n", "16", "--offline", "-q")
    run = home.call("run", "hi", "-m", "toy", *words)
    assert run.exit_code == 0, run.stderr
    shown = home("show", "toy", "--json").json
    assert shown["target"]["measured"]["pass_ms"]["1"] > 0
    assert shown["draft"]["guess_ms"] > 0
    assert shown["prediction"]["measured"] is True
    assert "a plain step " in home("show", "toy").stdout.decode()
    text = home("check", "toy").stdout.decode()
    assert "costs measured on this machine" in text
    assert re.search(r"  `--temp 0`, measured on \d+ tokens of this pair\n", text)
    assert "  sampled, typical for this kind of pair\n" in text
    greedy, sampled = home("check", "toy", "--json").json["prediction"]["expected"]
    assert greedy["rule"] == "greedy" and greedy["tokens"] > 0 == sampled["tokens"]
    assert 0 < greedy["acceptance"] < 1 and greedy["speedup"] >= 1


# -- check


def test_check_explains_a_pair_that_fits(home: Home) -> None:
    run = home("check", "toy")
    assert (run.exit_code, run.stderr) == (0, "")
    text = run.stdout.decode()
    assert "320 of 320 common token ids stand for the same text" in text
    assert "guesses right  speed-up" in text
    assert "costs estimated" in text


def test_check_of_what_does_not_fit_tells_why_and_exits_with_5(home: Home, models: Models) -> None:
    run = home("check", models.target, models.foreign)
    assert run.exit_code == 5
    assert "its token 40 is `zzz`" in run.stderr
    assert "319 of 320 common token ids" in run.stdout.decode()
    found = home("check", models.target, models.foreign, "--json")
    assert found.exit_code == 5
    assert found.json["fits"] is False
    assert found.json["prediction"] is None
    assert "its token 40" in found.json["problem"]


def test_check_as_json(home: Home) -> None:
    found = home("check", "toy", "--json").json
    assert found["fits"] is True
    assert found["shared_ids"] == found["equal_ids"] == 320
    speedups = [forecast["speedup"] for forecast in found["prediction"]["forecasts"]]
    assert speedups == sorted(speedups) and speedups[0] >= 1


def test_check_without_a_draft_or_a_file_says_so(home: Home) -> None:
    home("check", "alone").fails(3, "has no draft model", "models suggest")
    home("check", "qwen3-8b").fails(4, "is not in the cache")
    home("check", "toy", "./none.gguf").fails(3, "does not exist")


# -- suggest


def test_suggest_ends_with_a_command_line_that_works(home: Home, models: Models) -> None:
    put(home.path / "hf/hub", "user/odd-GGUF", "odd-Q8_0.gguf", models.foreign.read_bytes())
    *table, command = home("suggest", "toy").stdout.decode().splitlines()
    assert command == "spec-cli run -m toy -d user/tiny-GGUF:Q8_0"
    assert "user/tiny-GGUF:Q8_0" in table[1]
    assert "no: its token 40 is `zzz`" in "".join(table)
    run = home.call(*command.split()[1:], "hi", "-n", "2", "--offline", "-q")
    assert run.exit_code == 0, run.stderr


def test_suggest_finds_drafts_in_the_cache_for_a_file(home: Home, models: Models) -> None:
    found = home("suggest", models.target, "--json").json
    fitting = [draft["name"] for draft in found["drafts"] if draft["fits"]]
    assert fitting == ["user/tiny-GGUF:Q8_0"]
    assert found["command"] == f"spec-cli run -m {models.target} -d user/tiny-GGUF:Q8_0"


def test_suggest_for_a_target_that_is_not_here_knows_its_pair(home: Home) -> None:
    found = home("suggest", "qwen3-8b", "--json").json
    assert [draft["name"] for draft in found["drafts"]] == ["Qwen/Qwen3-0.6B-GGUF:Q8_0"]
    assert found["drafts"][0]["cached"] is False


def test_where_nothing_fits_ngrams_are_suggested(home: Home, models: Models) -> None:
    lines = home("suggest", models.draft).stdout.decode().splitlines()
    assert lines[-1] == f"spec-cli run -m {models.draft} --drafter ngram"


# -- rm


def test_rm_without_a_terminal_asks_for_yes_and_deletes_nothing(home: Home) -> None:
    home("rm", "toy").fails(2, "no terminal to ask on", "`--yes`")
    assert home.target.exists()


def test_dry_run_of_rm_names_what_goes_and_what_stays(home: Home) -> None:
    lines = home("rm", "toy", "--dry-run").stdout.decode().splitlines()
    assert lines[0].startswith(f"delete {home.draft}, ")
    assert lines[1] == "keep user/toy-GGUF:Q8_0: the cached pair `alone` needs it, too"
    assert lines[2].startswith("frees ")
    assert home.draft.exists()


def test_rm_names_what_an_interrupted_download_left(home: Home) -> None:
    partial = home.path / "hf/hub/models--user--other-GGUF/blobs" / f"{'f' * 64}.incomplete"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(bytes(2000))
    shown = home("rm", "user/other-GGUF:Q8_0", "--dry-run").stdout.decode().splitlines()
    assert shown == [f"delete {partial}, 2.0 kB, unfinished", "frees 2.0 kB"]
    run = home("rm", "user/other-GGUF:Q8_0", "--yes")
    assert run.stderr == "deleted 1 partial file: 2.0 kB freed\n"
    assert not partial.parent.parent.exists()


def test_rm_deletes_files_copies_and_measurements_but_no_registry_entry(home: Home) -> None:
    assert home.call("run", "hi", "-m", "toy", "-n", "2", "--offline", "-q").exit_code == 0
    assert list((home.path / "STATE").rglob("*.json"))
    for model in ("user/toy-GGUF:Q8_0", "user/tiny-GGUF:Q8_0"):
        run = home("rm", model, "--yes")
        assert (run.exit_code, run.stdout) == (0, b"")
        assert re.fullmatch(r"deleted 1 model, .*\d measurements: [\d.]+ kB freed\n", run.stderr)
    assert list((home.path / "hf/hub").glob("models--*")) == []
    assert list((home.path / "STATE").rglob("*.json")) == []
    assert list((home.path / "CACHE").rglob("*.gguf")) == []
    assert home.registry.read_text() == REGISTRY
    home("rm", "toy", "--yes").fails(3, "nothing to delete", "it is not in the cache")


@pytest.mark.parametrize(("answer", "is_left"), [("n", True), ("", True), ("y", False)])
def test_rm_asks_on_a_terminal(home: Home, answer: str, is_left: bool) -> None:
    child = on_terminal(home, "rm", "toy")
    child.expect_exact("keep user/toy-GGUF:Q8_0")
    child.expect_exact("go on? [y/N] ")
    child.sendline(answer)
    child.expect_exact("nothing was deleted" if is_left else "freed")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert home.draft.exists() == is_left


def test_interrupt_instead_of_an_answer_deletes_nothing(home: Home) -> None:
    child = on_terminal(home, "rm", "toy")
    child.expect_exact("go on? [y/N] ")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    assert home.draft.exists()


@pytest.mark.parametrize("words", [("list", "--files"), ("suggest", "toy")])
def test_tables_of_a_terminal_name_every_file(home: Home, words: tuple[str, ...]) -> None:
    child = on_terminal(home, *words)
    child.expect(pexpect.EOF)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", child.before.decode())
    assert "tiny-" in shown and max(map(len, shown.splitlines())) <= 80


def on_terminal(home: Home, *words: str) -> pexpect.spawn[bytes]:
    spec_cli = home.call.spec_cli
    program, *first = spec_cli.program
    env = spec_cli.environ({"TERM": "xterm"})
    arguments = [*first, "models", *words]
    return pexpect.spawn(program, arguments, env=env, cwd=str(home.path), timeout=60)


# -- add and forget


def test_added_pair_can_be_used_from_anywhere(
    home: Home, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(models.directory)
    (models.directory / "own").touch()  # a name before a file
    assert models.target.exists() and models.draft.exists()
    words = ("--draft-tokens", "3", "--notes", 'My "own"')
    run = home("add", "own", "./target.gguf", "./draft.gguf", *words)
    assert (run.exit_code, run.stdout) == (0, b"")
    assert "`spec-cli run -m own`" in run.stderr
    monkeypatch.chdir(home.path)
    assert home("path", "own").stdout.decode() == f"{models.target}\n"
    pair = tomllib.loads(home.registry.read_text())["pairs"]["own"]
    assert (pair["draft_tokens"], pair["notes"]) == (3, 'My "own"')
    assert REGISTRY.strip() in home.registry.read_text()


def test_pair_that_does_not_fit_is_not_added(home: Home, models: Models) -> None:
    home("add", "own", models.target, models.foreign).fails(5, "its token 40")
    home("add", "own", "./none.gguf").fails(3, "does not exist")
    assert home.registry.read_text() == REGISTRY


@pytest.mark.parametrize("name", ["toy", "qwen3-8b"])
def test_name_that_is_taken_is_replaced_by_force_only(home: Home, name: str) -> None:
    home("add", name, "user/new-GGUF:Q8_0").fails(2, f"`{name}` is a pair of ", "`--force`")
    assert home("add", name, "user/new-GGUF:Q8_0", "--force").exit_code == 0
    pairs = {pair["name"]: pair for pair in home("--json").json["pairs"]}
    assert pairs[name]["target"]["name"] == "user/new-GGUF:Q8_0"
    assert pairs[name]["draft"] is None


@pytest.mark.parametrize("name", ["", "a b", "x.gguf", "user/x", "./x"])
def test_name_that_could_be_a_models_is_refused(home: Home, name: str) -> None:
    home("add", "--", name, "user/new-GGUF:Q8_0").fails(2, "cannot be the name of a pair")


def test_pair_of_the_directory_goes_before_the_added_one_and_that_is_said(home: Home) -> None:
    (home.path / "models.toml").write_text('[pairs.here]\ntarget = "user/here-GGUF:Q8_0"\n')
    run = home("add", "here", "user/new-GGUF:Q8_0", "--force")
    assert "goes before it" in run.stderr


def test_forget_takes_an_added_pair_out_and_nothing_else(home: Home) -> None:
    home("add", "own", "user/new-GGUF:Q8_0")
    assert home("forget", "own").exit_code == 0
    assert home.registry.read_text().split() == REGISTRY.split()
    home("forget", "own").fails(3, "names no pair `own`")
    home("forget", "alon").fails(3, "did you mean `alone`?")
    home("forget", "qwen3-8b").fails(3, "names no pair `qwen3-8b`")


def test_default_pair_is_not_forgotten(home: Home) -> None:
    home.registry.write_text(f'default = "toy"\n{REGISTRY}')
    home("forget", "toy").fails(2, "is the default pair", "change `default`")


# -- completion


def words_of(line: str) -> dict[str, str]:
    """How bash asks what may stand at the end of a line."""
    n_words = str(line.count(" "))
    return {"_SPEC_CLI_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": n_words}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("spec-cli run -m to", ["toy"]),
        ("spec-cli models show alo", ["alone"]),
        ("spec-cli models forget ", ["toy", "alone"]),
        ("spec-cli run -d no", ["none"]),
        ("spec-cli run -d user/", ["user/tiny-GGUF:Q8_0"]),
        ("spec-cli models check toy user/", ["user/tiny-GGUF:Q8_0"]),
        ("spec-cli verify to", ["toy"]),
        ("spec-cli run --drafter ng", ["ngram"]),
        ("spec-cli bench --drafter ngram,mo", ["ngram,model"]),
        ("spec-cli models sug", ["suggest"]),
        ("spec-cli bench -m to", ["toy"]),
        ("spec-cli run a b --temp abc --drafter ng", ["ngram"]),
        ("spec-cli runn --drafter ng", []),
    ],
)
def test_words_are_completed(home: Home, line: str, expected: list[str]) -> None:
    assert home.call(env=words_of(line)).stdout.decode().split() == expected


def test_completion_is_silent_about_a_broken_registry_and_loads_nothing_slow(home: Home) -> None:
    home.registry.write_text("pairs = 3")
    program = "import sys; sys.argv[0] = 'spec-cli'; from spec_cli.__main__ import main; main()"
    env = {**words_of("spec-cli run -m to"), "PYTHONPROFILEIMPORTTIME": "1"}
    run = home.call.spec_cli(shell=f'"$1" -c "{program}"', env=env)
    assert (run.exit_code, run.stdout.strip()) == (0, b"")
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in run.stderr.splitlines()}
    assert loaded.isdisjoint({"llama_cpp", "huggingface_hub", "tomlkit"})
    assert "Traceback" not in run.stderr


def test_json_of_every_listing_parses(home: Home) -> None:
    for words in (("list",), ("list", "--files"), ("show", "toy"), ("suggest", "toy")):
        assert json.loads(home(*words, "--json").stdout)["schema"].startswith("spec-cli/model")
