"""What several options make of their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from spec_cli.errors import UsageError, wrong_value

T = TypeVar("T")


def count(flag: str, text: str, *, all_: int | None = None) -> int | None:
    """The number that `text` gives, None for `auto`; `all` is the number `all_`, if there is one.

    Raises UsageError for anything else.
    """
    words = {"auto": None} if all_ is None else {"auto": None, "all": all_}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return int(text)
    except ValueError:
        *others, last = ["a number", *(f"`{word}`" for word in words)]
        wanted = f"{', '.join(others)} or {last}"
        raise wrong_value(flag, text, wanted) from None


def refuse_both(flag: str, is_given: bool, other: str, other_is_given: bool) -> None:
    """Raise UsageError when two options that exclude each other are both given."""
    if is_given and other_is_given:
        raise UsageError(f"{flag} and {other} exclude each other", hint="leave out one of them")


def comma_list(flag: str, text: str, parse: Callable[[str, str], T]) -> tuple[T, ...]:
    """What `parse` makes of each part between commas, each once. Raises UsageError as it does."""
    return tuple(dict.fromkeys(parse(flag, part.strip()) for part in text.split(",")))
