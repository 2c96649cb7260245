"""The state of a chat: what was said, and what waits to be said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spec_cli.chat.conversation import Conversation, Turn
from spec_cli.chat.settings import ChatSettings
from spec_cli.errors import UsageError


@dataclass(frozen=True, slots=True)
class Pending:
    """A message on its way to the model, after `base`.

    Once it is answered, the draft and `n_files` of the files read have been used.
    """

    base: Conversation
    question: str
    uses_draft: bool = True
    n_files: int = 0


class Chat:
    """A conversation that goes on.

    Invariants: `conversation` changes only when an answer has come, so that a message which is
    refused, or stopped before its first word, changes nothing. Such a message is in `draft`, to
    be edited, and the `files` read for it still wait.
    """

    def __init__(self, conversation: Conversation, settings: ChatSettings) -> None:
        self.conversation = conversation
        self.settings = settings
        self.draft = ""
        self.files: tuple[str, ...] = ()

    @property
    def last(self) -> Turn:
        """The last turn. Raises UsageError where there is none."""
        if not self.conversation.turns:
            raise UsageError("nothing has been said yet")
        return self.conversation.turns[-1]

    def ask(self, message: str) -> Pending:
        """A new message: the files read go before it."""
        self.draft = message
        return Pending(self.conversation, self.message(message), n_files=len(self.files))

    def message(self, text: str) -> str:
        """`text` after the files read."""
        return joined((*self.files, text))

    def retry(self) -> Pending:
        """The last message once more."""
        return Pending(self.conversation.without_last(), self.last.question, uses_draft=False)

    def edit(self, message: str) -> Pending:
        """Another message in place of the last one."""
        self.draft = message
        return Pending(self.conversation.without_last(), message)

    def accept(self, pending: Pending, answer: str) -> None:
        """The answer to `pending` has come."""
        self.conversation = pending.base.answered(pending.question, answer)
        self.files = self.files[pending.n_files :]
        if pending.uses_draft:
            self.draft = ""

    def read(self, text: str) -> None:
        """Let the text of a file go before the next message."""
        self.files = (*self.files, text)

    def clear(self) -> None:
        """Forget all that was said; the system message and the settings stay."""
        self.conversation = Conversation(self.conversation.system)
        self.files = ()


def joined(texts: Sequence[str]) -> str:
    """Texts as one message, a blank line between them."""
    *files, last = texts
    return "\n\n".join([*(text.rstrip("\n") for text in files), last])
