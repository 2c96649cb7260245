"""`--help` and `--version`: quick, on stdout, with examples, and without loading llama.cpp."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spec_cli import __version__
from spec_cli.cli.app import COMMANDS as COMMANDS_BY_NAME
from spec_cli.cli.config_command import ConfiguredCommand
from spec_cli.cli.late import LateCommand, Unloaded
from spec_cli.cli.models.group import COMMANDS as COMMANDS_OF_MODELS
from tests.cli.conftest import GREEDY, Call, Done, SpecCli, finished
from tests.cli.tiny_models import Models

MODELS = ("list", "show", "pull", "rm", "path", "check", "suggest", "add", "forget")
COMMANDS = (
    (),
    ("run",),
    ("chat",),
    ("verify",),
    ("bench",),
    ("pull",),
    ("models",),
    *(("models", command) for command in MODELS),
    ("devices",),
    ("doctor",),
    ("config",),
    ("config", "show"),
    ("config", "path"),
)
QUICK = ("run", "chat", "verify", "bench", "pull", "models")  # their help
SLOW = {"llama_cpp", "huggingface_hub", "jinja2", "numpy", "pydantic", "psutil"}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_is_on_stdout(call: Call, command: tuple[str, ...], flag: str) -> None:
    run = call(*command, flag)
    assert (run.exit_code, run.stderr) == (0, "")
    assert "Usage: " in run.stdout.decode()
    assert b"\x1b" not in run.stdout


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_flag_is_not_shown_as_one_that_takes_a_value(
    call: Call, command: tuple[str, ...]
) -> None:
    assert b"bool" not in call(*command, "--help").stdout


def test_no_arguments_are_answered_with_help(call: Call) -> None:
    assert b"Examples:" in call().stdout


@pytest.mark.parametrize("command", [(), ("run",)], ids=" ".join)
def test_examples_come_first_and_can_be_pasted(call: Call, command: tuple[str, ...]) -> None:
    text = call(*command, "--help").stdout.decode()
    _, _, examples = text.partition("Examples:")
    lines = examples.partition("╭")[0].strip().splitlines()
    assert len(lines) == 3
    assert all("spec-cli run " in line for line in lines)


def test_every_option_of_run_is_explained(call: Call) -> None:
    text = call("run", "--help", env={"COLUMNS": "200"}).stdout.decode()
    rows = re.findall(r"^│ +(--[\w-]+)(.*)│$", text, re.M)
    assert len(rows) > 30
    for option, rest in rows:
        words = re.sub(r"--?[\w-]+|\b[A-Z][A-Z|a-z]*\b(?=  )|\[.*?\]", "", rest).strip(" ,")
        assert len(words) > 5, f"{option} has no explanation"


def test_the_prompt_is_shown_as_optional(call: Call) -> None:
    assert " run [OPTIONS] [PROMPT] " in call("run", "--help").stdout.decode()


def loaded_by(spec_cli: SpecCli, *args: str) -> set[str]:
    """The modules that a call imports, and the packages they are in."""
    run = spec_cli(*args, env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert run.exit_code == 0
    modules = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines()}
    assert "typer" in modules
    return modules | {module.partition(".")[0] for module in modules}


@pytest.mark.parametrize("command", [(), *((name,) for name in QUICK)], ids=" ".join)
def test_help_loads_nothing_that_is_slow(spec_cli: SpecCli, command: tuple[str, ...]) -> None:
    assert loaded_by(spec_cli, *command, "--help").isdisjoint(SLOW | {"spec_cli.session"})


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_the_programs_own_help_loads_no_command(spec_cli: SpecCli, option: str) -> None:
    loaded = loaded_by(spec_cli, option)
    assert "spec_cli.cli.app" in loaded
    assert loaded.isdisjoint({"pydantic", "spec_cli.settings", "spec_cli.cli.run"})


def test_a_run_without_settings_loads_no_other_command(spec_cli: SpecCli, models: Models) -> None:
    loaded = loaded_by(spec_cli, *GREEDY, "-n", "2", "-m", str(models.target))
    assert "spec_cli.session" in loaded
    others = {"chat", "bench", "verify"}
    assert loaded.isdisjoint({f"spec_cli.cli.{name}" for name in others} | {"llama_cpp.llama"})


@pytest.mark.parametrize(
    ("name", "unloaded"), [*COMMANDS_BY_NAME.items(), *COMMANDS_OF_MODELS.items()]
)
def test_a_command_is_summed_up_by_the_first_line_of_its_help(
    name: str, unloaded: Unloaded
) -> None:
    late = LateCommand(name, unloaded)
    assert late.loaded.help is not None
    assert late.loaded.help.splitlines()[0] == late.help
    assert late.takes_settings == isinstance(late.loaded, ConfiguredCommand)


def test_the_version_is_one_line(call: Call) -> None:
    assert call("--version") == Done(0, f"spec-cli {__version__}\n".encode(), "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_no_crash_of_help_and_version(spec_cli: SpecCli) -> None:
    for option in ("--version", "--help"):
        run = spec_cli(option, shell='"$@" >/dev/full')
        assert run.exit_code != 0
        assert "Traceback" not in run.stderr and "Exception ignored" not in run.stderr


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--help",),
        ("--version",),
        ("run", "--help"),
        ("models", "--help"),
        ("models", "path", "--help"),
        ("config",),
        ("config", "show", "--help"),
    ],
    ids=" ".join,
)
def test_a_reader_that_leaves_ends_help_as_it_ends_a_run(
    spec_cli: SpecCli, words: tuple[str, ...]
) -> None:
    process = spec_cli.start(*words)
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    run = finished(process)
    assert (run.exit_code, run.stderr) == (141, "")


def test_a_command_that_does_not_exist_gets_the_nearest_one(call: Call) -> None:
    call("runn", "hi").fails(2, "unknown command `runn`", "did you mean `run`?")


def test_help_fits_a_narrow_terminal(call: Call) -> None:
    text = call("run", "--help", env={"COLUMNS": "40"}).stdout.decode()
    assert max(map(len, text.splitlines())) <= 40
