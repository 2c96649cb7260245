"""Which options are settings, where they may be set, and what they take."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.main import get_command

from spec_cli.cli.app import app
from spec_cli.cli.config_file import ConfigFile, read_config_file
from spec_cli.cli.config_settings import Scope, Setting, settings_of
from spec_cli.cli.config_sources import Configuration
from spec_cli.cli.late import commands_with_settings
from spec_cli.errors import UsageError

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import settings_table

COMMANDS = commands_with_settings(get_command(app))
SETTINGS = {name: settings_of(command) for name, command in COMMANDS.items()}
RUN = SETTINGS["run"]
ALL = [(name, setting) for name in SETTINGS for setting in SETTINGS[name].values()]


def test_the_commands_that_generate_text_take_settings() -> None:
    assert {"run", "verify", "bench"} <= set(SETTINGS)


def test_every_option_of_a_command_has_its_long_flags_as_keys() -> None:
    for name, command in COMMANDS.items():
        flags = {flag for param in command.params for flag in param.opts if flag.startswith("--")}
        assert {f"--{key}" for key in SETTINGS[name]} == flags | {"--model"}
    assert RUN["temperature"] is RUN["temp"]
    assert RUN["temp"].variables == ("SPEC_CLI_TEMP", "SPEC_CLI_TEMPERATURE")


def test_the_argument_that_names_the_model_is_the_same_setting_and_no_other_is() -> None:
    assert {SETTINGS[name]["model"].declared for name in SETTINGS} == {RUN["model"].declared}
    assert "prompt" not in RUN and "pair" not in SETTINGS["bench"]


@pytest.mark.parametrize("key", ["model", "draft-model", "temp", "draft-tokens", "threads", "stop"])
def test_a_project_may_say_which_models_and_how(key: str) -> None:
    assert RUN[key].refusal(Scope.PROJECT) is None


@pytest.mark.parametrize(
    "key", ["system", "raw", "chat-template", "offline", "index", "json", "jsonl"]
)
def test_a_projects_file_may_not_speak_for_the_user(key: str) -> None:
    assert RUN[key].refusal(Scope.PROJECT)
    assert RUN[key].refusal(Scope.USER) is None


@pytest.mark.parametrize("scope", list(Scope))
def test_no_file_to_read_or_write_is_a_setting(scope: Scope) -> None:
    files = {"file", "prompts", "save", "export", "compare", "plot"}
    assert {s.key for _, s in ALL if s.refusal(Scope.USER)} >= files | {"synthetic"}
    assert all(s.refusal(scope) for _, s in ALL if s.key in files)


@pytest.mark.parametrize("scope", list(Scope))
def test_what_would_make_an_error_of_a_plain_run_is_no_setting(scope: Scope) -> None:
    assert RUN["logprobs"].refusal(scope) == "it has no place in plain text"


def test_an_option_whose_help_speaks_of_a_file_is_not_for_projects() -> None:
    """A path that is declared in another way than those before must not slip through."""
    for _, setting in ALL:
        if " FILE" in f" {setting.option.help} {setting.option.metavar}":
            assert setting.refusal(Scope.PROJECT), setting.key


@pytest.mark.parametrize(
    ("command", "key", "value", "taken"),
    [
        ("run", "temp", 1, "1"),
        ("run", "temp", 0.25, "0.25"),
        ("run", "top-k", 5, "5"),
        ("run", "quiet", True, True),
        ("run", "drafter", "ngram", "ngram"),
        ("run", "model", "x", "x"),
        ("run", "draft-tokens", 4, "4"),
        ("run", "draft-tokens", "auto", "auto"),
        ("run", "gpu-layers", 0, "0"),
        ("run", "stop", "a", ["a"]),
        ("run", "stop", ["a", "b"], ["a", "b"]),
        ("bench", "temp", [0, 0.8], "0,0.8"),
        ("bench", "temp", 1, "1"),
        ("bench", "draft-tokens", [2, "auto"], "2,auto"),
    ],
)
def test_a_value_of_a_file_is_taken_as_it_would_be_typed(
    command: str, key: str, value: object, taken: object
) -> None:
    assert SETTINGS[command][key].from_toml(value) == taken


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("temp", "1"),
        ("temp", True),
        ("top-k", 1.0),
        ("top-k", True),
        ("quiet", 1),
        ("quiet", "true"),
        ("model", 1),
        ("model", ["a"]),
        ("draft-tokens", 4.0),
        ("stop", [1]),
        ("stop", 1),
        ("drafter", 1),
        ("temp", {"a": 1}),
    ],
)
def test_a_value_of_another_type_is_not_taken(key: str, value: object) -> None:
    with pytest.raises(ValueError):
        RUN[key].from_toml(value)


def test_what_is_expected_is_told_in_words() -> None:
    expected = {
        key: RUN[key].accepted.words for key in ("temp", "top-k", "quiet", "model", "gpu-layers")
    }
    assert expected == {
        "temp": "a number",
        "top-k": "an integer",
        "quiet": "true or false",
        "model": "a string",
        "gpu-layers": "a number, `all` or `auto`",
    }
    assert RUN["exact"].accepted.words == "one of `auto`, `on`, `off`"


@pytest.mark.parametrize(("text", "value"), [("1", True), ("TRUE", True), ("0", False)])
def test_a_switch_in_the_environment_is_one_or_zero_true_or_false(text: str, value: bool) -> None:
    assert RUN["quiet"].from_text(text) is value
    with pytest.raises(ValueError):
        RUN["quiet"].from_text("maybe")


def test_the_table_in_the_docs_is_that_of_the_options() -> None:
    document = settings_table.DOCUMENT.read_text()
    assert "| `temp`, `temperature` |" in document
    assert settings_table.with_table(document) == document, "run scripts/settings_table.py"


# -- who prevails


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(directory: Path, project: str, user: str) -> list[ConfigFile]:
    (directory / "spec-cli.toml").write_text(project)
    (directory / "config.toml").write_text(user)
    return [
        read_config_file(Path("spec-cli.toml"), Scope.PROJECT),
        read_config_file(directory / "config.toml", Scope.USER),
    ]


def value(
    configuration: Configuration, key: str, command: str = "run"
) -> tuple[object, str] | None:
    found = configuration.given(command, SETTINGS[command][key])
    return found and (found.value, str(found.origin))


def test_the_environment_prevails_then_the_project_then_the_user(write: Path) -> None:
    both = files(write, "temp = 1\n", "temp = 2\ntop-k = 3\n")
    environ = {"SPEC_CLI_TEMP": "0"}
    assert value(Configuration(SETTINGS, environ, both), "temp") == ("0", "SPEC_CLI_TEMP")
    assert value(Configuration(SETTINGS, {}, both), "temp") == (1, "./spec-cli.toml, line 1")
    users = f"{write / 'config.toml'}, line 2"
    assert value(Configuration(SETTINGS, {}, both), "top-k") == (3, users)
    assert value(Configuration(SETTINGS, {}, both), "top-p") is None


def test_a_commands_table_prevails_in_its_file_only(write: Path) -> None:
    both = files(write, "threads = 1\n[bench]\nthreads = 2\n", "[run]\nthreads = 3\n")
    configuration = Configuration(SETTINGS, {}, both)
    found = {name: value(configuration, "threads", name) for name in ("run", "verify", "bench")}
    assert {name: pair and pair[0] for name, pair in found.items()} == {
        "run": 1,
        "verify": 1,
        "bench": 2,
    }


def test_a_key_at_the_top_reaches_only_options_of_the_same_meaning(write: Path) -> None:
    text = "temp = 1\nseed = 1\nmax-tokens = 1\n[bench]\ntemp = [0, 1]\n"
    configuration = Configuration(SETTINGS, {"SPEC_CLI_SEED": "2"}, files(write, text, ""))
    assert value(configuration, "temp", "bench") == ([0, 1], "./spec-cli.toml, line 5")
    for key in ("seed", "max-tokens"):
        assert value(configuration, key, "bench") is None
        assert value(configuration, key, "run") is not None


def test_an_empty_variable_is_not_set(write: Path) -> None:
    configuration = Configuration(SETTINGS, {"SPEC_CLI_TEMP": ""}, files(write, "temp = 1", ""))
    assert value(configuration, "temp") == (1, "./spec-cli.toml, line 1")


def test_a_name_with_underscores_and_a_second_name_are_the_same_key(write: Path) -> None:
    configuration = Configuration(SETTINGS, {}, files(write, "ctx_size = 1\ntemperature = 2", ""))
    assert value(configuration, "ctx-size") == (1, "./spec-cli.toml, line 1")
    assert value(configuration, "temp") == (2, "./spec-cli.toml, line 2")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("\ntempp = 1", "line 2: unknown key `tempp`", "`temp`"),
        ("Temp = 1", "line 1: unknown key `Temp`", "`temp`"),
        ("zzzz = 1", "line 1: unknown key `zzzz`", "spec-cli config show"),
        ("[run]\ntmp = 1", "line 2: unknown key `tmp` in `[run]`", "`temp`"),
        ("[run]\nrounds = 1", "line 2: unknown key `rounds` in `[run]`", None),
        ("[bensh]\ntemp = 1", "line 2: unknown table `[bensh]`", "`bench`"),
        ("[bensh]", "line 1: unknown key `bensh`", None),
        ("run = 1", "line 1: unknown key `run`", None),
        ("prompt = 'x'", "line 1: unknown key `prompt`", None),
        ("ctx-size = 1\nctx_size = 2", "line 2: `ctx_size` is already set in line 1", None),
        ("offline = false", "line 1: `offline` cannot be set in a project's file", "--offline"),
        ("[run]\nsystem = 'x'", "line 2: `system` cannot be set in a project's file", None),
        ("chat_template = 'x'", "line 1: `chat-template` cannot be set in a project's", None),
        ("export = 'x'", "line 1: `export` cannot be set in a file", "use `--export`"),
    ],
)
def test_a_key_that_cannot_stand_there_is_refused_with_its_line(
    write: Path, text: str, message: str, hint: str | None
) -> None:
    with pytest.raises(UsageError) as error:
        Configuration(SETTINGS, {}, files(write, text, ""))
    assert error.value.message.startswith(f"./spec-cli.toml, {message}")
    assert hint is None or hint in str(error.value.hint)


def test_the_users_own_file_may_name_a_chat_template_but_no_file_to_write(write: Path) -> None:
    own = "chat-template = 'x.jinja'\nsystem = 'be brief'\noffline = true\n"
    configuration = Configuration(SETTINGS, {}, files(write, "", own))
    assert value(configuration, "offline", "bench") is not None
    with pytest.raises(UsageError, match="`plot` cannot be set in a file"):
        Configuration(SETTINGS, {}, files(write, "", "[bench]\nplot = 'x.svg'"))


def test_a_variable_that_means_nothing_is_told_with_the_nearest_one() -> None:
    environ = {
        "SPEC_CLI_TEMPP": "1",
        "SPEC_CLI_EXPORT": "x",
        "SPEC_CLI_ROUNDS": "1",
        "SPEC_CLI_TEMPERATURE": "1",
        "SPEC_CLI_DEBUG": "1",
        "SPEC_CLI_BACKEND": "cpu",
        "SPEC_CLI_CONFIG": "none",
        "OTHER": "1",
    }
    export, tempp = Configuration(SETTINGS, environ, []).notices()
    assert (tempp.level, export.level) == ("warning", "warning")
    assert "`SPEC_CLI_TEMPP`" in tempp.message and tempp.hint == "did you mean `SPEC_CLI_TEMP`?"
    assert "`SPEC_CLI_EXPORT` has no effect" in export.message


def test_a_variable_for_a_file_is_not_used() -> None:
    configuration = Configuration(SETTINGS, {"SPEC_CLI_EXPORT": "x"}, [])
    export: Setting = SETTINGS["bench"]["export"]
    assert configuration.given("bench", export) is None
