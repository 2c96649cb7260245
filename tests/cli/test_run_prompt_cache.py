"""`--prompt-cache`: the same text, and less to read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.cli.tiny_models import Models

TEXT = "the quick brown fox jumps over the lazy dog. " * 3


@pytest.fixture
def args(models: Models, tmp_path: Path) -> tuple[str, ...]:
    cache = str(tmp_path / "cache")
    return ("--temp", "0", "-n", "20", *models.pair, "-k", "3", "-b", "32", "--prompt-cache", cache)


def test_a_second_run_goes_on_from_the_first(call: Call, args: tuple[str, ...]) -> None:
    prompt = ("run", f"{TEXT}Who jumps?")
    first, again = call(*prompt, *args, "--json").json, call(*prompt, *args, "--json").json
    assert (first["text"], first["tokens"]) == (again["text"], again["tokens"])
    assert first["timings"]["cache_n"] == 0
    assert again["timings"]["cache_n"] == again["usage"]["prompt_tokens"] - 1
    other = ("run", f"{TEXT}And over whom?")
    run = call(*other, *args, "--json").json
    assert 0 < run["timings"]["cache_n"] < run["usage"]["prompt_tokens"] - 1
    assert run["tokens"] == call(*other, *args[:-2], "--json").json["tokens"]
    assert f"tokens ({run['usage']['prompt_tokens'] - 1} kept)" in call(*other, *args).stderr


def test_a_file_of_another_kind_is_refused_and_stays_as_it_is(
    call: Call, args: tuple[str, ...], tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    for content in (b"GGUF\0\0\0", b"x", b"spec-cli is my favourite program"):
        cache.write_bytes(content)
        call("run", TEXT, *args).fails(2, f"{cache} is no prompt cache, and would be replaced")
        assert cache.read_bytes() == content
        assert [path for path in tmp_path.iterdir() if path.name.endswith(".part")] == []


def test_an_empty_file_becomes_a_prompt_cache(
    call: Call, args: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "cache").touch()
    call("run", TEXT, *args)
    assert call("run", TEXT, *args, "--json").json["timings"]["cache_n"] > 0


def test_another_user_cannot_use_the_file(
    call: Call, args: tuple[str, ...], tmp_path: Path
) -> None:
    call("run", TEXT, *args)
    run = call("run", TEXT, *args, env={"XDG_STATE_HOME": str(tmp_path / "another")})
    assert "it was not written by you on this machine" in run.stderr


def test_a_place_where_no_file_can_be_is_told_at_once(
    call: Call, models: Models, tmp_path: Path
) -> None:
    run = call("run", "hi", "-m", models.target, "--prompt-cache", tmp_path)
    run.fails(2, "cannot write", "not a regular file")
