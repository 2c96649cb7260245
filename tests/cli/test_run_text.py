"""The text of a run: the same with any drafter, cut exactly where it has to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import GREEDY, N_TOKENS, Call, Done
from tests.cli.tiny_models import Models

SAMPLED = ("run", "hello there", "-n", str(N_TOKENS), "--temp", "0.8")


@pytest.mark.parametrize("k", range(1, 9))
def test_greedy_text_is_the_same_for_every_draft_length(
    call: Call, models: Models, plain: Done, k: int
) -> None:
    run = call(*GREEDY, "-n", str(N_TOKENS), *models.pair, "-k", str(k), "--json")
    assert run.json["tokens"] == plain.json["tokens"]
    assert run.json["text"] == plain.json["text"]
    assert run.json["timings"]["draft_n"] > 0


@pytest.mark.parametrize(
    "options",
    [("--drafter", "ngram", "-k", "4"), ("--no-draft",), ("-k", "63", "-t", "1"), ()],
    ids=["ngram", "none", "longest", "auto"],
)
def test_greedy_text_is_the_same_whoever_drafts(
    call: Call, models: Models, plain: Done, options: tuple[str, ...]
) -> None:
    run = call(*GREEDY, "-n", str(N_TOKENS), *models.pair, *options)
    assert run.stdout.decode() == plain.json["text"] + "\n"


def test_a_model_that_drafts_for_itself_is_always_accepted(
    call: Call, models: Models, plain: Done
) -> None:
    pair = ("-m", models.target, "-d", models.target, "--drafter", "model", "--draft-original")
    run = call(*GREEDY, "-n", str(N_TOKENS), *pair, "-k", "4", "--json")
    assert run.json["tokens"] == plain.json["tokens"]
    assert run.json["speculative"]["draft_acceptance_rate"] == 1
    assert "drafting will hardly be faster" in run.stderr


@pytest.fixture(scope="module")
def sampled(call: Call, models: Models) -> Done:
    return call(*SAMPLED, "--seed", "1", "-m", models.target, "--no-draft")


@pytest.mark.parametrize(
    "options", [("-k", "1"), ("-k", "4"), ("-k", "8"), ("--drafter", "ngram", "-k", "4")]
)
def test_sampled_text_of_a_seed_is_the_same_whoever_drafts(
    call: Call, models: Models, sampled: Done, options: tuple[str, ...]
) -> None:
    run = call(*SAMPLED, "--seed", "1", *models.pair, *options)
    assert run.stdout == sampled.stdout


def test_a_seed_drawn_at_random_is_reported_and_gives_the_text_again(
    call: Call, models: Models, sampled: Done
) -> None:
    first = call(*SAMPLED, *models.pair, "-k", "2", "--json")
    other = call(*SAMPLED, *models.pair, "-k", "2", "--json")
    seed = first.json["seed"]
    assert seed != other.json["seed"]
    assert first.json["text"] != other.json["text"]
    assert f"seed {seed}" in first.stderr
    again = call(*SAMPLED, *models.pair, "--seed", str(seed))
    assert again.stdout.decode() == first.json["text"] + "\n"
    assert again.stdout != sampled.stdout


@pytest.mark.parametrize("n", range(6))
def test_as_many_tokens_come_as_were_asked_for(
    call: Call, models: Models, plain: Done, n: int
) -> None:
    run = call(*GREEDY, "-n", str(n), *models.pair, "-k", "4", "--json")
    assert run.json["tokens"] == plain.json["tokens"][:n]
    assert run.json["usage"]["completion_tokens"] == n
    assert run.json["finish_reason"] == "length"
    assert plain.json["text"].startswith(run.json["text"])
    assert bool(run.json["text"]) == (n > 0)


@pytest.mark.parametrize("room", [0, 1, 8])
def test_text_ends_where_the_context_is_full(
    call: Call, models: Models, plain: Done, room: int
) -> None:
    n_ctx = plain.json["usage"]["prompt_tokens"] + room
    run = call(*GREEDY, "-c", str(n_ctx), *models.pair, "-k", "16", "--json")
    # The last token needs no cell of its own.
    assert run.json["tokens"] == plain.json["tokens"][: room + 1]
    assert run.json["finish_reason"] == "length"
    assert run.json["system"]["n_ctx"] == n_ctx


@pytest.mark.parametrize("options", [("--no-draft",), ("-k", "1"), ("-k", "4"), ("-k", "8")])
def test_text_ends_before_the_end_of_generation_token(
    call: Call, models: Models, plain: Done, options: tuple[str, ...]
) -> None:
    tokens = plain.json["tokens"]
    # A byte that comes for the first time after a while is the end token of another model.
    at = next(i for i, t in enumerate(tokens) if i >= 8 and t < 256 and t not in tokens[:i])
    target = models.ending(chr(tokens[at]))
    run = call(*GREEDY, "-m", target, "-d", models.draft, *options, "--json")
    assert run.json["tokens"] == tokens[: at + 1]
    assert run.json["text"] == plain.json["text"].partition(chr(tokens[at]))[0]
    assert run.json["finish_reason"] == "stop"


@pytest.mark.parametrize(("start", "length"), [(0, 1), (3, 1), (9, 2), (17, 5), (4, 9)])
def test_nothing_of_a_stop_string_is_ever_shown(
    call: Call, models: Models, plain: Done, start: int, length: int
) -> None:
    stop = plain.json["text"][start : start + length]
    run = call(*GREEDY, "-n", str(N_TOKENS), *models.pair, "-k", "5", "--stop", stop, "--jsonl")
    *_, end = run.events
    shown = "".join(event["text"] for event in run.events if event["event"] == "text")
    assert shown == plain.json["text"].partition(stop)[0]
    assert (end["finish_reason"], end["stop"]) == ("stop_string", stop)


def test_the_stop_string_that_comes_first_ends_the_text(
    call: Call, models: Models, plain: Done
) -> None:
    text = plain.json["text"]
    early, late = text[6:8], text[15:19]
    run = call(
        *GREEDY, "-n", str(N_TOKENS), *models.pair, "-k", "8", "--stop", late, "--stop", early
    )
    assert run.stdout.decode() == text.partition(early)[0] + "\n"
    assert f"stop string {early!r}" in run.stderr


def test_text_held_back_for_a_stop_string_that_does_not_come_is_shown(
    call: Call, models: Models, plain: Done
) -> None:
    stop = plain.json["text"][-3:] + "€"
    run = call(*GREEDY, "-n", str(N_TOKENS), *models.pair, "-k", "4", "--stop", stop)
    assert run.stdout.decode() == plain.json["text"] + "\n"


@pytest.mark.parametrize("options", [("--no-draft",), ("-k", "4")], ids=["none", "model"])
def test_a_recurrent_target_is_decoded_plainly_and_says_why(
    call: Call, models: Models, options: tuple[str, ...]
) -> None:
    args = (*GREEDY, "-n", str(N_TOKENS), "-m", models.mamba)
    run = call(*args, "-d", models.draft, *options, "--json")
    assert len(run.json["tokens"]) == N_TOKENS
    assert run.json["text"] == call(*args, "--no-draft", "--json").json["text"]
    if options == ("-k", "4"):
        assert "recurrent" in run.json["drafting_off"]
        assert "recurrent" in run.stderr
        assert run.json["timings"]["draft_n"] == 0


def test_a_recurrent_draft_guesses_and_the_text_is_the_same(
    call: Call, models: Models, plain: Done
) -> None:
    run = call(
        *GREEDY, "-n", str(N_TOKENS), "-m", models.target, "-d", models.mamba, "-k", "4", "--json"
    )
    assert run.json["text"] == plain.json["text"]
    assert run.json["drafter"] == "chain"
    assert run.json["timings"]["draft_n"] > 0


def test_a_small_batch_changes_nothing_in_the_text(
    call: Call, models: Models, plain: Done, tmp_path: Path
) -> None:
    run = call(
        *GREEDY,
        *("-n", str(N_TOKENS), *models.pair, "--batch-size", "3"),
        env={"XDG_STATE_HOME": str(tmp_path)},
    )
    assert run.stdout.decode() == plain.json["text"] + "\n"


def test_a_run_in_a_tiny_context_does_not_switch_later_runs_to_plain_decoding(
    call: Call, models: Models, tmp_path: Path
) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path)}
    drafting = ("-m", str(models.target), "--drafter", "ngram", "-n", "1", "--json")
    tiny = call("run", "--raw", "a", "-c", "1", *drafting, env=env)
    assert len(tiny.json["tokens"]) == 1
    assert call(*GREEDY, *drafting, env=env).json["drafting_off"] is None


@pytest.mark.parametrize(
    "options",
    [
        ("--temp", "1e-310"),
        ("--temp", "0", "--repeat-penalty", "1e-320"),
        ("--temp", "0", "--presence-penalty=-1e39"),
        ("--temp", "0", "--frequency-penalty", "1e308"),
    ],
    ids=" ".join,
)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_an_extreme_sampling_setting_is_refused_or_works(
    call: Call, models: Models, options: tuple[str, ...]
) -> None:
    run = call("run", "hi", "-n", "4", "-m", models.target, *options)
    assert run.exit_code in (0, 2), run.stderr
