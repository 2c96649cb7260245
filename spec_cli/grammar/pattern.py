"""Regular expressions of JSON schemas, as GBNF for the inside of a JSON string."""

from __future__ import annotations

import re
from typing import NoReturn

from spec_cli.errors import UsageError
from spec_cli.grammar.chars import EVERY, Ranges, in_json, points, union, without
from spec_cli.grammar.gbnf import MAX_REPEAT, repetitions

_DIGITS = ((0x30, 0x39),)
_WORD = union((*_DIGITS, (0x41, 0x5A), (0x61, 0x7A), *points("_")))
# White space and line ends of ECMAScript: `\S` must not let one through.
_SPACE = union(
    (*points("\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"), (0x2000, 0x200A))
)
_CLASSES = {
    "d": _DIGITS, "w": _WORD, "s": _SPACE,
    "D": without(EVERY, _DIGITS), "W": without(EVERY, _WORD), "S": without(EVERY, _SPACE),
}  # fmt: skip
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v"}
_ANY = without(EVERY, points("\n\r\u2028\u2029"))
_QUANTIFIER = re.compile(r"(?:([*+?])|\{([0-9]+)(?:(,)([0-9]+)?)?\})\??")
_HEX = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}")


def pattern_to_gbnf(pattern: str) -> str:
    """The strings in which `pattern` is found; it uses the rule `char` where it is not anchored.

    Raises UsageError for what GBNF cannot say: look-around, references, word boundaries.
    """
    return _Pattern(pattern).gbnf()


class _Pattern:
    """Reads a pattern, from `_at` on."""

    def __init__(self, pattern: str) -> None:
        self._pattern, self._at = pattern, 0

    def gbnf(self) -> str:
        options = [self._anchored()]
        while self._take("|"):
            options.append(self._anchored())
        if self._at < len(self._pattern):
            self._refuse_here()
        return f"( {' | '.join(options)} )"

    def _anchored(self) -> str:
        before = "" if self._take("^") else "char* "
        body = self._sequence()
        return before + body + ("" if self._take("$") else " char*")

    def _alternatives(self) -> str:
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        return f"( {' | '.join(options)} )"

    def _sequence(self) -> str:
        items = []
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)$":
            items.append(self._quantified(self._item()))
        return " ".join(items)

    def _item(self) -> str:
        char = self._pattern[self._at]
        if char in "^*+?{":
            self._refuse_here()
        self._at += 1
        if char == "(":
            if self._take("?") and not self._take(":"):
                self._refuse("look-around and named groups are not supported")
            body = self._alternatives()
            if self._at == len(self._pattern):
                self._refuse("`)` is missing")
            if not self._take(")"):
                self._refuse_here()
            return body
        if char == "[":
            return self._written(self._class())
        if char == ".":
            return self._written(_ANY)
        return self._written(self._escape() if char == "\\" else points(char))

    def _quantified(self, item: str) -> str:
        found = _QUANTIFIER.match(self._pattern, self._at)
        if found is None:
            return item
        self._at = found.end()
        if found[1]:
            return item + found[1]
        low, high = repetitions(found[2], found[3], found[4])
        if max(low, high or 0) > MAX_REPEAT or (high is not None and (high < low or high == 0)):
            self._refuse(f"`{found[0]}` is not supported")
        return f"{item}{{{low},{'' if high is None else high}}}"

    def _class(self) -> Ranges:
        negates = self._take("^")
        chars: list[tuple[int, int]] = []
        while not self._take("]"):
            low = self._member()
            if self._pattern[self._at : self._at + 1] == "-" and self._pattern[
                self._at + 1 : self._at + 2
            ] not in ("]", ""):
                self._at += 1
                high = self._member()
                if len(low) != 1 or len(high) != 1 or high[0][1] < low[0][0]:
                    self._refuse("a range of characters is not valid")
                low = ((low[0][0], high[0][1]),)
            chars += low
        return without(EVERY, union(chars)) if negates else union(chars)

    def _member(self) -> Ranges:
        if self._at >= len(self._pattern):
            self._refuse("`]` is missing")
        char = self._pattern[self._at]
        self._at += 1
        return self._escape() if char == "\\" else points(char)

    def _escape(self) -> Ranges:
        if found := _HEX.match(self._pattern, self._at):
            self._at = found.end()
            point = int(found[1] or found[2] or found[3], 16)
            if not any(low <= point <= high for low, high in EVERY):
                self._refuse(f"`\\{found[0]}` is not a character; beyond FFFF write `\\u{{1F600}}`")
            return points(chr(point))
        char = self._pattern[self._at : self._at + 1]
        self._at += 1
        if char in _CLASSES:
            return _CLASSES[char]
        if char in _CONTROLS:
            return points(_CONTROLS[char])
        if not char or char.isalnum():
            self._refuse(f"`\\{char}` is not supported")
        return points(char)

    def _written(self, chars: Ranges) -> str:
        written = in_json(chars)
        if not written:
            self._refuse("a class holds no character that JSON can write")
        return written

    def _take(self, text: str) -> bool:
        found = self._pattern.startswith(text, self._at)
        self._at += len(text) * found
        return found

    def _refuse_here(self) -> NoReturn:
        self._refuse(f"`{self._pattern[self._at]}` is not supported here")

    def _refuse(self, why: str) -> NoReturn:
        raise UsageError(f"`pattern` {self._pattern!r}: {why}")
