"""`spec-cli chat` with its messages from a pipe: a turn a line, answers on stdout."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from spec_cli.cli.chat_commands import COMMANDS
from spec_cli.target_side import TargetSide
from tests.cli.conftest import Call, SpecCli, finished
from tests.cli.tiny_models import Models

N = 12


@pytest.fixture(scope="module")
def args(models: Models) -> tuple[str, ...]:
    return ("chat", "--temp", "0", "-n", str(N), "-c", "400", *models.pair, "-k", "4")


def lines(*turns: str) -> bytes:
    return "".join(f"{turn}\n" for turn in turns).encode()


def test_the_first_answer_is_that_of_run(call: Call, args: tuple[str, ...], models: Models) -> None:
    alone = call("run", "hello there", *args[1:])
    chat = call(*args, "-q", stdin=b"hello there\n")
    assert (chat.exit_code, chat.stderr) == (0, "")
    assert chat.stdout == alone.stdout


def test_answers_are_the_same_with_and_without_drafts(
    call: Call, args: tuple[str, ...], models: Models
) -> None:
    turns = lines("hello there", "and then?", "the end")
    drafted = call(*args, "-q", stdin=turns)
    plain = call(*args[:-4], "--no-draft", "-q", stdin=turns)
    assert drafted.exit_code == plain.exit_code == 0
    assert drafted.stdout == plain.stdout
    assert drafted.stdout.count(b"\n") >= 3


def test_a_further_turn_keeps_what_was_evaluated(call: Call, args: tuple[str, ...]) -> None:
    run = call(*args, stdin=lines("hello there", "and then?"))
    first, second = re.findall(r"^.* tok/s.*; prompt (\d+)(?:, (\d+) kept)?", run.stderr, re.M)
    assert first[1] == ""
    assert int(first[0]) <= int(second[1]) < int(second[0])


def test_a_retry_with_a_seed_gives_the_same_text_and_without_one_another(
    call: Call, args: tuple[str, ...]
) -> None:
    turns = lines("/set temp 1", "hello there", "/retry")
    run = call(*args, "--seed", "7", "-q", stdin=turns)
    text = run.stdout.decode()
    half = text[: len(text) // 2]
    assert run.exit_code == 0 and text == half + half
    text = call(*args, "-q", stdin=turns).stdout.decode()
    assert text[: len(text) // 2] != text[len(text) // 2 :]


def test_a_bad_turn_does_not_lose_the_rest_and_tells_in_the_exit_code(
    call: Call, args: tuple[str, ...]
) -> None:
    alone = call(*args, "-q", stdin=lines("hello there", "and then?"))
    turns = (b"hello there\n", b"\xff\xfe\n", b"/sett temp 1\n", b"x" * 900 + b"\n", b"\n")
    run = call(*args, "-q", stdin=b"".join(turns) + b"and then?")
    assert run.stdout == alone.stdout
    assert run.exit_code == 2
    errors = [line for line in run.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 3
    assert "line 2 of the input is not valid UTF-8" in errors[0]
    assert "there is no command `/sett`" in errors[1]
    assert "hint: did you mean `/set`?" in run.stderr
    assert re.search(r"would have \d+ tokens; of the 400", errors[2])


def test_lines_between_quotes_are_one_message(call: Call, args: tuple[str, ...]) -> None:
    one = call(*args, "--system", "x", "-q", stdin=lines('"""', "hello", "", "there", '"""'))
    assert one.exit_code == 0 and one.stderr == ""
    marked = b"\xef\xbb\xbf" + lines('"""', "hello", "", "there", '"""')
    assert call(*args, "--system", "x", "-q", stdin=marked).stdout == one.stdout
    other = call(*args, "--system", "x", "-q", stdin=lines("hello"))
    assert other.stdout != one.stdout
    bad = lines('"""', "one") + b"\xff\n" + lines("two", '"""', "hello")
    run = call(*args, "--system", "x", "-q", stdin=bad)
    assert (run.exit_code, run.stdout) == (2, other.stdout)
    assert run.stderr.startswith("error: line 3 of the input is not valid UTF-8")
    assert run.stderr.count("error: ") == 1
    broken = call(*args, "-q", stdin=lines('"""', "hello"))
    broken.fails(2, 'the message in line 1 has no closing """')


def test_a_conversation_that_is_saved_goes_on_where_it_was(
    call: Call, args: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "a chat.json"
    turns = lines("/system be brief", "hello there", "/set top-k 9", f"/save {path}", "and then?")
    first = call(*args, "-q", stdin=turns)
    assert first.exit_code == 0
    saved = json.loads(path.read_text())
    assert [m["role"] for m in saved["messages"]] == ["system", "user", "assistant"]
    assert saved["settings"]["top-k"] == 9
    assert path.stat().st_mode & 0o777 == 0o600
    again = call(*args, "-q", stdin=lines(f"/load {path}", "/set top-k", "/system", "and then?"))
    assert again.exit_code == 0
    assert "top-k  9" in again.stderr and "be brief" in again.stderr
    answer = saved["messages"][2]["content"]
    assert first.stdout.decode().startswith(answer)
    assert len(first.stdout) > len(answer) + 1
    refused = call(*args, "-q", stdin=lines(f"/save {path}", f"/save! {path}"))
    refused.fails(2, "is there already", f"`/save! {path}`", "0 turns saved")
    assert json.loads(path.read_text())["messages"] == []


def test_a_file_that_was_read_goes_before_the_next_message(
    call: Call, args: tuple[str, ...], tmp_path: Path
) -> None:
    path, saved = tmp_path / "notes.txt", tmp_path / "saved.json"
    path.write_text("the notes\n")
    turns = lines(f"/read {path}", "sum up", "more", f"/save {saved}")
    assert call(*args, "-q", stdin=turns).exit_code == 0
    said = [m["content"] for m in json.loads(saved.read_text())["messages"]]
    assert said[0] == "the notes\n\nsum up" and said[2] == "more"
    taken_back = lines(f"/read {path}", f"/read {path}", "/read", "sum up", f"/save! {saved}")
    assert call(*args, "-q", stdin=taken_back).exit_code == 0
    assert json.loads(saved.read_text())["messages"][0]["content"] == "sum up"
    call(*args, stdin=lines("/read nowhere.txt")).fails(2, "cannot read nowhere.txt: No such file")


def test_old_turns_are_dropped_only_where_that_was_asked_for(
    call: Call, args: tuple[str, ...]
) -> None:
    turns = lines(*(f"hello there {i} " + "x" * 60 for i in range(6)))
    refused = call(*args, "-q", stdin=turns)
    assert refused.exit_code == 2
    assert "`/compact` drops the oldest turns" in refused.stderr
    dropped = call(*args, "-q", "--drop-oldest", stdin=turns)
    assert dropped.exit_code == 0
    assert re.search(r"dropping the \d turns? at the beginning", dropped.stderr)
    assert len(dropped.stdout) > len(refused.stdout)
    compacted = call(*args, "-q", stdin=turns + lines("/compact", "/compact 1", "hello"))
    assert re.search(r"^\d turns? dropped, \d left$", compacted.stderr, re.M)
    assert compacted.stdout.startswith(refused.stdout)
    assert len(compacted.stdout) > len(refused.stdout)


def test_a_context_that_nobody_gave_a_size_grows_with_the_conversation(
    call: Call, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, n in (("MIN_AUTO_CTX", 64), ("AUTO_CTX_ANSWER", 16)):
        monkeypatch.setattr(f"spec_cli.target_side.{name}", n)
    sizes: list[int] = []
    make = TargetSide.make_context
    monkeypatch.setattr(
        TargetSide, "make_context", lambda self, n_ctx: sizes.append(n_ctx) or make(self, n_ctx)
    )
    turns = lines(*(f"hello there {i}" for i in range(9)))
    run = call("chat", "--temp", "0", "-n", "12", "-m", models.target, stdin=turns)
    assert run.exit_code == 0
    figures = re.findall(r"prompt (\d+)(?:, (\d+) kept)?", run.stderr)
    assert len(figures) == 9
    assert sizes[0] == 64 and sizes == sorted(sizes) and sizes[-1] <= 512
    assert 1 < len(sizes) <= 5
    assert sum(bool(kept) for _, kept in figures) >= len(figures) - len(sizes)


def test_the_pair_can_be_changed_and_a_bad_one_changes_nothing(
    call: Call, args: tuple[str, ...], models: Models
) -> None:
    alone = call(*args, "-q", stdin=lines("hello there", "and then?")).stdout
    bad = lines(
        "hello there", f"/pair {models.target} {models.foreign}", "/pair nowhere", "and then?"
    )
    run = call(*args, "-q", stdin=bad)
    assert run.stdout == alone and run.exit_code == 5
    good = lines("hello there", f"/pair {models.target} none", "and then?", "/stats")
    run = call(*args, "-q", stdin=good)
    assert (run.stdout, run.exit_code) == (alone, 0)
    assert re.search(r"^draft +none$", run.stderr, re.M)
    assert "draft  " in run.stderr and "2 turns" in run.stderr


def test_statistics_tell_of_the_last_answer(call: Call, args: tuple[str, ...]) -> None:
    run = call(*args, stdin=lines("/stats", "hello there", "and then?", "/stats"))
    assert run.exit_code == 2 and "there is no answer" in run.stderr
    assert re.search(r"^speed  ", run.stderr, re.M)
    told = r"^chat   2 turns, \d+ of 400 tokens; \d+ of the prompt's \d+ were kept"
    assert re.search(told, run.stderr, re.M)
    hidden = call(*args, stdin=lines("/set stats off", "hello there"))
    assert "tok/s" not in hidden.stderr


def test_draft_tokens_can_be_set_while_it_runs(call: Call, args: tuple[str, ...]) -> None:
    turns = lines("/set draft-tokens 0", "hello there", "/stats", "/set draft-tokens 2", "/retry")
    run = call(*args, stdin=turns + lines("/stats"))
    plain, drafted = run.stderr.split("draft-tokens  2")
    assert "accepted" not in plain and "accepted" in drafted and "k=2" in drafted


def test_a_command_after_the_text_is_text_with_a_space_before_it(
    call: Call, args: tuple[str, ...]
) -> None:
    run = call(*args, "-q", stdin=b" /exit is a command\n/exit\nnever said\n")
    quoted = call(*args, "-q", stdin=b'"""/exit is a command"""\n')
    assert quoted.exit_code == 0 and len(quoted.stdout) > 1
    assert run.exit_code == 0 and run.stderr == ""
    assert run.stdout == call(*args, "-q", stdin=b" /exit is a command\n").stdout


def test_help_lists_every_command(call: Call, args: tuple[str, ...]) -> None:
    run = call(*args, "-q", stdin=b"/help\n")
    listed = re.findall(r"^/(\S+)", run.stderr, re.M)
    assert listed == list(COMMANDS)


def test_the_last_message_is_edited_in_the_users_editor(
    call: Call, args: tuple[str, ...], tmp_path: Path
) -> None:
    saved = tmp_path / "saved.json"
    turns = lines("hello there", "and then?", "/edit", f"/save {saved}")
    env = {"EDITOR": "sed -i s/then/now/", "VISUAL": ""}
    assert call(*args, "-q", stdin=turns, env=env).exit_code == 0
    said = [m["content"] for m in json.loads(saved.read_text())["messages"]]
    assert said[::2] == ["hello there", "and now?"]
    for editor, words in (
        ("false", "false failed (1)"),
        ("/no/such", "cannot edit with /no/such: "),
        ("rm", "cannot edit with rm: "),
        ("vi '", "cannot edit with vi ': No closing quotation"),
    ):
        run = call(*args, "-q", stdin=lines("hello", "/edit"), env={"EDITOR": editor})
        assert run.exit_code == 2 and words in run.stderr
    run = call(*args, "-q", stdin=lines("hello", "/edit"), env={"EDITOR": "true"})
    assert run.exit_code == 0 and "nothing changed" in run.stderr


def test_a_model_without_a_chat_template_is_refused_at_once(call: Call, models: Models) -> None:
    run = call("chat", "-m", models.base, stdin=b"hello\n")
    run.fails(2, "the model has no chat template", "`--chat-template FILE`")


def test_a_conversation_with_a_recurrent_model_goes_on(call: Call, models: Models) -> None:
    run = call(
        *("chat", "--temp", "0", "-n", "8", "-c", "400", "-m", models.mamba),
        stdin=lines("hello there", "and then?", "/retry"),
    )
    assert run.exit_code == 0
    assert len(re.findall(r"tok/s", run.stderr)) == 3


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_an_answer_to_a_pipe_and_the_chat(
    spec_cli: SpecCli, models: Models, number: signal.Signals, code: int
) -> None:
    process = spec_cli.start(
        *("chat", "--temp", "0", "-q", "-c", "60000", "-m", models.target),
        stdin=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"hello there\nnever answered\n")
    process.stdin.flush()
    assert process.stdout.read(1)
    process.send_signal(number)
    run = finished(process)
    assert run.exit_code == code
    assert run.stdout.endswith(b"\n") and "Traceback" not in run.stderr
