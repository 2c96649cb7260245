"""Messages of a chat that are edited on a terminal, with history and completion."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import create_output

from spec_cli.chat.quotes import is_open
from spec_cli.chat.settings import SETTING_NAMES
from spec_cli.cli.chat_commands import Command, Takes
from spec_cli.cli.chat_talk import PREFIX
from spec_cli.cli.guard import show_error
from spec_cli.cli.signals import Terminated, at_termination
from spec_cli.errors import UsageError

_PROMPT, _CONTINUED = "> ", "  "
_LEAVING = "Ctrl-C again leaves, Ctrl-D too", "Ctrl-C leaves"  # the second for narrow terminals


class TypedTurns:
    """Messages from the prompt of a terminal."""

    is_interactive = True

    def __init__(
        self,
        screen: TextIO,
        history: Path,
        commands: Mapping[str, Command],
        pairs: Iterable[str],
        *,
        edit: Callable[[str], str],
    ) -> None:
        """The prompt is drawn on `screen`; `pairs` are the names of those known.

        `edit` lets the user edit a text elsewhere; it may raise UsageError or Terminated.
        """
        self._edit = edit
        self._leaving = False
        self._ended_by: Terminated | None = None
        self._session: PromptSession[str] = PromptSession(
            output=create_output(stdout=screen),
            history=open_history(history),
            completer=CommandCompleter(commands, pairs),
            complete_while_typing=True,
            key_bindings=self._keys(),
            multiline=True,
            prompt_continuation=_CONTINUED,
            rprompt=self._hint,
            reserve_space_for_menu=4,
        )
        self._session.default_buffer.on_text_changed += self._stay

    def read(self, draft: str) -> str:
        """See `Turns.read`."""
        self._leaving = False
        while True:
            try:
                with at_termination(self._terminate):
                    text = self._session.prompt(_PROMPT, default=draft)
                if self._ended_by is not None:  # it came together with Enter
                    raise self._ended_by
                return text
            except KeyboardInterrupt:
                if self._leaving:
                    raise
                self._leaving = True  # it came before the prompt could hear it
            except Exception:
                if self._ended_by is None:
                    raise
                raise self._ended_by from None  # a terminal that has hung up fails in many ways

    def _terminate(self, why: Terminated) -> None:
        """End the prompt from within its loop, which keeps an exception from outside to itself."""
        self._ended_by = why
        app = self._session.app
        if app.loop is None:
            raise why
        app.loop.call_soon_threadsafe(lambda: app.is_done or app.exit(exception=why))

    def _edit_buffer(self, buffer: Buffer) -> None:
        try:
            text = self._edit(buffer.text)
        except UsageError as error:
            show_error(error.message, error.hint)
        except Terminated as why:
            self._terminate(why)
        else:
            buffer.document = Document(text, len(text))

    def _hint(self) -> str:
        room = self._session.output.get_size().columns - len(_PROMPT)
        return next((words for words in _LEAVING if self._leaving and len(words) < room), "")

    def _stay(self, _buffer: Buffer) -> None:
        self._leaving = False

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add(Keys.Enter)
        def _(event: KeyPressEvent) -> None:
            """Send, unless the message is still open."""
            if is_open(event.current_buffer.text):
                event.current_buffer.newline(copy_margin=False)
            else:
                event.current_buffer.validate_and_handle()

        @keys.add(Keys.Escape, Keys.Enter)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.newline(copy_margin=False)

        @keys.add(Keys.ControlX, Keys.ControlE)
        def _(event: KeyPressEvent) -> None:
            run_in_terminal(partial(self._edit_buffer, event.current_buffer))

        @keys.add(Keys.ControlC)
        @keys.add(Keys.SIGINT)
        def _(event: KeyPressEvent) -> None:
            """Clear the line; twice: leave."""
            if self._leaving:
                event.app.exit(exception=KeyboardInterrupt, style="class:aborting")
            if event.key_sequence[0].key is Keys.ControlC:
                event.current_buffer.reset()  # a signal can be older than what is typed
            self._leaving = True

        return keys


class CommandCompleter(Completer):
    """Completes commands and what may stand behind them; never what is said to the model."""

    def __init__(self, commands: Mapping[str, Command], pairs: Iterable[str]) -> None:
        self._commands = commands
        self._names = {Takes.SETTING: SETTING_NAMES, Takes.PAIR: tuple(pairs)}
        self._paths = PathCompleter(expanduser=True)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        """What the text before the cursor can become."""
        text = document.text_before_cursor
        if not text.startswith(PREFIX) or "\n" in text:
            return
        word, space, argument = text.removeprefix(PREFIX).partition(" ")
        if not space:
            for command in self._commands.values():
                if command.name.startswith(word):
                    meta = command.meaning
                    yield Completion(command.name, -len(word), display_meta=meta)
        elif word in self._commands:
            yield from self._arguments(self._commands[word].takes, argument, complete_event)

    def _arguments(self, takes: Takes, argument: str, event: CompleteEvent) -> Iterator[Completion]:
        if takes is Takes.FILE:
            yield from self._paths.get_completions(Document(argument), event)
        for name in self._names.get(takes, ()):
            if name.startswith(argument):
                yield Completion(name, -len(argument))


class _PrivateHistory(FileHistory):
    """A history that a full disk does not stop the chat for."""

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(string)


def open_history(path: Path) -> History:
    """The history in the file `path`, which only the user may read.

    In memory only where there can be no such file: it is a convenience, and no reason to stop.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        number = os.open(path, flags, 0o600)
        try:
            os.fchmod(number, 0o600)
        finally:
            os.close(number)
    except OSError:
        return InMemoryHistory()
    return _PrivateHistory(str(path))
