"""The rules of a grammar, and what must hold among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from spec_cli.errors import UsageError

ROOT = "root"
MAX_PATHS = 100_000  # of rules at whose beginning others begin: llama.cpp walks each


@dataclass(frozen=True, slots=True)
class Text:
    """A literal, or a class of characters; only the empty literal may be empty."""

    is_empty: bool = False


@dataclass(frozen=True, slots=True)
class Reference:
    """The name of a rule, used at `at`."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class Group:
    """Alternatives, each a sequence of items."""

    alternatives: tuple[tuple[Item, ...], ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """An item `low` times or more, up to `high` times; None: without end."""

    item: Item
    low: int
    high: int | None
    at: int


Item = Text | Reference | Group | Repeat
Rules = Mapping[str, Group]
ErrorAt = Callable[[str, int], UsageError]  # says what is wrong at a place of the source


def check_rules(rules: Rules, error: ErrorAt) -> None:
    """Raises UsageError where a rule is missing, or where expanding rules would not end."""
    _check_names(rules, error)
    _check_recursion(rules, error)


def _check_names(rules: Rules, error: ErrorAt) -> None:
    if ROOT not in rules:
        raise UsageError("the grammar has no rule `root`", hint="begin it with `root ::= ...`")
    for group in rules.values():
        for reference in parts(group):
            if isinstance(reference, Reference) and reference.name not in rules:
                raise error(f"there is no rule `{reference.name}`", reference.at)


def _check_recursion(rules: Rules, error: ErrorAt) -> None:
    """No rule may begin with itself, no repetition with its next turn: that would never end."""
    empty = _may_be_empty(rules)
    for part in (part for group in rules.values() for part in parts(group)):
        if isinstance(part, Repeat) and part.high is None and _is_empty(part.item, empty):
            raise error("what may be empty is repeated without end", part.at)
    n_paths: dict[str, int] = {}
    for name in rules:
        stack = [_Beginnings(name, rules, empty)] if name not in n_paths else []
        on_stack = {name}
        while stack:
            current = stack[-1]
            todo = next((r for r in current.rest if r.name not in n_paths), None)
            if todo is None:
                n_paths[current.name] = 1 + sum(n_paths[r.name] for r in current.all)
                if n_paths[current.name] > MAX_PATHS:
                    raise UsageError(
                        f"the grammar branches too often at the start of `{current.name}`"
                    )
                on_stack.remove(current.name)
                stack.pop()
            elif todo.name in on_stack:
                raise error(f"`{todo.name}` can begin with itself (left recursion)", todo.at)
            else:
                on_stack.add(todo.name)
                stack.append(_Beginnings(todo.name, rules, empty))


class _Beginnings:
    """The rules with which one rule can begin: `all`, and the `rest` still to be looked at."""

    def __init__(self, name: str, rules: Rules, empty: set[str]) -> None:
        self.name = name
        self.all = list(_beginnings(rules[name], empty))
        self.rest = iter(self.all)


def _may_be_empty(rules: Rules) -> set[str]:
    users: dict[str, set[str]] = {name: set() for name in rules}
    for name, group in rules.items():
        for part in parts(group):
            if isinstance(part, Reference):
                users[part.name].add(name)
    empty: set[str] = set()
    todo = list(rules)
    while todo:
        name = todo.pop()
        if name not in empty and _is_empty(rules[name], empty):
            empty.add(name)
            todo += users[name]
    return empty


def _is_empty(item: Item, empty: set[str]) -> bool:
    match item:
        case Text(is_empty=is_empty):
            return is_empty
        case Reference(name=name):
            return name in empty
        case Repeat(item=inner, low=low):
            return low == 0 or _is_empty(inner, empty)
        case Group(alternatives=alternatives):
            return any(all(_is_empty(i, empty) for i in sequence) for sequence in alternatives)


def parts(item: Item) -> Iterator[Item]:
    """The item, and all within it."""
    yield item
    match item:
        case Repeat(item=inner):
            yield from parts(inner)
        case Group(alternatives=alternatives):
            for sequence in alternatives:
                for part in sequence:
                    yield from parts(part)


def _beginnings(item: Item, empty: set[str]) -> Iterator[Reference]:
    """The rules with which `item` can begin."""
    match item:
        case Reference():
            yield item
        case Repeat(item=inner):
            yield from _beginnings(inner, empty)
        case Group(alternatives=alternatives):
            for sequence in alternatives:
                for part in sequence:
                    yield from _beginnings(part, empty)
                    if not _is_empty(part, empty):
                        break
