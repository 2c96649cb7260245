"""A line of the input: what it asks for, and what is wrong with it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_cli.batch.lines import MAX_LINE_BYTES
from spec_cli.batch.request import Failure, Request, read_request
from spec_cli.errors import ExitCode
from spec_cli.prompt import Message
from spec_cli.settings import GenerationSettings
from spec_cli.spec.settings import SamplingSettings

RUN = GenerationSettings(seed=1, sampling=SamplingSettings(temp=0.5, top_k=7), max_tokens=9)


def read(line: object) -> Request | Failure:
    data = line if isinstance(line, bytes) else json.dumps(line).encode()
    return read_request(data, 3, "key", RUN)


def asked(line: object) -> Request:
    request = read(line)
    assert isinstance(request, Request), request
    return request


def wrong(line: object) -> Failure:
    failure = read(line)
    assert isinstance(failure, Failure), failure
    assert failure.error.exit_code is ExitCode.USAGE
    return failure


def test_a_bare_string_is_a_prompt_with_the_settings_of_the_run() -> None:
    request = asked("hi")
    assert (request.index, request.key, request.id) == (3, "key", None)
    assert (request.prompt, request.messages, request.system) == ("hi", (), None)
    assert request.generation == RUN and not request.sets_seed


def test_a_prompt_is_taken_as_it_is() -> None:
    assert asked({"prompt": " a\n\n"}).prompt == " a\n\n"


def test_messages_keep_their_roles_and_order() -> None:
    turns = [("system", "s"), ("user", "u"), ("assistant", "a"), ("user", "")]
    line = {"messages": [{"role": role, "content": content} for role, content in turns], "id": 7}
    assert asked(line).messages == tuple(Message(*turn) for turn in turns)
    assert (asked(line).prompt, asked(line).id) == (None, 7)


def test_every_setting_of_a_line_wins_over_that_of_the_run() -> None:
    own = {
        **{"temp": 0, "top_k": 0, "top_p": 1, "min_p": 0.1, "repeat_penalty": 1.5},
        **{"repeat_last_n": 8, "presence_penalty": 0.5, "frequency_penalty": -0.5},
    }
    request = asked({"prompt": "p", "seed": 0, "max_tokens": 3, "stop": "x", **own})
    sampling = SamplingSettings(**own)  # type: ignore[arg-type]
    assert request.generation == GenerationSettings(0, sampling, max_tokens=3, stop=("x",))
    assert request.sets_seed


def test_a_setting_that_a_line_does_not_make_is_that_of_the_run() -> None:
    sampling = asked({"prompt": "p", "temperature": 2}).generation.sampling
    assert (sampling.temp, sampling.top_k) == (2.0, 7)


def test_null_is_as_good_as_no_field() -> None:
    names = ("id", "system", "seed", "temp", "max_tokens", "stop", "messages")
    assert asked({"prompt": "p", **dict.fromkeys(names)}) == asked({"prompt": "p"})


@pytest.mark.parametrize(
    ("line", "fragment"),
    [
        (b'{"prompt": "x"', "not JSON"),
        (b"hello", "not JSON"),
        (b'"\xff"', "not valid UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"prompt": "x", "seed": ' + b"9" * 5000 + b"}", "nested too deeply"),
        (["x"], "neither a JSON object nor a string"),
        (None, "neither"),
        ({}, "one of `prompt` and `messages`"),
        ({"prompt": None}, "one of `prompt` and `messages`"),
        ({"prompt": "x", "messages": [{"role": "user", "content": "x"}]}, "one of"),
        ({"prompt": " \n"}, "`prompt` is blank"),
        ("", "`prompt` is blank"),
        ({"prompt": 3}, "`prompt` must be a text"),
        (b'{"prompt": "\\ud800"}', "not valid UTF-8"),
        ({"messages": []}, "not empty"),
        ({"messages": ["x"]}, "message 1 must have `role` and `content`"),
        ({"messages": [{"role": "user", "content": "x", "name": "y"}]}, "nothing else"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "`role` of message 1"),
        ({"messages": [{"role": "user", "content": None}]}, "`content` must be a text"),
        (
            {"system": "a", "messages": [{"role": "system", "content": "b"}]},
            "two system prompts",
        ),
        ({"prompt": "x", "id": True}, "`id`"),
        ({"prompt": "x", "id": [1]}, "`id`"),
        ({"prompt": "x", "system": 1}, "`system` must be a text"),
        ({"prompt": "x", "temp": "1"}, "`temp` must be a number"),
        ({"prompt": "x", "temp": True}, "`temp` must be a number"),
        (b'{"prompt": "x", "temp": NaN}', "--temp is nan"),
        ({"prompt": "x", "temp": 10**400}, "`temp` is too large"),
        ({"prompt": "x", "top_k": 10**400}, "--top-k is 1000"),
        (b'"' + b"x" * MAX_LINE_BYTES, "the line has more than 32 MiB"),
        ({"prompt": "x", "temp": -1}, "--temp is -1"),
        ({"prompt": "x", "top_k": 1.5}, "`top_k` must be a whole number"),
        ({"prompt": "x", "seed": -1}, "--seed is -1"),
        ({"prompt": "x", "max_tokens": 1.0}, "`max_tokens` must be a whole number"),
        ({"prompt": "x", "stop": [1]}, "`stop` must be"),
        ({"prompt": "x", "stop": ""}, "--stop is empty"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(line: object, fragment: str) -> None:
    assert fragment in wrong(line).error.message


def test_a_mistyped_field_is_no_silent_default() -> None:
    failure = wrong({"prompt": "x", "max_token": 3})
    assert failure.error.message == "unknown field `max_token`"
    assert failure.error.hint == "did you mean `max_tokens`?"


def test_a_line_that_fails_keeps_its_id() -> None:
    assert wrong({"id": "a7", "prompt": ""}).id == "a7"
    assert wrong(b"{").id is None


@settings(deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_a_request_or_a_failure(line: bytes) -> None:
    outcome = read_request(line, 0, "", RUN)
    if isinstance(outcome, Failure):
        assert outcome.error.exit_code is ExitCode.USAGE
