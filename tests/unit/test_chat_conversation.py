"""The conversation: what changes it, what does not, and what is dropped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.chat.conversation import Conversation
from spec_cli.chat.fitting import n_reserved, n_to_drop, too_long
from spec_cli.chat.quotes import is_open, unquoted
from spec_cli.chat.settings import ChatSettings
from spec_cli.chat.state import Chat
from spec_cli.errors import UsageError
from spec_cli.prompt import Message


def said(*pairs: str, system: str | None = None) -> Conversation:
    conversation = Conversation(system)
    for question, answer in zip(pairs[::2], pairs[1::2], strict=True):
        conversation = conversation.answered(question, answer)
    return conversation


def chat(*pairs: str) -> Chat:
    return Chat(said(*pairs, system="be brief"), ChatSettings())


def test_a_prompt_is_the_whole_conversation_with_its_roles_in_order() -> None:
    assert said("q1", "a1", "q2", "a2", system="s").asking("q3") == [
        Message("system", "s"),
        Message("user", "q1"),
        Message("assistant", "a1"),
        Message("user", "q2"),
        Message("assistant", "a2"),
        Message("user", "q3"),
    ]
    assert Conversation().asking("q") == [Message("user", "q")]


def test_a_message_counts_only_once_it_is_answered() -> None:
    talk = chat("q1", "a1")
    before = talk.conversation
    pending = talk.ask("q2")
    assert (talk.conversation, talk.draft) == (before, "q2")
    talk.accept(pending, "a2")
    assert talk.conversation == said("q1", "a1", "q2", "a2", system="be brief")
    assert talk.draft == ""


def test_files_go_before_the_next_message_once() -> None:
    talk = chat()
    talk.read("one\n")
    talk.read("two")
    pending = talk.ask("compare")
    assert pending.question == "one\n\ntwo\n\ncompare"
    assert talk.ask("compare").question == pending.question  # refused, and sent again
    talk.accept(pending, "done")
    assert talk.ask("more").question == "more"


def test_a_retry_has_the_conversation_before_the_last_message_and_takes_nothing_new() -> None:
    talk = chat("q1", "a1", "q2", "a2")
    talk.read("a file")
    talk.ask("a draft")
    pending = talk.retry()
    assert pending.base == said("q1", "a1", system="be brief")
    assert pending.question == "q2"
    talk.accept(pending, "another")
    assert talk.conversation == said("q1", "a1", "q2", "another", system="be brief")
    assert (talk.draft, talk.files) == ("a draft", ("a file",))


def test_an_edited_message_replaces_the_last_turn_when_it_is_answered() -> None:
    talk = chat("q1", "a1", "q2", "a2")
    pending = talk.edit("better")
    assert len(talk.conversation.turns) == 2 and talk.draft == "better"
    talk.accept(pending, "a3")
    assert talk.conversation == said("q1", "a1", "better", "a3", system="be brief")
    assert talk.draft == ""


def test_where_nothing_was_said_there_is_nothing_to_retry() -> None:
    with pytest.raises(UsageError, match="nothing has been said yet"):
        chat().retry()


def test_clearing_keeps_the_system_message_and_the_settings() -> None:
    talk = chat("q1", "a1")
    talk.settings = talk.settings.with_word("temp", "0")
    talk.read("a file")
    talk.clear()
    assert talk.conversation == Conversation("be brief")
    assert talk.files == () and talk.settings.sampling.temp == 0


@given(lengths=st.lists(st.integers(1, 9), max_size=12), room=st.integers(0, 60))
def test_just_so_many_of_the_oldest_turns_are_dropped_that_the_rest_fits(
    lengths: list[int], room: int
) -> None:
    conversation = said(*("x" * length for length in lengths for _ in range(2)))

    def fits(rest: Conversation) -> bool:
        return sum(len(message.content) for message in rest.messages()) <= room

    n = n_to_drop(conversation, fits)
    assert fits(conversation.without_oldest(n)) or n == len(lengths)
    assert n == 0 or not fits(conversation.without_oldest(n - 1))


def test_the_room_kept_for_an_answer_is_never_more_than_it_may_have() -> None:
    assert n_reserved(8192, None) == 512
    assert n_reserved(8192, 40) == 40
    assert n_reserved(64, 40) == 4
    assert n_reserved(8192, 0) == 0


def test_a_refusal_has_the_numbers_and_the_ways_out() -> None:
    error = too_long(900, 512, 32, has_turns=True, n_ctx_train=4096)
    assert "900 tokens; of the 512 that the context holds 32 are kept" in error.message
    assert error.hint is not None
    for way in ("`/compact`", "`/clear`", "`--ctx-size 1800`"):
        assert way in error.hint
    first = too_long(900, 512, 32, has_turns=False, n_ctx_train=512)
    assert first.hint == "shorten it"


@pytest.mark.parametrize(
    ("text", "is_quoted_on", "message"),
    [
        ("hello", False, "hello"),
        ('"""', True, '"""'),
        ('"""\none', True, '"""\none'),
        ('"""\none\n\ntwo\n"""', False, "one\n\ntwo"),
        ('"""one\ntwo"""  ', False, "one\ntwo"),
        ('"""one"""', False, "one"),
        ('""""""', False, ""),
        ('""""', True, '""""'),
        ('say """ now', False, 'say """ now'),
        ('"""\n  indented\n"""\n', False, "  indented"),
    ],
)
def test_quotes_hold_a_message_of_several_lines(
    text: str, is_quoted_on: bool, message: str
) -> None:
    assert is_open(text) == is_quoted_on
    assert unquoted(text) == message
