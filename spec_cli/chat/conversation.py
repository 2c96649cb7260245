"""What was said so far, as values: every change gives a new conversation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from spec_cli.prompt import Message


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of the user and the model's answer, which may have been cut short."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """A system message, if there is one, and turns. A message is never without its answer."""

    system: str | None = None
    turns: tuple[Turn, ...] = ()

    def asking(self, question: str) -> list[Message]:
        """The messages of a prompt that `question` ends."""
        return [*self.messages(), Message("user", question)]

    def messages(self) -> list[Message]:
        """All messages, in order."""
        messages = [] if self.system is None else [Message("system", self.system)]
        for turn in self.turns:
            messages += [Message("user", turn.question), Message("assistant", turn.answer)]
        return messages

    def answered(self, question: str, answer: str) -> Self:
        """With one turn more."""
        return replace(self, turns=(*self.turns, Turn(question, answer)))

    def without_last(self) -> Self:
        """With one turn less."""
        return replace(self, turns=self.turns[:-1])

    def without_oldest(self, n: int) -> Self:
        """Without the first `n` turns; the system message stays."""
        return replace(self, turns=self.turns[n:])
