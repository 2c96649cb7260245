"""Prompts as a real vocabulary and its template make them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from spec_cli.cli.encode import encode, encode_measured
from spec_cli.cli.inputs import PromptInput
from spec_cli.encoding import encode_chat, template_for
from spec_cli.errors import Cancelled
from spec_cli.prompt import Message
from spec_cli.prompts import NamedPrompt
from spec_cli.session import Session
from tests.contract.test_session import Desk, desk, settings  # noqa: F401
from tests.tiny_gguf import write_tiny_model
from tests.unit.test_prompt import FOREVER

PROMPTS = (NamedPrompt("a", "talk", "hello"), NamedPrompt("b", "talk", "there"))


def test_measured_prompts_are_those_of_run(desk: Desk, tiny_target: Path) -> None:  # noqa: F811
    with Session(tiny_target, None, settings(), desk.environment) as session:
        found = encode_measured(session, PROMPTS, cancelled=lambda: False)
        template = session.target_header.chat_template
        now = datetime(2026, 1, 1)
        for prompt in PROMPTS:
            user = PromptInput(prompt.text, system=None, raw=False, chat_template=None)
            assert found[prompt.id] == encode(session.model, template, user, now).tokens


def test_a_template_that_never_ends_does_not_stop_one_from_leaving_a_measurement(
    desk: Desk,  # noqa: F811
    tmp_path: Path,
) -> None:
    path = write_tiny_model(tmp_path / "endless.gguf", chat_template=FOREVER[0])
    with Session(path, None, settings(), desk.environment) as session, pytest.raises(Cancelled):
        encode_measured(session, PROMPTS, cancelled=lambda: True)


def test_without_a_template_measured_prompts_are_raw(
    desk: Desk,  # noqa: F811
    tmp_path: Path,
) -> None:
    path = write_tiny_model(tmp_path / "base.gguf", chat_template=None)
    with Session(path, None, settings(), desk.environment) as session:
        found = encode_measured(session, PROMPTS, cancelled=lambda: False)
        assert found["a"] == session.model.tokenize("hello", special=True, bos=False)


def test_a_conversation_comes_with_its_text_and_how_its_answer_begins(
    desk: Desk,  # noqa: F811
    tiny_target: Path,
) -> None:
    source = "{% for m in messages %}{{ m.content }}{% endfor %}{% if deep %}<think>\n{% endif %}"
    with Session(tiny_target, None, settings(), desk.environment) as session:
        template = template_for(
            session.model, None, source, datetime(2026, 1, 1), variables={"deep": True}
        )
        found = encode_chat(session.model, template, [Message("user", "hi")], "so")
        whole = session.model.tokenize("hi<think>\nso", special=True, bos=False)
    assert (found.text, found.tokens) == ("hi<think>\n", whole)
    assert found.opening.given == "so"
    assert found.opening.reasoning is not None and found.opening.reasoning.has_begun
