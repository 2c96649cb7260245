"""Where the end of a text occurred before: hash chains, as in LZ77.

Each place of the text is filed under the few tokens before it; equal ones are chained, the latest
first. A lookup walks a bounded part of a chain and extends each match backwards, so that both
adding a token and finding a match take constant time, however long the text is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LONG, SHORT = 6, 2  # tokens that places are filed under; of the short ones there can be very many
LONGEST = 32  # tokens after which two matches count as equally long
BREAK = -1  # stands between two texts: no token, and nothing is copied beyond it
_N_TRIED = 32  # places of a chain, the latest


@dataclass(frozen=True, slots=True)
class Copy:
    """A guess: the `token` that followed an earlier occurrence of the last `length` tokens.

    `n_votes` of the `n_matches` equally long occurrences were followed by it.
    """

    token: int
    length: int
    n_votes: int
    n_matches: int


class MatchIndex:
    """A growing text, and for its end the longest matches in what came before."""

    def __init__(self) -> None:
        self._text: list[int] = []
        self._latest: dict[tuple[int, ...], int] = {}
        self._earlier: dict[int, list[int]] = {LONG: [], SHORT: []}

    def __len__(self) -> int:
        return len(self._text)

    def append(self, token: int) -> None:
        """Add a token; the place before it now has a continuation, and is filed."""
        at = len(self._text)
        for n, earlier in self._earlier.items():
            key = tuple(self._text[at - n :]) if at >= n else ()
            earlier.append(self._latest.get(key, -1))
            if key:
                self._latest[key] = at
        self._text.append(token)

    def continuation(self, drafted: Sequence[int], n: int) -> Iterator[Copy]:
        """Up to `n` guesses for what follows the text and `drafted` tokens, each given the last.

        The longest matches vote; of equal votes the latest occurrence's counts. Those that
        agree go on voting. A copy that reaches the end of the text goes on with what it copied.
        """
        text, end = self._text, len(self._text)
        tail = [*text[max(0, end - LONGEST) :], *drafted]
        length, places = self._longest(tail)
        copied = [*drafted]
        for _ in range(n):
            if not places:
                return
            follows = [text[at] if at < end else copied[at - end] for at in places]
            votes = Counter(follows)  # in the order of `places`: the latest comes first
            token, n_votes = max(votes.items(), key=lambda item: item[1])
            if token == BREAK:
                return
            yield Copy(token, length, n_votes, len(places))
            copied.append(token)
            places = [at + 1 for at, t in zip(places, follows, strict=True) if t == token]
            length = min(length + 1, LONGEST)

    def _longest(self, tail: Sequence[int]) -> tuple[int, list[int]]:
        """The length of the longest matches of `tail`'s end, and the places after them."""
        for n, earlier in self._earlier.items():
            if len(tail) < n:
                continue
            longest = 0
            places: list[int] = []
            for at in self._chain(tuple(tail[len(tail) - n :]), earlier):
                length = self._common(tail, at, n)
                if length > longest:
                    longest, places = length, []
                if length == longest:
                    places.append(at)
            if places:
                return longest, places
        return 0, []

    def _chain(self, key: tuple[int, ...], earlier: Sequence[int]) -> Iterator[int]:
        at = self._latest.get(key, -1)
        for _ in range(_N_TRIED):
            if at < 0:
                return
            yield at
            at = earlier[at]

    def _common(self, tail: Sequence[int], at: int, n: int) -> int:
        """How many tokens before `at` equal the end of `tail`: `n` are known to, LONGEST count."""
        limit = min(at, len(tail), LONGEST)
        while n < limit and self._text[at - n - 1] == tail[len(tail) - n - 1]:
            n += 1
        return n
