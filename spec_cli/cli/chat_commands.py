"""The commands of a chat; `/help` and the completion are made from their table."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from textwrap import fill

from spec_cli.chat import archive
from spec_cli.chat.conversation import Conversation
from spec_cli.chat.fitting import n_to_drop
from spec_cli.cli.chat_files import read_text, replace_text, write_new
from spec_cli.cli.chat_talk import Talk
from spec_cli.cli.editor import edited
from spec_cli.errors import UsageError
from spec_cli.prompt import check_text
from spec_cli.spec.counts import counted

_NO_SYSTEM = "none"


class Takes(Enum):
    """What a command's argument is."""

    NOTHING = auto()
    TEXT = auto()
    FILE = auto()
    SETTING = auto()
    PAIR = auto()


@dataclass(frozen=True, slots=True)
class Command:
    """`name` follows the slash; `argument` shows what may stand behind it."""

    name: str
    argument: str
    takes: Takes
    meaning: str
    act: Callable[[Talk, str], None]

    def run(self, talk: Talk, argument: str) -> None:
        """Do it. Raises SpecError, also where words follow that have no place."""
        if argument and self.takes is Takes.NOTHING:
            raise UsageError(
                f"`/{self.name}` takes nothing after it", hint=f"type `/{self.name}` alone"
            )
        self.act(talk, argument)

    @property
    def usage(self) -> str:
        """As one types it."""
        return f"/{self.name} {self.argument}".rstrip()


def show_help(talk: Talk, _argument: str) -> None:
    """All commands, and what the keys do."""
    rows = [(command.usage, command.meaning) for command in COMMANDS.values()]
    columns = talk.terminal.stderr_size().columns if talk.terminal.stderr_is_tty else 80
    keys = (
        'For several lines: Alt-Enter, or lines between """ and """.',
        "Ctrl-C stops an answer, Ctrl-D leaves.",
        "A message that begins with a slash: put a space before it.",
    )
    talk.say("\n".join([*_listed(rows, columns), *(fill(key, columns) for key in keys)]))


def clear(talk: Talk, _argument: str) -> None:
    """Start anew."""
    n = len(talk.chat.conversation.turns)
    talk.chat.clear()
    talk.say(f"{counted(n, 'turn')} forgotten")


def retry(talk: Talk, _argument: str) -> None:
    """Answer the last message once more."""
    talk.ask(talk.chat.retry())


def edit(talk: Talk, _argument: str) -> None:
    """Change the last message in the editor, and have it answered instead."""
    before = talk.chat.last.question
    after = edited(before, os.environ, talk.terminal)
    if not after.strip() or after == before:
        talk.say("nothing changed")
        return
    talk.ask(talk.chat.edit(after))


def system(talk: Talk, argument: str) -> None:
    """Show or change the system message."""
    conversation = talk.chat.conversation
    if argument:
        text = None if argument == _NO_SYSTEM else check_text(argument, "the system message")
        conversation = talk.chat.conversation = Conversation(text, conversation.turns)
    talk.say("no system message" if conversation.system is None else conversation.system)


def set_(talk: Talk, argument: str) -> None:
    """Show or change settings."""
    name, *word = argument.split(maxsplit=1) or [""]
    if word:
        talk.change_setting(name, *word)
    settings = talk.chat.settings
    words = {name: settings.word(name)} if name else settings.words()
    width = max(map(len, words))
    talk.say("\n".join(f"{name:<{width}}  {word}" for name, word in words.items()))


def save(talk: Talk, argument: str) -> None:
    """Write the conversation to a new file."""
    path = _path(argument, "/save FILE")
    write_new(path, _dumped(talk))
    talk.say(f"{counted(len(talk.chat.conversation.turns), 'turn')} saved in {path}")


def save_over(talk: Talk, argument: str) -> None:
    """Write the conversation to a file that may be there already."""
    path = _path(argument, "/save! FILE")
    replace_text(path, _dumped(talk))
    talk.say(f"{counted(len(talk.chat.conversation.turns), 'turn')} saved in {path}")


def load(talk: Talk, argument: str) -> None:
    """Go on with a conversation that was saved."""
    path = _path(argument, "/load FILE")
    saved = archive.load(read_text(path, follow=False), talk.chat.settings, str(path))
    talk.adopt(saved.settings)
    talk.chat.conversation = saved.conversation
    other = saved.model not in (None, talk.model_name)
    of_whom = f"; {saved.model} gave the answers, {talk.model_name} goes on" if other else ""
    talk.say(f"{counted(len(saved.conversation.turns), 'turn')} loaded from {path}{of_whom}")


def stats(talk: Talk, _argument: str) -> None:
    """The figures of the last answer."""
    answer = talk.last_answer
    if answer is None:
        raise UsageError("there is no answer yet")
    n_turns, n_cached = len(talk.chat.conversation.turns), answer.finished.stats.n_cached
    context = f"{answer.n_context:,} of {counted(answer.info.n_ctx, 'token')}"
    kept = f"{n_cached:,} of the prompt's {answer.info.n_prompt:,} were kept from before"
    size = f"chat   {counted(n_turns, 'turn')}, {context}; {kept}"
    talk.say("\n".join([*answer.summary(), size]))


def read(talk: Talk, argument: str) -> None:
    """Put the text of a file before the next message."""
    if not argument:
        talk.chat.files = ()
        talk.say("no file goes before the next message")
        return
    path = _path(argument, "/read FILE")
    text = read_text(path, follow=True)
    talk.require_room((*talk.chat.files, text))
    talk.chat.read(text)
    talk.say(f"{path} goes before the next message: {counted(len(text), 'character')}")


def pair(talk: Talk, argument: str) -> None:
    """Show what runs, or let another pair speak."""
    match argument.split():
        case []:
            pass
        case [target]:
            talk.change_pair(target, None)
        case [target, draft]:
            talk.change_pair(target, draft)
        case words:
            raise UsageError(
                f"a pair has two names, not {len(words)}", hint="type `/pair TARGET DRAFT`"
            )
    talk.say("\n".join(talk.speaker.describe()))


def compact(talk: Talk, argument: str) -> None:
    """Drop the oldest turns."""
    conversation = talk.chat.conversation
    n_turns = len(conversation.turns)
    n = min(n_turns, _number(argument) if argument else _n_for_half(talk))
    if not n_turns:
        talk.say("there is no turn to drop")
        return
    talk.chat.conversation = conversation.without_oldest(n)
    more = "" if n else ": half of the context is free, `/compact N` drops N turns"
    talk.say(f"{counted(n, 'turn')} dropped, {n_turns - n:,} left{more}")


def leave(talk: Talk, _argument: str) -> None:
    """End the chat."""
    talk.is_over = True


def _listed(rows: Sequence[tuple[str, str]], columns: int) -> list[str]:
    """Names with their meanings beside them, or below where that is too wide for a terminal."""
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {meaning}" for name, meaning in rows]
    if max(map(len, lines)) <= columns:
        return lines
    indent = "  "
    return [
        f"{name}\n{fill(meaning, columns, initial_indent=indent, subsequent_indent=indent)}"
        for name, meaning in rows
    ]


def _n_for_half(talk: Talk) -> int:
    """How many turns to drop so that half of the context is free, and the waiting message fits.

    Where it does not fit even alone, it does not count.
    """
    conversation, settings = talk.chat.conversation, talk.chat.settings
    waiting = talk.chat.message(talk.chat.draft)
    can_fit = talk.fits(Conversation(conversation.system), waiting)

    def is_enough(rest: Conversation) -> bool:
        has_room = not can_fit or talk.fits(rest, waiting)
        return has_room and talk.speaker.is_half_free(rest.asking(""), settings)

    return n_to_drop(conversation, is_enough)


def _number(argument: str) -> int:
    if not argument.isdecimal():
        raise UsageError(
            f"`{argument}` is not a number of turns", hint="`/compact N` drops N turns"
        )
    return int(argument)


def _path(argument: str, usage: str) -> Path:
    """The rest of a line is the name, spaces and all."""
    if not argument:
        raise UsageError("no file is named", hint=f"type `{usage}`")
    if "\0" in argument:
        raise UsageError("a file name cannot contain a null character")
    try:
        return Path(check_text(argument, "the file name")).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{argument}: {error}") from None


def _dumped(talk: Talk) -> str:
    return archive.dump(talk.chat.conversation, talk.chat.settings, talk.model_name)


_TABLE = (
    Command("help", "", Takes.NOTHING, "Show this list.", show_help),
    Command("clear", "", Takes.NOTHING, "Forget what was said; settings stay.", clear),
    Command("retry", "", Takes.NOTHING, "Answer the last message again.", retry),
    Command("edit", "", Takes.NOTHING, "Change the last message in $EDITOR.", edit),
    Command(
        "system",
        "[TEXT]",
        Takes.TEXT,
        "Show, set or (with `none`) remove the system message.",
        system,
    ),
    Command("set", "[NAME [VALUE]]", Takes.SETTING, "Show or change settings.", set_),
    Command("save", "FILE", Takes.FILE, "Save the conversation to a new file.", save),
    Command("save!", "FILE", Takes.FILE, "Save it, replacing the file if it exists.", save_over),
    Command("load", "FILE", Takes.FILE, "Continue a saved conversation.", load),
    Command("stats", "", Takes.NOTHING, "Show all figures of the last answer.", stats),
    Command(
        "read", "[FILE]", Takes.FILE, "Put a file before the next message, or take it back.", read
    ),
    Command("pair", "[TARGET [DRAFT]]", Takes.PAIR, "Show which models run, or load others.", pair),
    Command(
        "compact", "[N]", Takes.TEXT, "Drop the N oldest turns, or free half the context.", compact
    ),
    Command("exit", "", Takes.NOTHING, "Leave, as Ctrl-D does.", leave),
)
COMMANDS = {command.name: command for command in _TABLE}
