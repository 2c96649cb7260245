"""Every exit code can be reached, and the last resort for errors says what it should."""

from __future__ import annotations

from errno import EACCES
from signal import SIGHUP, SIGTERM

import pytest
import typer

from spec_cli.cli.guard import guarded
from spec_cli.cli.signals import Terminated
from spec_cli.errors import Cancelled, CheckError, ExitCode
from tests.cli.conftest import Call
from tests.cli.tiny_models import Models


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("-n", "1"), ExitCode.OK),
        (("-n", "-1"), ExitCode.USAGE),
        (("-m", "none"), ExitCode.MODEL),
        (("-d", "{foreign}"), ExitCode.PAIR),
        (("--device", "none-such"), ExitCode.RESOURCE),
    ],
)
def test_a_run_ends_with_its_exit_code(
    call: Call, models: Models, options: tuple[str, ...], code: ExitCode
) -> None:
    words = [word.format(foreign=models.foreign) for word in options]
    assert call("run", "hi", "-m", models.target, *words).exit_code == code


def exit_code_of(error: BaseException) -> int:
    """The exit code of a command that raises `error` while it holds a secret."""

    def command() -> None:
        token = "hf_secret"
        if token:
            raise error

    with pytest.raises(typer.Exit) as left:
        guarded(command)()
    return left.value.exit_code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("no idea"), ExitCode.UNEXPECTED),
        (MemoryError(), ExitCode.UNEXPECTED),
        (CheckError("not equal"), ExitCode.CHECK),
        (KeyboardInterrupt(), ExitCode.SIGINT),
        (Cancelled(), ExitCode.SIGINT),
        (Terminated(SIGTERM), ExitCode.SIGTERM),
        (Terminated(SIGHUP), ExitCode.SIGHUP),
        (SystemExit(3), 3),
        (SystemExit("words"), ExitCode.UNEXPECTED),
    ],
    ids=repr,
)
def test_an_exception_becomes_its_exit_code(error: BaseException, code: int) -> None:
    assert exit_code_of(error) == code


def test_an_unexpected_error_is_named_in_one_line_without_traceback_or_values(
    capsys: pytest.CaptureFixture[str],
) -> None:
    exit_code_of(ValueError("boom [/bold] \x1b[31m"))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0] == "error: unexpected ValueError: boom [/bold] \\x1b[31m"
    assert err.splitlines()[1].startswith("hint: set SPEC_CLI_DEBUG=1")
    assert "Traceback" not in err and "hf_secret" not in err


def test_an_error_of_the_system_is_told_in_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(PermissionError(EACCES, "Permission denied", "/x/y")) == 1
    assert capsys.readouterr() == ("", "error: cannot read or write /x/y: Permission denied\n")


def test_an_error_without_words_has_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code_of(MemoryError())
    assert capsys.readouterr().err.splitlines()[0] == "error: unexpected MemoryError"


def test_a_traceback_shows_no_values(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPEC_CLI_DEBUG", "1")
    exit_code_of(ValueError("boom"))
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.count("hf_secret") <= err.count('token = "hf_secret"')


def test_an_interrupt_is_not_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code_of(KeyboardInterrupt())
    assert capsys.readouterr() == ("", "")
