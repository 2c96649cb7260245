"""A chat once its options are read: the pair is loaded, and messages are awaited."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

import typer

from spec_cli.chat.state import Chat
from spec_cli.cli.chat_commands import COMMANDS
from spec_cli.cli.chat_pairs import LoadedSpeakers
from spec_cli.cli.chat_piped import PipedTurns
from spec_cli.cli.chat_speaker import Speaker
from spec_cli.cli.chat_talk import Begun, Speakers, Talk, Turns
from spec_cli.cli.chat_template import TemplateChoice
from spec_cli.cli.editor import edited
from spec_cli.cli.pairs import fetch_pair
from spec_cli.cli.surroundings import state_store
from spec_cli.modelref import Pair
from spec_cli.pairs import LocalPair
from spec_cli.places import state_dir
from spec_cli.registry import Registry
from spec_cli.render.options import RenderOptions
from spec_cli.settings import SessionSettings
from spec_cli.state import StateStore
from spec_cli.terminal import Terminal


@dataclass(frozen=True, slots=True)
class Loading:
    """How pairs are found, loaded and shown; `choose` gives the pair of two names."""

    choose: Callable[[str | None, str | None], Pair]
    session: SessionSettings
    template: TemplateChoice
    terminal: Terminal
    render: RenderOptions
    offline: bool
    state: StateStore = field(default_factory=state_store)  # that all pairs share

    def fetch(self, pair: Pair) -> LocalPair:
        """The pair's files. Raises DownloadError or ModelError."""
        return fetch_pair(pair, self.terminal, offline=self.offline, quiet=self.render.quiet)

    def speaker(self, pair: Pair, files: LocalPair) -> Speaker:
        """The pair, loaded. Raises what Session raises."""
        settings = replace(self.session, draft_tokens=pair.draft_tokens)
        return Speaker(
            files,
            settings,
            self.template,
            self.terminal,
            self.render,
            datetime.now(),
            self.state,
        )


def converse(
    chat: Chat, pair: Pair, registry: Registry, loading: Loading, message: str | None
) -> None:
    """Load `pair` and talk, `message` first, until the user leaves.

    Raises what loading raises, and typer.Exit where a turn of a pipe failed.
    """
    with LoadedSpeakers(
        pair, choose=loading.choose, fetch=loading.fetch, make=loading.speaker
    ) as speakers:
        # One that has no switch for thinking is told before anybody types.
        speakers.now.template(think=chat.settings.think)
        turns = _turns(loading.terminal, registry)
        turns = turns if message is None else Begun(message, turns)
        _talk(chat, speakers, loading.terminal, turns, quiet=loading.render.quiet)


def _talk(chat: Chat, speakers: Speakers, terminal: Terminal, turns: Turns, *, quiet: bool) -> None:
    """Talk until the user leaves. Raises typer.Exit where a turn of a pipe failed."""
    talk = Talk(chat, speakers, terminal, COMMANDS, draw_seed=lambda: secrets.randbits(32))
    if turns.is_interactive and not quiet:
        talk.say(f"{speakers.now.name}. `/help` lists the commands, Ctrl-D leaves.")
    if exit_code := talk.run(turns):
        raise typer.Exit(exit_code)


def _turns(terminal: Terminal, registry: Registry) -> Turns:
    """Messages from the terminal, its prompt on stderr if it can be, else from stdin's lines."""
    if not terminal.stdin_is_tty or not (terminal.stderr_is_tty or terminal.stdout_is_tty):
        return PipedTurns(terminal.stdin.buffer)
    from spec_cli.cli.chat_input import TypedTurns  # a library slow to import

    screen = terminal.stderr if terminal.stderr_is_tty else terminal.stdout
    history = state_dir() / "chat-history"
    edit = partial(edited, environ=os.environ, terminal=terminal)
    return TypedTurns(screen, history, COMMANDS, registry.pairs, edit=edit)
