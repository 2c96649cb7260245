"""A command line that cannot be read: one sentence, what to type instead, and nothing besides."""

from __future__ import annotations

import pexpect
import pytest

from tests.cli.conftest import Call, SpecCli

DRAFTERS = "one of `auto`, `chain`, `model`, `ngram`, `none`"
FORMATS = "one of `text`, `md`, `csv`, `json`, `jsonl`, `sql`"

# What was typed, what is wrong with it, and what to type instead.
VALUES = [
    ("run hi --temp abc", "--temp is `abc`, but must be a number", None),
    ("run hi --temperature abc", "--temperature is `abc`, but must be a number", None),
    ("run hi --temp=", "--temp is ``, but must be a number", None),
    ("run hi --json --temp abc", "--temp is `abc`, but must be a number", None),
    ("run hi --top-k 1.5", "--top-k is `1.5`, but must be an integer", None),
    ("run hi --seed 0x10", "--seed is `0x10`, but must be an integer", None),
    ("run hi -n many", "--max-tokens is `many`, but must be an integer", None),
    ("chat --temp abc", "--temp is `abc`, but must be a number", None),
    ("verify -n x", "--max-tokens is `x`, but must be an integer", None),
    ("bench --rounds two", "--rounds is `two`, but must be an integer", None),
    ("bench --synthetic much", "--synthetic is `much`, but must be a number", None),
    ("run hi --drafter oracle", f"--drafter is `oracle`, but must be {DRAFTERS}", None),
    ("run hi --drafter modle", f"--drafter is `modle`, but must be {DRAFTERS}", "`model`?"),
    ("run hi --drafter NGRAM", f"--drafter is `NGRAM`, but must be {DRAFTERS}", "`ngram`?"),
    ("bench --format jason", f"--format is `jason`, but must be {FORMATS}", "`json`?"),
    ("bench --drafter modle", "--drafter is `modle`, but must be one of `auto`,", "`model`?"),
    ("verify --drafter grams", "--drafter is `grams`, but must be one of `model`,", "`ngram`?"),
    ("models add a b -k few", "--draft-tokens is `few`, but must be an integer", None),
    ("models add a b -k 64", "--draft-tokens is 64, but must be from 1 to 63", None),
    ("run hi -nmany", "--max-tokens is `many`, but must be an integer", "`-nmany` means `-n many`"),
    ("run hi -ngl 99", "--max-tokens is `gl`, but must be an integer", "`-ngl` means `-n gl`"),
    ("run hi -temp 1", "--threads is `emp`, but must be an integer", "did you mean `--temp`?"),
]
OPTIONS = [
    ("run hi --tempp 1", "unknown option `--tempp`", "did you mean `--temp`?"),
    ("run hi --top_k 1", "unknown option `--top_k`", "did you mean `--top-k`?"),
    ("run hi --Quiet", "unknown option `--Quiet`", "did you mean `--quiet`?"),
    ("run hi --no-thinking", "unknown option `--no-thinking`", "did you mean `--no-think`?"),
    ("run hi --zzz=1", "unknown option `--zzz`", "`spec-cli run --help` shows the options"),
    ("run -p hi", "unknown option `-p`", "`spec-cli run --help` shows the options"),
    ("run --prompt hi", "unknown option `--prompt`", "PROMPT needs no option: `spec-cli run PR"),
    ("run hi -verbose", "unknown option `-e` in `-verbose`", "did you mean `--verbose`?"),
    ("run hi -qx", "unknown option `-x` in `-qx`", "`spec-cli run --help` shows the options"),
    ("chat --fulll", "unknown option `--fulll`", "`spec-cli chat --help` shows the options"),
    ("pull --dryrun", "unknown option `--dryrun`", "did you mean `--dry-run`?"),
    ("devices --jsn", "unknown option `--jsn`", "did you mean `--json`?"),
    ("models list --jsn", "unknown option `--jsn`", "did you mean `--json`?"),
    ("config show --jsn", "unknown option `--jsn`", "did you mean `--json`?"),
    ("--verison", "unknown option `--verison`", "did you mean `--version`?"),
    ("--temp 1 run hi", "unknown option `--temp`", "`spec-cli COMMAND --temp`"),
    ("config --json show", "unknown option `--json`", "`spec-cli config COMMAND --json`"),
    ("run hi --quiet=yes", "--quiet takes no value", "write `--quiet` alone"),
    ("run hi --no-think=1", "--no-think takes no value", "write `--no-think` alone"),
    ("models rm a --yes=1", "--yes takes no value", "write `--yes` alone"),
    ("--version=1", "--version takes no value", "write `--version` alone"),
    ("run hi --temp", "--temp needs a value", "give a number"),
    ("run hi --drafter", "--drafter needs a value", f"give {DRAFTERS}"),
    ("run hi -k", "-k needs a value", "give `-k N|auto`"),
    ("run hi --file", "--file needs a value", "give `--file FILE`"),
    ("bench -m", "-m needs a value", "give `-m NAME`"),
]
ARGUMENTS = [
    ("run hello world", "1 argument too many: `world`", "put a prompt of several words in quotes"),
    ("run Why is the sky blue", "4 arguments too many: `is` and so on", "in quotes"),
    ("chat hello there", "1 argument too many: `there`", "`spec-cli chat --help`"),
    ("verify a b", "1 argument too many: `b`", "`spec-cli verify --help`"),
    ("devices cpu", "1 argument too many: `cpu`", "`spec-cli devices --help`"),
    ("models list a", "1 argument too many: `a`", "`spec-cli models list --help`"),
    ("config path a", "1 argument too many: `a`", "`spec-cli config path --help`"),
    ("models rm", "NAME is missing", "write `spec-cli models rm NAME`"),
    ("models add a", "TARGET is missing", "write `spec-cli models add NAME TARGET`"),
    ("models check", "TARGET is missing", "write `spec-cli models check TARGET`"),
    ("bench a -m b", "PAIR and --model exclude each other", "leave out one of them"),
    ("verify a -m b", "PAIR and --model exclude each other", "leave out one of them"),
    ("runn hi", "unknown command `runn`", "did you mean `run`?"),
    ("Run hi", "unknown command `Run`", "did you mean `run`?"),
    ("zzz", "unknown command `zzz`", "`spec-cli --help` shows the commands"),
    ("models lst", "unknown command `lst`", "did you mean `list`?"),
    ("models zzz", "unknown command `zzz`", "`spec-cli models --help` shows the commands"),
    ("config shw", "unknown command `shw`", "did you mean `show`?"),
    ("--", "missing command", "`spec-cli --help`"),
]


@pytest.mark.parametrize(("line", "message", "hint"), [*VALUES, *OPTIONS, *ARGUMENTS])
def test_what_was_typed_wrong_is_told_in_one_line_with_what_to_type(
    call: Call, line: str, message: str, hint: str | None
) -> None:
    run = call(*line.split())
    run.fails(2)
    told, *hints = run.stderr.splitlines()
    assert told.startswith(f"error: {message}")
    assert [h.startswith("hint: ") and hint is not None and hint in h for h in hints] == (
        [] if hint is None else [True]
    )


def test_an_empty_line_after_a_command_of_commands_is_answered_with_help(call: Call) -> None:
    run = call("config")
    assert run.exit_code == 2 and run.stderr == ""
    assert b"Usage: " in run.stdout


def test_help_that_is_asked_for_prevails_over_what_is_wrong(call: Call) -> None:
    assert call("run", "a", "b", "--help") == call("run", "--help")


def test_it_is_told_to_a_terminal_as_to_a_pipe(spec_cli: SpecCli) -> None:
    words = ("run", "hi", "--drafter", "modle")
    piped = spec_cli(*words).stderr
    program, *args = [*spec_cli.program, *words]
    env = spec_cli.environ({"TERM": "xterm-256color"})
    on_terminal, exit_code = pexpect.run(
        f"{program} {' '.join(args)}", env=env, cwd=str(spec_cli.home), withexitstatus=True
    )
    assert (on_terminal.decode().replace("\r\n", "\n"), exit_code) == (piped, 2)


def test_a_long_error_is_one_line_however_narrow_the_terminal(call: Call) -> None:
    run = call("run", "hi", "--drafter", "modle", env={"COLUMNS": "20"})
    assert len(run.stderr.splitlines()) == 2


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("[red]x[/red]", "[red]x[/red]"),
        ("a\nb", "a b"),
        ("é世🦙", "é世🦙"),
        ("x" * 61, "x" * 50),
    ],
)
def test_what_was_typed_is_told_on_one_line_and_harmless(call: Call, word: str, told: str) -> None:
    for words in [
        ("run", "hi", word),
        ("run", "hi", f"--{word}"),
        (word,),
        ("run", "--temp", word),
    ]:
        run = call(*words)
        run.fails(2)
        assert run.stderr.startswith("error: ") and told in run.stderr
        assert "\x1b" not in run.stderr and len(run.stderr.splitlines()[0]) < 110
