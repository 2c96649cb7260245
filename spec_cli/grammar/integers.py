"""Integers within bounds, as GBNF."""

from __future__ import annotations

N_DIGITS = 16  # of an integer without a bound
MAX_DIGITS = 64  # of a bound: each can take a pair of parentheses, of which 100 nest


def integers(low: int | None, high: int | None) -> str:
    """The decimal integers from `low` to `high`; nothing where there are none.

    A bound has at most MAX_DIGITS digits. Where one is missing, integers have at most N_DIGITS
    digits, or as many as the other bound has.
    """
    digits = max(N_DIGITS, *(len(str(abs(bound))) for bound in (low, high) if bound is not None), 0)
    limit = 10**digits - 1
    low, high = -limit if low is None else low, limit if high is None else high
    options = []
    if low < 0:
        negative = _naturals(max(1, -high), -low)
        options += [f'"-" ( {negative} )'] if negative else []
    natural = _naturals(max(0, low), high)
    return " | ".join([*options, natural] if natural else options)


def _naturals(low: int, high: int) -> str:
    """From `low` to `high`, 0 or more: one option for each number of digits, or for several."""
    options = []
    while low <= high:
        n = len(str(low))
        if low == 10 ** (n - 1) and high >= 10**n - 1:
            m = len(str(high + 1)) - 1  # all numbers of n to m digits are there
            options.append(f"[1-9] [0-9]{{{n - 1},{m - 1}}}" if m > 1 else "[1-9]")
            low = 10**m
        else:
            last = min(high, 10**n - 1)
            options.append(_of_equal_length(str(low), str(last)))
            low = last + 1
    return " | ".join(options)


def _of_equal_length(low: str, high: str) -> str:
    """From `low` to `high`, digit by digit."""
    n = len(low)
    if n == 0:
        return ""
    if low == "0" * n and high == "9" * n:
        return f"[0-9]{{{n}}}"
    if low[0] == high[0]:
        return f'"{low[0]}" {_grouped(_of_equal_length(low[1:], high[1:]))}'.rstrip()
    first, last = int(low[0]), int(high[0])
    options = []
    if low[1:] != "0" * (n - 1):
        options.append(f'"{first}" {_grouped(_of_equal_length(low[1:], "9" * (n - 1)))}')
        first += 1
    end = ""
    if high[1:] != "9" * (n - 1):
        end = f'"{last}" {_grouped(_of_equal_length("0" * (n - 1), high[1:]))}'
        last -= 1
    if first <= last:
        options.append(f"[{first}-{last}]" + (f" [0-9]{{{n - 1}}}" if n > 1 else ""))
    return " | ".join([*options, end] if end else options)


def _grouped(body: str) -> str:
    return f"( {body} )" if "|" in body else body
