"""How fast a text could have been decoded by a drafter that knows when to stop.

A round that drafts j tokens and verifies j + 1 rows takes c(i, j) = d(i, j) + t(j + 1), where
d(i, j) is the time of drafting the first j tokens from position i on, if they can be guessed
right. In a text of n tokens the least time from i on is

    V(n) = 0,  V(i) = min over j of c(i, j) + V(i + j + 1)

so no drafter with the same guesses can be faster than V(0), whatever draft lengths it chooses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from spec_cli.spec.costs import PassTimes
from spec_cli.spec.interfaces import Drafter
from spec_cli.spec.rounds import FixedRound


@dataclass(frozen=True, slots=True)
class Source:
    """A drafter's guesses along a text: `runs[i]` of the tokens from position i on are guessed
    right from there. `token_s` are the seconds that drafting one token takes.
    """

    runs: Sequence[int]
    token_s: float


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest possible speed-ups: with perfect knowledge of when to stop drafting, and if
    the same guesses cost nothing besides."""

    oracle_stop: float
    free_draft: float


def limits(sources: Sequence[Source], times: PassTimes, k_max: int) -> Limits:
    """The limits of drafting one text from `sources`, at most `k_max` tokens in a round.

    All `runs` have the text's length; `times` are those of the target's passes.
    """
    free = [replace(source, token_s=0.0) for source in sources]
    plain_s = len(sources[0].runs) * times(1)
    least_s, least_free_s = (least_time(each, times, k_max) for each in (sources, free))
    return Limits(plain_s / least_s, plain_s / least_free_s)


def least_time(sources: Sequence[Source], times: PassTimes, k_max: int) -> float:
    """V(0): the seconds that the text takes when each round drafts what is best."""
    n = len(sources[0].runs)
    pass_s = [times(width) for width in range(1, k_max + 2)]
    value = [0.0] * (n + 1)
    for i in reversed(range(n)):
        drafts_s = _draft_times(sources, i, min(k_max, n - 1 - i))
        value[i] = min(draft_s + pass_s[j] + value[i + j + 1] for j, draft_s in enumerate(drafts_s))
    return value[0]


def _draft_times(sources: Sequence[Source], start: int, k_max: int) -> Iterator[float]:
    """d(start, j) for j = 0, 1, ... up to `k_max`, or to the first token that no source knows.

    A round may go on with any source from any token: each knows the tokens that its runs from
    `start` or later reach. Of those that know a token the cheapest drafts it.
    """
    total_s = 0.0
    yield total_s
    known_until = [0] * len(sources)
    for at in range(start, start + k_max):
        known_until = [
            max(until, at + source.runs[at])
            for until, source in zip(known_until, sources, strict=True)
        ]
        prices = [s.token_s for s, until in zip(sources, known_until, strict=True) if at < until]
        if not prices:
            return
        total_s += min(prices)
        yield total_s


def runs_from_matches(matches: Sequence[bool], k_max: int) -> list[int]:
    """Runs of at most `k_max` tokens; `matches[i]`: token i is guessed right after those before."""
    runs = [0] * len(matches)
    after = 0
    for i in reversed(range(len(matches))):
        after = min(after + 1, k_max) if matches[i] else 0
        runs[i] = after
    return runs


def runs_of(drafter: Drafter, prompt: Sequence[int], text: Sequence[int], k_max: int) -> list[int]:
    """How many of the tokens that `drafter` proposes at each position of `text` are right.

    The drafter sees `prompt` and, one by one, the tokens of `text` that stand before the position.
    """
    context = list(prompt)
    drafter.begin(context)
    runs = []
    for i, token in enumerate(text):
        drafted = drafter.propose(context, FixedRound(k_max)).tokens
        runs.append(_agreement(drafted, text[i : i + k_max]))
        context.append(token)
        drafter.commit(context)
    return runs


def _agreement(drafted: Sequence[int], text: Sequence[int]) -> int:
    """The number of leading tokens that are equal."""
    n = 0
    for guess, token in zip(drafted, text, strict=False):
        if guess != token:
            break
        n += 1
    return n
