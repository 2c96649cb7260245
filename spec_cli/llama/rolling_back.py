"""Does a recurrent memory go on as if what it forgot had never been, on this model and machine?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spec_cli.llama.context import LlamaContext
from spec_cli.spec.exactness import agree
from spec_cli.spec.interfaces import Logits

_ROUNDS = 3  # one after the other, each of which goes back
_PASSES = ((1, 2), (2, 3), (1, 8), (4, 8))  # of so many tokens the first few are kept
_N_PREFIX = 3
N_TOKENS = _N_PREFIX + _ROUNDS * 4 + 8  # that a context needs to hold


def rolls_back(context: LlamaContext) -> bool:
    """Whether snapshots give the bits of never having evaluated what was dropped.

    Of passes some tokens are dropped, and what follows must have the same bits whatever those were,
    and as if there had been none. Kernels may compute a row in another way in a pass of another
    width: bits are compared where the rows before anything was dropped agree, and that must be
    so for some passes. Raises ResourceError or Cancelled.
    """
    is_proved = False
    for n_kept, width in _PASSES:
        wrong = (any_tokens(context.n_vocab, width - n_kept, seed) for seed in (1, 2))
        never, one, other = (_rounds(context, n_kept, tokens) for tokens in ((), *wrong))
        for found, expected in ((one, never), (other, one)):
            if agree(found[:n_kept], expected) and not agree(found, expected):
                return False
        is_proved |= agree(one, never)
    context.keep(())
    return is_proved


def returns(context: LlamaContext) -> bool:
    """Whether the memory goes back to a mark, and from there to the bits of never having left.

    Raises ResourceError or Cancelled.
    """
    text, then, wrong = (any_tokens(context.n_vocab, n, seed=n) for n in (7, 3, 4))
    context.keep(())
    context.eval(text, n_rows=0)
    expected = context.eval(then).copy()
    context.keep(())
    context.eval(text, n_rows=0)
    found = []
    for _ in range(_ROUNDS):
        context.keep(text)
        context.eval(wrong)
        context.eval(wrong[:1])
        if context.keep(text) != len(text):
            return False
        found.append(context.eval(then).copy())
        if context.keep(text) != len(text):
            return False
    context.keep(())
    return all(agree(rows, expected) for rows in found)


def any_tokens(n_vocab: int, n: int, seed: int = 0) -> list[int]:
    """`n` token ids from all over the vocabulary, always the same for a seed."""
    return [(7919 * i + 1009 + 613 * seed) % n_vocab for i in range(n)]


def _rounds(context: LlamaContext, n_kept: int, wrong: Sequence[int]) -> Logits:
    """The rows of the tokens that are kept of each round; `wrong` ones follow, and are dropped."""
    text = any_tokens(context.n_vocab, _N_PREFIX + _ROUNDS * n_kept)
    context.keep(())
    context.eval(text[:_N_PREFIX], n_rows=0)
    rows = []
    for start in range(_N_PREFIX, len(text), n_kept):
        evaluated = context.eval([*text[start : start + n_kept], *wrong])
        rows.append(evaluated[:n_kept].copy())
        context.rollback(start + n_kept)
    return np.concatenate(rows)
