"""Everything a user can get wrong: an exit code, what is wrong, what to do; never a traceback."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Call, SpecCli
from tests.cli.tiny_models import Models

NO_PROMPT = ("error: no prompt", "hint: ", 'spec-cli run "PROMPT"')
WRONG = {
    ("--temp", "-1"): ("--temp is -1.0", "0 or more"),
    ("--temp", "nan"): ("--temp is nan",),
    ("--temp", "inf"): ("--temp is inf",),
    ("--temp", "warm"): ("--temp is `warm`, but must be a number",),
    ("--top-p", "0"): ("--top-p is 0.0", "above 0"),
    ("--top-p", "1.5"): ("--top-p is 1.5",),
    ("--top-k", "-1"): ("--top-k is -1",),
    ("--top-k", "9" * 400): ("--top-k is 999", "from 0 to 2147483647"),
    ("--repeat-last-n", str(2**31)): ("--repeat-last-n is 2147483648", "from 0 to 2147483647"),
    ("--min-p", "2"): ("--min-p is 2.0",),
    ("--repeat-penalty", "0"): ("--repeat-penalty is 0.0",),
    ("--presence-penalty", "nan"): ("--presence-penalty is nan",),
    ("--seed", "-1"): ("--seed is -1", "hint: without it"),
    ("--seed", str(2**64)): (f"--seed is {2**64}",),
    ("-n", "-1"): ("--max-tokens is -1", "hint: without it"),
    ("-n", "many"): ("--max-tokens is `many`, but must be an integer",),
    ("-k", "0"): ("--draft-tokens is 0", "from 1 to 63", "`--no-draft` decodes plainly"),
    ("-k", "64"): ("--draft-tokens is 64",),
    ("-k", "-3"): ("--draft-tokens is -3",),
    ("-k", "x"): ("--draft-tokens is `x`", "`auto`"),
    ("--ctx-size", "0"): ("--ctx-size is 0",),
    ("--batch-size", "0"): ("--batch-size is 0",),
    ("--threads", "0"): ("--threads is 0",),
    ("--gpu-layers", "some"): ("--gpu-layers is `some`", "`auto`", "`all`"),
    ("--gpu-layers", "-2"): ("--gpu-layers is -2",),
    ("--stop", ""): ("--stop is empty",),
    ("--drafter", "oracle"): ("--drafter is `oracle`, but must be one of `auto`", "`ngram`"),
    ("--drafter", "model", "-d", "none"): ("needs a draft model", "--drafter ngram"),
    ("--raw", "--system", "x"): ("`--raw`", "`--system`"),
    ("--raw", "--chat-template", "{{ x }}"): ("`--raw`", "`--chat-template`"),
    ("--chat-template", "./none.jinja"): ("./none.jinja", "No such file"),
    ("--chat-template", "{% for %}"): ("the chat template does not work", "line 1"),
    ("--chat-template", "{{ 1 / 0 }}"): ("does not work", "ZeroDivisionError"),
    ("--chat-template", "{{ raise_exception('no') }}"): ("refuses the messages: no",),
    ("--chat-template", "{{ '' }}"): ("it gives an empty prompt",),
    ("a second prompt",): ("1 argument too many: `a second prompt`", "in quotes"),
    ("--no-such-option",): ("unknown option `--no-such-option`", "`spec-cli run --help`"),
}


@pytest.mark.parametrize(
    ("options", "fragments"), WRONG.items(), ids=[" ".join(options) for options in WRONG]
)
def test_a_wrong_option_is_a_usage_error(
    call: Call, models: Models, options: tuple[str, ...], fragments: tuple[str, ...]
) -> None:
    call("run", "hi", "-m", models.target, *options).fails(2, *fragments)


@pytest.mark.parametrize("options", [("-k", "x"), ("-c", "0"), ("--raw", "-s", "x")], ids=" ".join)
def test_a_wrong_option_is_found_before_anything_is_fetched(
    spec_cli: SpecCli, options: tuple[str, ...]
) -> None:
    spec_cli("run", "hi", "--offline", *options).fails(2, "error: ")


def test_a_chat_template_that_is_not_there_is_found_before_anything_is_fetched(
    spec_cli: SpecCli,
) -> None:
    run = spec_cli("run", "hi", "--offline", "--chat-template", "./none.jinja")
    run.fails(2, "./none.jinja", "No such file")


@pytest.mark.parametrize("stdin", [b"", b" \n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("args", [(), ("",), (" ",), ("-f", "-")], ids=repr)
def test_an_empty_prompt_is_a_usage_error(call: Call, stdin: bytes, args: tuple[str, ...]) -> None:
    call("run", *args, stdin=stdin).fails(2, *NO_PROMPT)


@pytest.mark.parametrize("shell", ['"$@" <&-', '"$@" </dev/null', 'true | "$@"'])
def test_a_stdin_that_holds_nothing_is_no_prompt(spec_cli: SpecCli, shell: str) -> None:
    spec_cli("run", shell=shell).fails(2, *NO_PROMPT)


ENDLESS = "/dev/zero"


@pytest.mark.skipif(not Path(ENDLESS).exists(), reason="there is no /dev/zero")
@pytest.mark.parametrize(("args", "shell"), [((), '"$@" </dev/zero'), (("-f", ENDLESS), "")])
def test_an_input_without_end_is_refused(
    spec_cli: SpecCli, args: tuple[str, ...], shell: str
) -> None:
    spec_cli("run", *args, shell=shell).fails(2, "holds more than 32 MiB")


@pytest.mark.skipif(not Path(ENDLESS).exists(), reason="there is no /dev/zero")
@pytest.mark.parametrize(
    "option", ["--system-file", "--grammar-file", "--json-schema", "--chat-template"]
)
def test_no_option_reads_a_file_without_end(call: Call, option: str) -> None:
    call("run", "hi", option, ENDLESS).fails(2, f"{ENDLESS} holds more than 32 MiB")
    call("verify", "--prompts", ENDLESS).fails(2, f"{ENDLESS} holds more than 32 MiB")


@pytest.mark.parametrize("option", ["-f", "--grammar-file", "--json-schema", "--chat-template"])
def test_an_empty_file_name_is_told_as_what_it_is(call: Call, option: str) -> None:
    call("run", *([] if option == "-f" else ["hi"]), option, "").fails(2, "its name is empty")


def test_bytes_that_are_not_utf_8_are_found_with_their_offset(call: Call, tmp_path: Path) -> None:
    latin = tmp_path / "latin"
    latin.write_bytes(b"na\xefve")
    call("run", stdin=b"a\xff\xfeb").fails(2, "not valid UTF-8", "0xff at offset 1", "iconv")
    call("run", "-f", latin).fails(2, "not valid UTF-8", "0xef at offset 2")


@pytest.mark.parametrize(
    "args",
    [
        (b"caf\xe9",),
        ("hi", "--system", b"caf\xe9"),
        ("hi", "--chat-template", b"{{ '\xe9' }}"),
        ("hi", "--stop", b"caf\xe9"),
    ],
    ids=repr,
)
def test_an_argument_that_is_not_utf_8_is_a_usage_error(
    spec_cli: SpecCli, models: Models, args: tuple[str | bytes, ...]
) -> None:
    words = [os.fsdecode(arg) for arg in args]
    run = spec_cli("run", *words, "-m", models.target, "-n", "2", env={"LC_ALL": "C.UTF-8"})
    run.fails(2, "error: ")


def test_a_prompt_longer_than_the_context_is_refused_with_both_numbers(
    call: Call, models: Models
) -> None:
    args = ("run", "--raw", "-m", models.target)
    call(*args, "x" * 30, "-c", "29").fails(2, "has 30 tokens", "holds 29", "--ctx-size")
    call(*args, "x" * 600).fails(2, "has 600 tokens", "holds 512", "hint: ")


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "is empty"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "error: "),
        (b"GGUF", "truncated"),
        (1000, "truncated"),
        (300_000, "truncated"),
    ],
    ids=["empty", "html", "lfs", "other", "magic", "header", "weights"],
)
def test_a_file_that_is_no_model_is_refused_with_the_cause(
    call: Call, models: Models, tmp_path: Path, content: bytes | int, cause: str
) -> None:
    path = tmp_path / "x.gguf"
    whole = models.target.read_bytes()
    path.write_bytes(whole[:content] if isinstance(content, int) else content)
    call("run", "hi", "-m", path).fails(3, str(path), cause)
    call("run", "hi", "-m", models.target, "-d", path).fails(3, str(path), cause)


def test_a_model_that_is_not_there_is_named(call: Call, models: Models, tmp_path: Path) -> None:
    path = tmp_path / "none.gguf"
    call("run", "hi", "-m", path).fails(3, str(path), "does not exist")
    call("run", "hi", "-m", models.target, "-d", path).fails(3, str(path), "does not exist")
    call("run", "hi", "-m", tmp_path).fails(3, str(tmp_path), "is a directory")


@pytest.mark.parametrize("name", ["nosuch", "", "a/b/c", "hf://a"])
def test_a_name_that_names_no_model_is_refused(call: Call, name: str) -> None:
    call("run", "hi", "-m", name).fails(3, f"`{name}`", "hint: ")


@pytest.mark.parametrize("name", ["x" * 300, "~nosuchuser/x.gguf", ".", "/"])
def test_a_path_that_cannot_be_looked_up_is_refused(call: Call, name: str) -> None:
    call("run", "hi", "-m", name).fails(3, "error: ")


def test_a_name_that_is_nearly_right_gets_the_right_one(call: Call) -> None:
    run = call("run", "hi", "-m", "qwen2.5-coder-1.5")
    run.fails(3, "`qwen2.5-coder-1.5`", "did you mean `qwen2.5-coder-1.5b`?")


def test_a_model_that_is_no_regular_file_is_not_called_missing(call: Call) -> None:
    run = call("run", "hi", "-m", "/dev/null")
    run.fails(3, "/dev/null")
    assert "does not exist" not in run.stderr


def test_a_model_file_may_have_any_name(call: Call, models: Models, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"mod\xe8le \x1b[31m.gguf")
    path.write_bytes(models.target.read_bytes())
    run = call("run", "hi", "-n", "2", "-m", path, "--json")
    assert run.exit_code == 0
    assert len(run.json["tokens"]) == 2


@pytest.mark.parametrize("option", ["-m", "-n", "--drafter", "--temp", "-f", "--chat-template"])
def test_control_characters_in_an_error_are_made_visible(
    call: Call, models: Models, option: str
) -> None:
    run = call("run", "hi", "-m", models.target, option, "\x1b[31mred")
    assert run.exit_code in (2, 3)
    assert "\x1b" not in run.stderr


def test_a_draft_with_another_vocabulary_is_refused_with_the_first_difference(
    call: Call, models: Models
) -> None:
    run = call("run", "hi", "-m", models.target, "-d", models.foreign)
    run.fails(5, "foreign.gguf", "target.gguf", "token 40 is `zzz`, not `(`", "--drafter ngram")


@pytest.mark.parametrize("options", [("--no-draft",), ("--drafter", "ngram")])
def test_a_pair_that_does_not_fit_may_run_without_its_draft(
    call: Call, models: Models, options: tuple[str, ...]
) -> None:
    run = call("run", "hi", "-m", models.target, "-d", models.foreign, "-n", "2", *options)
    assert run.exit_code == 0


def test_what_is_not_cached_is_not_fetched_offline(spec_cli: SpecCli) -> None:
    offline = spec_cli("run", "hi", "--offline")
    offline.fails(4, "is not in the cache", "`--offline`", "spec-cli pull ")
    spec_cli("run", "hi", env={"HF_HUB_OFFLINE": "1"}).fails(4, "`HF_HUB_OFFLINE`")


def test_no_network_is_a_download_error(spec_cli: SpecCli) -> None:
    spec_cli("run", "hi", "-m", "user/repo:Q8_0").fails(4, "127.0.0.1", "hint: ")


def test_a_device_that_is_not_there_is_refused_with_those_that_are(
    call: Call, models: Models
) -> None:
    call("run", "hi", "-m", models.target, "--device", "nope").fails(6, "`nope`", "cpu")
    run = call("run", "hi", *models.pair, "-k", "2", "--draft-device", "nope")
    run.fails(6, "`nope`", "cpu")


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on memory")
def test_a_context_that_does_not_fit_into_memory_is_refused(
    spec_cli: SpecCli, models: Models
) -> None:
    args = ("run", "hi", "-m", models.target, "-c", "10000000")
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")  # stacks count, too
    run = spec_cli(*args, shell='ulimit -v 3000000; "$@"', env=one)
    run.fails(6, "10,000,000 tokens", "--ctx-size")


def test_a_broken_registry_of_the_user_is_named(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "spec-cli" / "models.toml"
    path.parent.mkdir()
    path.write_text("default = [")
    call("run", "hi", env={"XDG_CONFIG_HOME": str(tmp_path)}).fails(2, str(path))


def test_a_working_directory_that_is_gone_is_no_trouble(spec_cli: SpecCli, models: Models) -> None:
    args = ("run", "hi", "-n", "2", "-q", "-m", models.target)
    run = spec_cli(*args, shell='mkdir gone; cd gone; rmdir ../gone; "$@"')
    assert (run.exit_code, run.stderr) == (0, "")


def test_debugging_shows_the_traceback_and_then_the_error(call: Call) -> None:
    run = call("run", env={"SPEC_CLI_DEBUG": "1"})
    assert run.exit_code == 2
    assert run.stderr.startswith("Traceback")
    assert NO_PROMPT[0] in run.stderr


def test_a_context_longer_than_trained_for_is_a_warning(call: Call, models: Models) -> None:
    run = call("run", "hi", "-n", "2", "-q", "-m", models.target, "-c", "600")
    assert run.exit_code == 0
    assert run.stderr.startswith("warning: ")
    assert "600" in run.stderr and "512" in run.stderr


def test_more_threads_than_cpus_are_a_warning(
    call: Call, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spec_cli.loader.usable_cpus", lambda: 1)
    monkeypatch.setattr("spec_cli.loader.usable_cores", lambda: 1)
    args = ("run", "hi", "-n", "2", "-q", "-m", models.target)
    hint = "hint: leave `--threads` out: the default here is 1\n"
    assert call(*args, "-t", "2").stderr == (
        f"warning: 2 threads on 1 CPU slow each other down\n{hint}"
    )
    assert call(*args, "-t", "1").stderr == ""
