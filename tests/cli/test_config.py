"""Settings from files and the environment, as the commands use and `spec-cli config` shows them."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import GREEDY, Call, Done, SpecCli
from tests.cli.tiny_models import Models


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, with a directory `config` for the user's own file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config" / "spec-cli").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def config(here: Path, call: Call) -> Call:
    """The program, called in `here`."""
    own = dict(call.spec_cli.own) | {"XDG_CONFIG_HOME": str(here / "config")}

    class Here(SpecCli):
        @property
        def own(self) -> dict[str, str]:
            return own

    return Call(Here(call.spec_cli.home))


def write(here: Path, project: str = "", user: str = "") -> None:
    if project:
        (here / "spec-cli.toml").write_text(project)
    if user:
        (here / "config" / "spec-cli" / "config.toml").write_text(user)


def shown(done: Done) -> dict[str, tuple[object, str | None, int | None]]:
    assert done.exit_code == 0, done.stderr
    return {
        s["key"]: (s["value"], s["origin"]["name"] or s["origin"]["kind"], s["origin"]["line"])
        for s in done.json["settings"]
    }


def test_a_run_takes_its_settings_from_the_file(config: Call, here: Path, models: Models) -> None:
    write(here, f"model = {json.dumps(str(models.target))}\n[run]\ntemp = 0\nmax_tokens = 4\n")
    by_file = config("run", "hello there", "--json").json
    by_flags = config(*GREEDY, "-m", models.target, "-n", "4", "--json").json
    assert by_file["sampling"]["temp"] == 0
    assert by_file["tokens"] == by_flags["tokens"]


def test_a_flag_prevails_over_the_environment_and_that_over_the_files(
    config: Call, here: Path, models: Models
) -> None:
    write(here, "temp = 0.1\nseed = 3\ntop-k = 7\n", "temp = 0.2\ntop-p = 0.5\n")
    env = {"SPEC_CLI_TEMP": "0.3", "SPEC_CLI_SEED": "4"}
    args = ("run", "hi", "-m", models.target, "-n", "1", "--json")
    run = config(*args, "--temp", "0.4", env=env).json
    assert (run["sampling"]["temp"], run["seed"]) == (0.4, 4)
    assert (run["sampling"]["top_k"], run["sampling"]["top_p"]) == (7, 0.5)


def test_the_environment_switches_off_what_a_file_switches_on(
    config: Call, here: Path, models: Models
) -> None:
    write(here, "quiet = true\n")
    args = (*GREEDY, "-m", models.target, "-n", "1")
    assert config(*args).stderr == ""
    assert "tok/s" in config(*args, env={"SPEC_CLI_QUIET": "0"}).stderr


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("tempp = 1\n", ("./spec-cli.toml, line 1", "`tempp`", "did you mean `temp`?")),
        ("temp =\n", ("./spec-cli.toml", "line 1")),
        (
            "\ntemp = 'hot'\n",
            ("--temp is `hot`, but must be a number (from ./spec-cli.toml, line 2)\n",),
        ),
        ("drafter = 'modle'\n", ("--drafter is `modle`, but must be one of", "mean `model`?")),
        ("temp = nan\n", ("--temp is nan, but must be a number (from ", "line 1)")),
        ("quiet = 'yes'\n", ("--quiet is `yes`, but must be true or false (from ",)),
        ("top-k = true\n", ("--top-k is true, but must be an integer (from ",)),
        ("temp = -1\n", ("--temp is -1", "(from ./spec-cli.toml, line 1)")),
        ("draft-tokens = 'few'\n", ("--draft-tokens is `few`", "(from ./spec-cli.toml, line 1)")),
        (
            "draft-tokens = 9\nbatch-size = 9\n",
            ("(--draft-tokens from ./spec-cli.toml, line 1, --batch-size from ",),
        ),
        ("offline = false\n", ("`offline` cannot be set in a project's file",)),
    ],
)
def test_a_bad_setting_is_one_line_with_its_place(
    config: Call, here: Path, models: Models, text: str, fragments: tuple[str, ...]
) -> None:
    write(here, text)
    config("run", "hi", "-m", models.target).fails(2, *fragments)


def test_an_error_without_a_flag_in_it_names_the_place_of_the_value(
    config: Call, here: Path
) -> None:
    write(here, "\nmodel = 'nosuch'\n")
    config("run", "hi").fails(3, "`nosuch`", "(from ./spec-cli.toml, line 2)")


def test_a_flag_in_place_of_a_bad_setting_is_enough(
    config: Call, here: Path, models: Models
) -> None:
    write(here, "temp = 'hot'\n")
    assert config(*GREEDY, "-m", models.target, "-n", "1").exit_code == 0


@pytest.mark.parametrize(
    ("name", "text", "fragments"),
    [
        (
            "SPEC_CLI_TEMP",
            "hot",
            ("--temp is `hot`, but must be a number (from SPEC_CLI_TEMP)\n",),
        ),
        ("SPEC_CLI_QUIET", "maybe", ("--quiet is `maybe`, but must be true or false (from SPEC_",)),
        ("SPEC_CLI_TEMP", "-1", ("--temp is -1", "(from SPEC_CLI_TEMP)")),
        ("SPEC_CLI_DEVICE", "nope", ("`nope`", "(from SPEC_CLI_DEVICE)")),
        ("SPEC_CLI_CONFIG", "/no/such/file", ("cannot read /no/such/file",)),
    ],
)
def test_a_bad_variable_is_named(
    config: Call, here: Path, models: Models, name: str, text: str, fragments: tuple[str, ...]
) -> None:
    code = 6 if name.endswith("DEVICE") else 2
    config("run", "hi", "-m", models.target, env={name: text}).fails(code, *fragments)


def test_a_variable_of_no_option_is_a_warning_and_the_run_goes_on(
    config: Call, here: Path, models: Models
) -> None:
    args = (*GREEDY, "-m", models.target, "-n", "1", "-q")
    for words in (args, ("config", "show")):
        run = config(*words, env={"SPEC_CLI_TEMPP": "1"})
        assert run.exit_code == 0 and run.stdout
        assert run.stderr.splitlines() == [
            "warning: `SPEC_CLI_TEMPP` is set, but means nothing here",
            "hint: did you mean `SPEC_CLI_TEMP`?",
        ]


def test_what_has_no_settings_is_told_with_what_has(config: Call, here: Path) -> None:
    config("config", "show", "rum").fails(2, "`rum` is not a command with", "you mean `run`?")
    config("config", "show", "pull").fails(2, "hint: give one of `run`, `chat`, `verify`, `bench`")


def test_a_repeatable_option_gets_one_value_from_its_variable(
    config: Call, here: Path, models: Models
) -> None:
    text = config("run", "hi", "--temp", "0", "-m", models.target, "-n", "9", "--json").json["text"]
    env = {"SPEC_CLI_STOP": text[3:6]}
    run = config("run", "hi", "--temp", "0", "-m", models.target, "-n", "9", "--json", env=env)
    assert run.json["stop"] == text[3:6]


@pytest.mark.parametrize("command", [("--help",), ("run", "--help"), ("--version",), ("models",)])
def test_a_broken_file_is_in_the_way_of_no_help(
    config: Call, here: Path, command: tuple[str, ...]
) -> None:
    write(here, "nonsense", "nonsense")
    assert config(*command).exit_code == 0


def test_help_shows_the_defaults_not_the_settings(config: Call, here: Path) -> None:
    before = config("run", "--help")
    write(here, "temp = 0.123\n")
    assert config("run", "--help", env={"SPEC_CLI_TEMP": "0.456"}) == before


def test_config_show_names_each_value_and_its_origin(config: Call, here: Path) -> None:
    write(here, "temp = 0.1\nstop = ['a', 'b']\n[bench]\ntemp = [0, 0.5]\n", "\ntop-k = 3\n")
    env = {"SPEC_CLI_DRAFTER": "ngram"}
    run = config("config", "show", "--json", env=env)
    users = str(here / "config" / "spec-cli" / "config.toml")
    found = shown(run)
    assert found["temp"] == (0.1, "./spec-cli.toml", 1)
    assert found["stop"] == (["a", "b"], "./spec-cli.toml", 2)
    assert found["top-k"] == (3, users, 2)
    assert found["drafter"] == ("ngram", "SPEC_CLI_DRAFTER", None)
    assert found["min-p"] == (0.05, "default", None)
    assert found["seed"] == (None, "default", None)
    assert run.json["schema"] == "spec-cli/config/1"
    bench = shown(config("config", "show", "bench", "--json", env=env))
    assert bench["temp"] == ("0,0.5", "./spec-cli.toml", 4)
    assert bench["drafter"] == ("auto", "default", None)
    assert not {"prompt", "file", "export"} & {*found, *bench}


def test_config_show_is_a_table_for_people(config: Call, here: Path) -> None:
    write(here, "temp = 0.1\nmodel = 'a\\u001b[31m'\n")
    run = config("config", "show")
    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in run.stdout.decode().splitlines()}
    assert rows["temp"].split() == ["0.1", "./spec-cli.toml:1"]
    assert rows["seed"].split("  ")[0] == "random, reported"
    assert rows["quiet"].split() == ["false", "default"]
    assert b"\x1b" not in run.stdout


def test_config_show_checks_what_it_shows(config: Call, here: Path) -> None:
    write(here, "top-k = 0.5\n")
    config("config", "show").fails(2, "./spec-cli.toml, line 1", "an integer")
    config("config", "show", "bensh").fails(2, "`bensh`", "`bench`")


def test_the_users_file_is_named_and_another_can_take_its_place(config: Call, here: Path) -> None:
    users = here / "config" / "spec-cli" / "config.toml"
    assert config("config", "path").stdout.decode() == f"{users}\n"
    write(here, "", "temp = 0.1")
    other = here / "other.toml"
    other.write_text("temp = 0.2")
    env = {"SPEC_CLI_CONFIG": str(other)}
    assert config("config", "path", env=env).stdout.decode() == f"{other}\n"
    assert shown(config("config", "show", "--json"))["temp"][0] == 0.1
    assert shown(config("config", "show", "--json", env=env))["temp"][0] == 0.2


def test_none_reads_no_file_at_all(config: Call, here: Path) -> None:
    write(here, "nonsense", "nonsense")
    env = {"SPEC_CLI_CONFIG": "none"}
    assert shown(config("config", "show", "--json", env=env))["temp"][1] == "default"
    config("config", "path", env=env).fails(2, "SPEC_CLI_CONFIG=none")


def test_a_projects_file_that_the_user_names_is_the_users(config: Call, here: Path) -> None:
    write(here, "offline = true\n")
    env = {"SPEC_CLI_CONFIG": "spec-cli.toml"}
    config("config", "show").fails(2, "`offline`")
    assert shown(config("config", "show", "--json", env=env))["offline"][0] is True


def test_a_working_directory_that_is_gone_has_no_settings(spec_cli: SpecCli) -> None:
    run = spec_cli("config", "show", shell='mkdir left; cd left; rmdir ../left; "$@"')
    assert run.exit_code == 0


def test_bench_and_verify_read_their_own_tables(config: Call, here: Path, models: Models) -> None:
    write(here, "temp = 'hot'\n[bench]\nrounds = 0\n[verify]\ndrafter = 'magic'\n")
    config("bench", models.target).fails(2, "(from ./spec-cli.toml, line 3)")
    config("verify", models.target).fails(2, "`magic`", "(from ./spec-cli.toml, line 5)")


def test_the_model_of_a_file_is_that_of_bench_and_verify_unless_one_is_given(
    config: Call, here: Path
) -> None:
    write(here, "model = 'nosuch'\n")
    for command in ("run", "bench", "verify"):
        words = (command, "hi") if command == "run" else (command,)
        config(*words).fails(3, "`nosuch`", "(from ./spec-cli.toml, line 1)")
    for command in ("bench", "verify"):
        config(command, "other").fails(3, "`other`")
        config(command, "-m", "other").fails(3, "`other`")


def test_a_home_that_may_not_be_searched_is_one_without_files(
    config: Call, here: Path, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(here, user="temp = 0.5")
    target, stat = models.target, Path.stat

    def refused(path: Path, **how: bool) -> os.stat_result:
        if path.is_relative_to(here / "config"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **how)

    monkeypatch.setattr(Path, "stat", refused)
    assert config(*GREEDY, "-q", "-n", "2", "-m", target).exit_code == 0
    assert config("models", "path", target).stdout.decode() == f"{target}\n"
    assert shown(config("config", "show", "--json"))["temp"] == (0.8, "default", None)
