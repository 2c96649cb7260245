"""The loop of a chat: a message is answered, a command is obeyed, an error costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from spec_cli.chat.conversation import Conversation
from spec_cli.chat.fitting import n_to_drop
from spec_cli.chat.quotes import unquoted
from spec_cli.chat.settings import ChatSettings
from spec_cli.chat.state import Chat, Pending, joined
from spec_cli.cli.chat_speaker import Answer, Speaker
from spec_cli.cli.guard import show_error
from spec_cli.errors import Cancelled, ExitCode, SpecError, UsageError
from spec_cli.events import FinishReason
from spec_cli.names import nearest
from spec_cli.prompt import check_text
from spec_cli.render.inert import inert
from spec_cli.spec.counts import counted
from spec_cli.terminal import Terminal

PREFIX = "/"
_ELSEWHERE = {"bye": "exit", "quit": "exit", "?": "help"}  # what others call our commands


class Speakers(Protocol):
    """Who can speak."""

    @property
    def now(self) -> Speaker:
        """The pair that speaks now."""

    @property
    def name(self) -> str:
        """The name of its target."""

    def change(self, target: str, draft: str | None) -> int | None:
        """Let the pair of these names speak; its draft length, None for auto.

        Raises SpecError; then the old one still speaks.
        """


class Turns(Protocol):
    """Where messages and commands come from."""

    @property
    def is_interactive(self) -> bool:
        """Whether somebody sits there who can try again."""

    def read(self, draft: str) -> str:
        """The next message or command, perhaps in quotes; `draft` is there to be edited.

        Raises EOFError when there are no more, KeyboardInterrupt when the user leaves, and
        UsageError for one that is no text.
        """


class Command(Protocol):
    """What a word after the prefix does."""

    def run(self, talk: Talk, argument: str) -> None:
        """Do it, with the rest of the line. Raises SpecError."""


class Begun:
    """Turns the first of which is there already."""

    def __init__(self, first: str, others: Turns) -> None:
        self._first: str | None = first
        self._others = others

    @property
    def is_interactive(self) -> bool:
        """See `Turns.is_interactive`."""
        return self._others.is_interactive

    def read(self, draft: str) -> str:
        """See `Turns.read`."""
        if self._first is None:
            return self._others.read(draft)
        first, self._first = self._first, None
        return first


class Talk:
    """A chat with one pair at a time. Commands act on it."""

    def __init__(
        self,
        chat: Chat,
        speakers: Speakers,
        terminal: Terminal,
        commands: Mapping[str, Command],
        *,
        draw_seed: Callable[[], int],
    ) -> None:
        self.chat = chat
        self.last_answer: Answer | None = None
        self.is_over = False
        self.terminal = terminal
        self._speakers = speakers
        self._commands = commands
        self._draw_seed = draw_seed
        self._exit_code = ExitCode.OK

    def run(self, turns: Turns) -> ExitCode:
        """Go on until the end of `turns`. The code of the first failure, if nobody saw it happen.

        Raises Cancelled when the user interrupts what came from a pipe.
        """
        while not self.is_over:
            try:
                self._take(turns.read(self.chat.draft))
            except EOFError:
                break
            except SpecError as error:
                show_error(error.message, error.hint)
                self._exit_code = self._exit_code or error.exit_code
            except Cancelled:
                if not turns.is_interactive:
                    raise
        return ExitCode.OK if turns.is_interactive else self._exit_code

    def _take(self, text: str) -> None:
        """Obey or answer. Raises SpecError, Cancelled or Terminated."""
        try:
            self._handle(text)
        except KeyboardInterrupt:  # of what was going on, not of the chat
            raise Cancelled from None

    def _handle(self, text: str) -> None:
        if text.startswith(PREFIX):
            self._obey(text)
        elif text.strip():
            self.ask(self.chat.ask(check_text(unquoted(text), "the message")))
        else:
            self.chat.draft = ""

    def ask(self, pending: Pending) -> None:
        """Let the pair answer. Raises SpecError; then nothing has changed.

        Raises Cancelled when the user has stopped it; what was said until then counts.
        """
        pending = self._fitted(pending)
        answer = self.last_answer = self.speaker.answer(
            pending.base, pending.question, self.chat.settings, seed=self._draw_seed()
        )
        if answer.is_turn:
            self.chat.accept(pending, answer.text)
        if answer.finished.reason is FinishReason.INTERRUPTED:
            raise Cancelled
        if answer.filled_context:
            self.say("the context is full, the answer was cut: `/compact` drops the oldest turns")

    @property
    def speaker(self) -> Speaker:
        """The pair that speaks now."""
        return self._speakers.now

    @property
    def model_name(self) -> str:
        """The name of its target."""
        return self._speakers.name

    def change_pair(self, target: str, draft: str | None) -> None:
        """Let another pair speak. Raises SpecError; then the old one still does."""
        draft_tokens = self._speakers.change(target, draft)
        self.adopt(replace(self.chat.settings, draft_tokens=draft_tokens))

    def adopt(self, settings: ChatSettings) -> None:
        """Settings from elsewhere, but for a switch that the chat template does not have."""
        try:
            self.speaker.template(think=settings.think)
        except UsageError as error:
            self.say(f"`think` is `template` now: {error.message}")
            settings = replace(settings, think=None)
        self.chat.settings = settings

    def change_setting(self, name: str, word: str) -> None:
        """Let a setting be what `word` says. Raises UsageError; then nothing has changed."""
        settings = self.chat.settings.with_word(name, word)
        self.speaker.template(think=settings.think)
        self.chat.settings = settings

    def fits(self, base: Conversation, question: str) -> bool:
        """Whether a question after `base` can be answered."""
        return self.speaker.fits(base.asking(question), self.chat.settings)

    def require_room(self, files: Sequence[str]) -> None:
        """Raises UsageError where not even a first message could have these before it."""
        first = Conversation(self.chat.conversation.system).asking(joined(files))
        self.speaker.require_room(first, self.chat.settings)

    def say(self, text: str) -> None:
        """Lines for the user, on stderr."""
        self.terminal.stderr.write(f"{inert(text)}\n")
        self.terminal.stderr.flush()

    def _fitted(self, pending: Pending) -> Pending:
        """Without the oldest turns, where that was asked for and helps."""
        if not self.chat.settings.drop_oldest or self.fits(pending.base, pending.question):
            return pending
        n = n_to_drop(pending.base, lambda base: self.fits(base, pending.question))
        shorter = replace(pending, base=pending.base.without_oldest(n))
        if self.fits(shorter.base, shorter.question):
            self.say(f"dropping the {counted(n, 'turn')} at the beginning, to make room")
        return shorter

    def _obey(self, line: str) -> None:
        word, *argument = line.removeprefix(PREFIX).split(maxsplit=1) or [""]
        command = self._commands.get(_ELSEWHERE.get(word, word))
        if command is None:
            meant = nearest(word, self._commands)
            all_of_them = "`/help` lists them all; a space before the slash makes it a message"
            raise UsageError(
                f"there is no command `/{word}`",
                hint=f"did you mean `/{meant}`?" if meant else all_of_them,
            )
        command.run(self, "".join(argument).strip())
