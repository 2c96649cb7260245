"""The loop of a chat: what ends it, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from spec_cli.chat.conversation import Conversation
from spec_cli.chat.settings import ChatSettings
from spec_cli.chat.state import Chat
from spec_cli.cli.chat_talk import Begun, Speakers, Talk, Turns
from spec_cli.errors import Cancelled, ExitCode
from spec_cli.terminal import detect


class Script:
    """Messages that are there already."""

    def __init__(self, *messages: str, is_interactive: bool) -> None:
        self.is_interactive = is_interactive
        self._messages = list(messages)

    def read(self, draft: str) -> str:
        if not self._messages:
            raise EOFError
        return self._messages.pop(0)


class Act:
    """A command."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act

    def run(self, talk: Talk, argument: str) -> None:
        self._act()


def interrupted() -> None:
    raise KeyboardInterrupt


def talk_of(*messages: str, is_interactive: bool) -> tuple[Talk, Turns, list[str]]:
    done: list[str] = []
    commands = {"stop": Act(interrupted), "go": Act(lambda: done.append("went"))}
    chat = Chat(Conversation(), ChatSettings())
    nobody = cast(Speakers, None)
    talk = Talk(chat, nobody, detect(), commands, draw_seed=lambda: 1)
    return talk, Script(*messages, is_interactive=is_interactive), done


def test_control_c_within_a_command_ends_that_and_not_the_chat() -> None:
    talk, turns, done = talk_of("/stop", "/go", is_interactive=True)
    assert talk.run(turns) == ExitCode.OK
    assert done == ["went"]


def test_control_c_within_a_command_from_a_pipe_ends_the_chat() -> None:
    talk, turns, done = talk_of("/stop", "/go", is_interactive=False)
    with pytest.raises(Cancelled):
        talk.run(turns)
    assert done == []


@pytest.mark.parametrize("is_interactive", [True, False])
def test_a_first_turn_goes_before_all_others(is_interactive: bool) -> None:
    talk, turns, done = talk_of("/nothing", is_interactive=is_interactive)
    begun = Begun("/go", turns)
    assert begun.is_interactive is is_interactive
    code = talk.run(begun)
    assert done == ["went"]
    assert code == (ExitCode.OK if is_interactive else ExitCode.USAGE)
