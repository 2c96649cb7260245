"""Messages and logs: no secret, no control character, and nobody's log but ours."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from io import StringIO

import pytest

from spec_cli.cli.log import escaped, redacted, show_log


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("token hf_abcDEF123456 is bad", "token hf_*** is bad"),
        ("https://me:pass@hub.example/x", "https://***@hub.example/x"),
        ("https://me:p@ss@hub.example/x", "https://***@hub.example/x"),
        ("proxy http://tok3n@proxy:3128", "proxy http://***@proxy:3128"),
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("{'x': 'Bearer abc'}", "{'x': 'Bearer ***"),
        (
            "https://cdn/x?a=1&X-Amz-Signature=0f&b=2&Policy=zz",
            "https://cdn/x?a=1&X-Amz-Signature=***&b=2&Policy=***",
        ),
        ("cannot read /home/me/hf_hub/x.gguf", "cannot read /home/me/hf_hub/x.gguf"),
        (
            "write to me@example.org, see hf://user/repo",
            "write to me@example.org, see hf://user/repo",
        ),
    ],
)
def test_secrets_are_left_out_and_nothing_else(text: str, shown: str) -> None:
    assert redacted(text, {}) == shown


@pytest.mark.parametrize("name", ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"])
def test_the_users_own_token_is_left_out_whatever_it_looks_like(name: str) -> None:
    shown = redacted("b'Bearer my own token', my own token.", {name: "my own token\n"})
    assert "own" not in shown
    assert redacted("a text", {name: ""}) == redacted("a text", {name: "a"}) == "a text"


def test_control_characters_are_made_visible() -> None:
    assert escaped("a\x1b[31m\x07\n\u202eé世") == "a\\x1b[31m\\x07\n\\u202eé世"


@pytest.fixture
def ours() -> Iterator[logging.Logger]:
    logger = logging.getLogger("spec_cli")
    before, level = list(logger.handlers), logger.level
    yield logger
    logger.handlers[:] = before
    logger.setLevel(level)


def test_our_log_is_shown_and_that_of_other_libraries_is_not(ours: logging.Logger) -> None:
    stream = StringIO()
    show_log(stream)
    show_log(stream)
    ours.getChild("llama").debug("general.name = \x1b]0;hf_secretsecret")
    logging.getLogger("httpx").error("GET https://hub/x")
    assert stream.getvalue() == "general.name = \\x1b]0;hf_***\n"
