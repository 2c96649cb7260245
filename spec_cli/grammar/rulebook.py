"""The rules of JSON, and those that a schema adds to them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from spec_cli.grammar.chars import PLAIN, class_of, literal, points, without
from spec_cli.grammar.rules import ROOT

_BY_4 = "[2468] [048] | [13579] [26]"  # two digits of a number that 4 divides, from 12 on
_LEAP_YEAR = f'[0-9]{{2}} ( "0" [48] | {_BY_4} ) | ( "0" [048] | {_BY_4} ) "00"'
_MONTH_AND_DAY = (
    '( "0" [13578] | "1" [02] ) "-" ( "0" [1-9] | [12] [0-9] | "3" [01] ) '
    '| ( "0" [469] | "11" ) "-" ( "0" [1-9] | [12] [0-9] | "30" ) '
    '| "02-" ( "0" [1-9] | "1" [0-9] | "2" [0-8] )'
)
_DATE = f'( [0-9]{{4}} "-" ( {_MONTH_AND_DAY} ) | ( {_LEAP_YEAR} ) "-02-29" )'
_TIME = (
    '( [01] [0-9] | "2" [0-3] ) ":" [0-5] [0-9] ":" [0-5] [0-9] ( "." [0-9]{1,6} )? '
    '( "Z" | [+-] ( [01] [0-9] | "2" [0-3] ) ":" [0-5] [0-9] )'
)
FORMATS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f'{_DATE} "T" {_TIME}',
    "uuid": '[0-9a-fA-F]{8} ( "-" [0-9a-fA-F]{4} ){3} "-" [0-9a-fA-F]{12}',
}
_BUILT_IN = {
    "ws": '( " " | "\\n" [ \\t]{0,20} )?',
    "plain": class_of(PLAIN),
    "hex": "[0-9a-fA-F]",
    # No halves of surrogate pairs: what is beyond them is written as it is.
    "escape": '["\\\\/bfnrt] | "u" ( [0-9a-cefA-CEF] hex{3} | [dD] [0-7] hex{2} )',
    "char": 'plain | "\\\\" escape',
    "string": '"\\"" char* "\\""',
    "natural": '"0" | [1-9] [0-9]{0,15}',
    "fraction": '( "." [0-9]{1,16} )? ( [eE] [+-]? [0-9]{1,2} )?',
    "integer": '"-"? natural',
    "number": '"-"? natural fraction',
    "boolean": '"true" | "false"',
    "null": '"null"',
    "member": 'string ":" ws value',
    "object": '"{" ( ws member ( "," ws member )* )? ws "}"',
    "array": '"[" ( ws value ( "," ws value )* )? ws "]"',
    "value": "object | array | string | number | boolean | null",
}


class RuleBook:
    """Collects rules under names of their own. Built-in ones are added where they are used."""

    def __init__(self) -> None:
        self._rules: dict[str, str] = {}
        self._names: dict[str, str] = {}  # of rules by what they say

    def gbnf(self, root: str) -> str:
        """The grammar whose root says `root`."""
        rules = {ROOT: root} | self._rules
        return "".join(f"{name} ::= {body}\n" for name, body in rules.items())

    @property
    def ws(self) -> str:
        """Some white space, or none."""
        return self.built_in("ws")

    def built_in(self, name: str) -> str:
        """The name of a rule of JSON."""
        if name not in self._rules:
            self._rules[name] = _BUILT_IN[name]
            for used in re.findall(r"(?<![\w\"])[a-z]+(?![\w\"])", _BUILT_IN[name]):
                if used in _BUILT_IN:
                    self.built_in(used)
        return name

    def rule(self, hint: str, body: str) -> str:
        """The name of a rule that says `body`."""
        if body not in self._names:
            name = self._names[body] = self._free_name(hint)
            self._rules[name] = body
        return self._names[body]

    def reserve(self, hint: str) -> str:
        """A name for a rule that is still to be said."""
        name = self._free_name(hint)
        self._rules[name] = ""
        return name

    def say(self, name: str, body: str) -> None:
        """What a reserved name stands for."""
        self._rules[name] = body

    def _free_name(self, hint: str) -> str:
        stem = re.sub(r"[^a-zA-Z0-9]+", "-", hint).strip("-").lower() or "it"
        name, n = stem, 1
        while name in self._rules or name in _BUILT_IN or name == ROOT:
            n += 1
            name = f"{stem}-{n}"
        return name

    def members(self, members: Sequence[str], required: Sequence[bool], other: str) -> str:
        """An object of these members in this order, then any number of the other ones."""
        n, comma = len(members), '"," ws'
        rests = [f"( {comma} {other} )*" if other else ""]  # after some member, from the last on
        for member, must in zip(reversed(members), reversed(required), strict=True):
            rest = f"{comma} {member}" if must else f"( {comma} {member} )?"
            rests.append(self.rule("rest", f"{rest} {rests[-1]}") if rests[-1] else rest)
        rests.reverse()
        n_first = list(required).index(True) + 1 if any(required) else n
        firsts = [f"{members[i]} {rests[i + 1]}" for i in range(n_first)]
        if other and not any(required):
            firsts.append(f"{other} {rests[n]}")
        if not firsts:
            return f'"{{" {self.ws} "}}"'
        within = f"{self.ws} ( {' | '.join(firsts)} )"
        return '"{" ' + (within if any(required) else f"( {within} )?") + ' ws "}"'

    def key_other_than(self, names: Sequence[str]) -> str:
        """A key that is none of the `names`; it has no escapes, which could spell one of them."""
        plain = self.built_in("plain")
        tree: dict[str, Any] = {}
        for name in names:
            if without(points(name), PLAIN):
                continue  # only escapes can spell it
            node = tree
            for char in name:
                node = node.setdefault(char, {})
            node[""] = {}

        def below(node: Mapping[str, Any]) -> str:
            chars = [char for char in node if char]
            others = f"{class_of(without(PLAIN, points(''.join(chars))))} {plain}*"
            options = [f"{literal(char)} {below(node[char])}" for char in chars]
            mark = "" if "" in node else "?"
            return f"( {' | '.join([*options, others])} ){mark}"

        return f'"\\"" {below(tree)} "\\""'


def repeated(rule: str, low: int, high: int | None) -> str:
    """The rule `low` times or more, up to `high` times where that is bounded."""
    if high == 0:
        return ""
    return f"{rule}{{{low},{'' if high is None else high}}}"


def written(value: Any) -> str:
    """A value as JSON; characters beyond ASCII as they are, but for halves of surrogate pairs."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() or text.isascii() else json.dumps(value)
