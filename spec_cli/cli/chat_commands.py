"""The commands of a chat; `/help` and the completion are made from their table."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from tempfile import TemporaryDirectory

from spec_cli.chat import archive
from spec_cli.chat.conversation import Conversation
from spec_cli.chat.fitting import n_to_drop
from spec_cli.cli.chat_files import read_text, replace_text, write_new
from spec_cli.cli.chat_talk import Talk
from spec_cli.cli.signals import Interrupts
from spec_cli.errors import UsageError
from spec_cli.prompt import check_text, decode_text
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
    run: Callable[[Talk, str], None]

    @property
    def usage(self) -> str:
        """As one types it."""
        return f"/{self.name} {self.argument}".rstrip()


def show_help(talk: Talk, _argument: str) -> None:
    """All commands, and what the keys do."""
    width = max(len(command.usage) for command in COMMANDS.values())
    lines = [f"{command.usage:<{width}}  {command.meaning}" for command in COMMANDS.values()]
    keys = (
        'For several lines: Alt-Enter, or lines between """ and """.',
        "Ctrl-C stops an answer, Ctrl-D leaves.",
        "A message that begins with a slash: put a space before it.",
    )
    talk.say("\n".join([*lines, *keys]))


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
    after = _edited(before, os.environ)
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
    text = read_text(path, follow=False)
    conversation, settings = archive.load(text, talk.chat.settings, str(path))
    talk.chat.conversation, talk.chat.settings = conversation, settings
    talk.say(f"{counted(len(conversation.turns), 'turn')} loaded from {path}")


def stats(talk: Talk, _argument: str) -> None:
    """The figures of the last answer."""
    answer = talk.last_answer
    if answer is None:
        raise UsageError("there is no answer to tell figures of")
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
            raise UsageError(f"a pair has two names, not {len(words)}")
    talk.say("\n".join(talk.speaker.describe()))


def compact(talk: Talk, argument: str) -> None:
    """Drop the oldest turns."""
    conversation = talk.chat.conversation
    n_turns = len(conversation.turns)
    n = min(n_turns, _number(argument) if argument else _n_for_half(talk))
    talk.chat.conversation = conversation.without_oldest(n)
    talk.say(f"{counted(n, 'turn')} dropped, {n_turns - n:,} left")


def leave(talk: Talk, _argument: str) -> None:
    """End the chat."""
    talk.is_over = True


def _n_for_half(talk: Talk) -> int:
    """How many turns to drop so that half of the context is free; one at least."""
    conversation = talk.chat.conversation
    settings = talk.chat.settings
    n = n_to_drop(conversation, lambda rest: talk.speaker.is_half_free(rest.asking(""), settings))
    return max(n, 1)


def _number(argument: str) -> int:
    if not argument.isdecimal():
        raise UsageError(f"`{argument}` is no number of turns", hint="`/compact N` drops N turns")
    return int(argument)


def _path(argument: str, usage: str) -> Path:
    """The rest of a line is the name, spaces and all."""
    if not argument:
        raise UsageError("no file is named", hint=f"`{usage}`")
    if "\0" in argument:
        raise UsageError("no file has a name with a null character")
    try:
        return Path(check_text(argument, "the file name")).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{argument}: {error}") from None


def _dumped(talk: Talk) -> str:
    return archive.dump(talk.chat.conversation, talk.chat.settings, talk.model_name)


def _edited(text: str, environ: Mapping[str, str]) -> str:
    """`text` after the user's editor. Raises UsageError when there is none that works."""
    editor = environ.get("VISUAL") or environ.get("EDITOR") or "vi"
    with TemporaryDirectory() as directory:
        path = Path(directory) / "message.md"
        path.write_text(text, encoding="utf-8")
        try:
            with Interrupts(last=None):  # Ctrl-C is the editor's
                subprocess.run([*shlex.split(editor), path], check=True)
            data = path.read_bytes()
        except (OSError, ValueError) as error:
            hint = "set `EDITOR` to a command that works"
            raise UsageError(f"cannot edit with {editor}: {error}", hint=hint) from None
        except subprocess.CalledProcessError as error:
            raise UsageError(f"{editor} failed ({error.returncode}): nothing changed") from None
    return decode_text(data, "the message").rstrip("\n")


_TABLE = (
    Command("help", "", Takes.NOTHING, "This list.", show_help),
    Command("clear", "", Takes.NOTHING, "Forget what was said; settings stay.", clear),
    Command("retry", "", Takes.NOTHING, "Answer the last message once more.", retry),
    Command("edit", "", Takes.NOTHING, "Change the last message in $EDITOR.", edit),
    Command(
        "system", "[TEXT]", Takes.TEXT, "Show, set or (`none`) remove the system message.", system
    ),
    Command("set", "[NAME [VALUE]]", Takes.SETTING, "Show or change settings.", set_),
    Command("save", "FILE", Takes.FILE, "Save the conversation in a new file.", save),
    Command("save!", "FILE", Takes.FILE, "Save it, replacing the file.", save_over),
    Command("load", "FILE", Takes.FILE, "Go on with a saved conversation.", load),
    Command("stats", "", Takes.NOTHING, "All figures of the last answer.", stats),
    Command("read", "[FILE]", Takes.FILE, "Put a file before the next message, or none.", read),
    Command("pair", "[TARGET [DRAFT]]", Takes.PAIR, "Show what runs, or change it.", pair),
    Command("compact", "[N]", Takes.TEXT, "Drop the N oldest turns, or up to half.", compact),
    Command("exit", "", Takes.NOTHING, "Leave, as Ctrl-D does.", leave),
)
COMMANDS = {command.name: command for command in _TABLE}
