"""Reading a GBNF grammar before llama.cpp does: what is wrong with it, by line and by rule.

llama.cpp prints what it does not understand together with the whole grammar, and some of what it
understands makes it loop or end the process. What passes here does none of that. The syntax is
that of llama.cpp's `grammars/README.md`, without token literals (`<think>`, `<[42]>`): they are
matched by id in one place and by their text in another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from spec_cli.errors import UsageError
from spec_cli.grammar.rules import Group, Item, Reference, Repeat, Text, check_rules
from spec_cli.spec.counts import counted

MAX_REPEAT = 2000  # MAX_REPETITION_THRESHOLD of llama-grammar.cpp
MAX_CHARS = 2**18
MAX_DEPTH = 100  # of parentheses: llama.cpp recurses for each

_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_NAME = re.compile(r"[a-zA-Z0-9-]+")
_CHAR = re.compile(
    r'\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[trn\\"\[\]-])|[^\\]', re.DOTALL
)
_REPEAT = re.compile(r"\{[ \t]*([0-9]+)[ \t]*(?:(,)[ \t]*([0-9]+)?[ \t]*)?\}")
_MARKS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n"}


@dataclass(frozen=True, slots=True)
class Gbnf:
    """A grammar that llama.cpp can use.

    `negates_beyond_ascii`: a negated class names characters beyond ASCII. llama.cpp then takes
    no token that ends inside a character, even one that could become another character.
    """

    source: str
    rules: dict[str, Group]
    negates_beyond_ascii: bool


def parse_gbnf(source: str) -> Gbnf:
    """Raises UsageError, with the line, for a grammar that llama.cpp cannot or should not use."""
    parser = _Parser(source)
    rules = parser.rules()
    check_rules(rules, parser.error)
    return Gbnf(source, rules, parser.negates_beyond_ascii)


def repetitions(low: str, comma: str | None, high: str | None) -> tuple[int, int | None]:
    """The bounds that `{low}`, `{low,}` or `{low,high}` spells; MAX_REPEAT + 1 stands for more."""

    def count(digits: str) -> int:
        # Python refuses to read thousands of digits.
        return min(int(digits), MAX_REPEAT + 1) if len(digits) < 10 else MAX_REPEAT + 1

    return count(low), count(high) if high else None if comma else count(low)


class _Parser:
    """Reads from `_at` on. Counts symbols as llama.cpp does, which limits repetitions by them."""

    def __init__(self, source: str) -> None:
        self._source, self._at, self._depth = source, 0, 0
        self._names: set[str] = set()
        self._n_generated = 0
        self.negates_beyond_ascii = False
        if len(source) > MAX_CHARS:
            raise UsageError(
                f"the grammar has {counted(len(source), 'character')}, at most {MAX_CHARS:,} fit"
            )
        if "\0" in source:
            raise self.error("there is a NUL character", source.index("\0"))

    def error(self, what: str, at: int) -> UsageError:
        """An error at a place of the source."""
        return UsageError(f"line {self._source.count(chr(10), 0, at) + 1} of the grammar: {what}")

    def rules(self) -> dict[str, Group]:
        """All rules, each named once: llama.cpp would take the last, and half of the others."""
        found: dict[str, Group] = {}
        self._skip(_LINES)
        while self._at < len(self._source):
            start = self._at
            name = self._match(_NAME, "a rule begins with a name of letters, digits and `-`")[0]
            if name in found:
                raise self.error(f"there are two rules `{name}`", start)
            self._names.add(name)
            self._skip(_SPACE)
            self._expect("::=", f"`::=` is missing after `{name}`")
            self._skip(_LINES)
            found[name] = self._alternatives(_SPACE)
            if self._at < len(self._source) and self._peek() not in "\r\n":
                raise self.error(f"`{self._peek()}` is not understood here", self._at)
            self._skip(_LINES)
        return found

    def _alternatives(self, space: re.Pattern[str]) -> Group:
        found = [self._sequence(space)]
        while self._peek() == "|":
            self._at += 1
            self._skip(_LINES)
            found.append(self._sequence(space))
        return Group(tuple(found))

    def _sequence(self, space: re.Pattern[str]) -> tuple[Item, ...]:
        items: list[Item] = []
        n_symbols = 1  # that a repetition of the last item repeats
        while (first := self._peek()) and first not in "|)\r\n":
            start = self._at
            if first in "*+?{":
                low, high = self._bounds()
                if not items or items[-1] == Text(is_empty=True):
                    raise self.error(f"there is nothing before `{first}` to repeat", start)
                if isinstance(items[-1], Repeat):
                    raise self.error("a repetition is repeated without parentheses", start)
                self._repeated(n_symbols, low, high, start)
                items[-1] = Repeat(items[-1], low, high, start)
            else:
                n_before = self._n_symbols
                items.append(self._item(first))
                is_group = isinstance(items[-1], Group)
                n_symbols = max(1, self._n_symbols - n_before) if is_group else 1
            self._skip(space)
        return tuple(items)

    def _item(self, first: str) -> Item:
        if first == '"':
            return self._literal()
        if first == "[":
            return self._class()
        if first == "(":
            return self._group()
        if first == ".":
            self._at += 1
            return Text()
        if first in "<!":
            raise self.error("token literals are not supported, write text in quotes", self._at)
        at = self._at
        name = self._match(_NAME, f"`{first}` is not understood here")[0]
        self._names.add(name)
        return Reference(name, at)

    def _literal(self) -> Text:
        start = self._at
        self._at += 1
        while self._peek() != '"':
            self._char(start, '"')
        self._at += 1
        return Text(is_empty=self._at == start + 2)

    def _class(self) -> Text:
        start = self._at
        self._at += 1
        negates = self._peek() == "^"
        self._at += negates
        highest = -1
        while self._peek() != "]":
            low = high = self._char(start, "]")
            if self._peek() == "-" and self._source[self._at + 1 : self._at + 2] != "]":
                self._at += 1
                high = self._char(start, "]")
                if high < low:
                    raise self.error("a range of characters ends before it begins", start)
            highest = max(highest, high)
        if highest < 0:
            raise self.error("a class of characters is empty", start)
        self._at += 1
        self.negates_beyond_ascii |= negates and highest > 0x7F
        return Text()

    def _char(self, start: int, end: str) -> int:
        if not self._peek():
            raise self.error(f"`{end}` is missing", start)
        text = self._match(_CHAR, "an escape is not understood")[0]
        if text[0] != "\\" or len(text) == 1:
            return ord(text)
        return int(text[2:], 16) if text[1] in "xuU" else ord(_ESCAPES.get(text[1], text[1]))

    def _group(self) -> Group:
        start = self._at
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.error(f"parentheses are nested more than {MAX_DEPTH} times", start)
        self._at += 1
        self._n_generated += 1
        self._skip(_LINES)
        found = self._alternatives(_LINES)
        self._expect(")", "`)` is missing", start)
        self._depth -= 1
        return found

    def _bounds(self) -> tuple[int, int | None]:
        start = self._at
        if (mark := _MARKS.get(self._peek())) is not None:
            self._at += 1
            return mark
        found = self._match(_REPEAT, "a repetition is `{n}`, `{n,}` or `{n,m}`")
        low, high = repetitions(found[1], found[2], found[3])
        if max(low, high or 0) > MAX_REPEAT:
            raise self.error(f"an item is repeated {MAX_REPEAT} times at most", start)
        if high is not None and (high < low or high == 0):
            raise self.error(f"`{found[0]}` repeats nothing", start)
        return low, high

    def _repeated(self, n_symbols: int, low: int, high: int | None, start: int) -> None:
        if n_symbols * (high or low or 1) > MAX_REPEAT:
            raise self.error("a repetition of repetitions is too long", start)
        self._n_generated += 1 if high is None else high - low

    @property
    def _n_symbols(self) -> int:
        return len(self._names) + self._n_generated

    def _peek(self) -> str:
        return self._source[self._at : self._at + 1]

    def _skip(self, space: re.Pattern[str]) -> None:
        found = space.match(self._source, self._at)
        assert found is not None
        self._at = found.end()

    def _match(self, pattern: re.Pattern[str], error: str) -> re.Match[str]:
        found = pattern.match(self._source, self._at)
        if found is None:
            raise self.error(error, self._at)
        self._at = found.end()
        return found

    def _expect(self, text: str, error: str, at: int | None = None) -> None:
        if not self._source.startswith(text, self._at):
            raise self.error(error, self._at if at is None else at)
        self._at += len(text)
