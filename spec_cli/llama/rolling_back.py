"""Does a recurrent memory go on as if what it forgot had never been, on this model and machine?"""

from __future__ import annotations

import numpy as np

from spec_cli.llama.context import LlamaContext
from spec_cli.llama.memory import N_SNAPSHOTS
from spec_cli.spec.exactness import agree
from spec_cli.spec.interfaces import Logits

_ROUNDS = 3  # of returning to a mark
_WIDTHS = (3, N_SNAPSHOTS + 1)  # of passes whose rows do not depend on their index in any kernel
_KEPT = (1, 2, 4)  # tokens of a pass
_N_PREFIX, _N_TEXT = 3, 4
N_TOKENS = _N_PREFIX + _N_TEXT + _WIDTHS[-1]  # that a context needs to hold


def rolls_back(context: LlamaContext) -> bool:
    """Whether what follows a rollback to a snapshot has the bits of what follows none.

    A text is evaluated by passes of one width. Of each some tokens are kept, and what others were
    is dropped; where more are kept at once, memory goes back less often. The rows of the text, and
    those after it, must be the same either way. Raises ResourceError or Cancelled.
    """
    for width in _WIDTHS:
        ways = [(n_kept, seed) for n_kept in _KEPT if n_kept < width for seed in (1, 2)]
        first, *others = (_rows(context, width, *way) for way in ways)
        if not all(agree(rows, first) for rows in others):
            return False
    context.keep(())
    return True


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


def _rows(context: LlamaContext, width: int, n_kept: int, seed: int) -> Logits:
    """The rows of the text and of a pass after it; `seed` tells what other tokens are dropped."""
    text = any_tokens(context.n_vocab, _N_PREFIX + _N_TEXT)
    context.keep(())
    context.eval(text[:_N_PREFIX], n_rows=0)
    rows = []
    for start in range(_N_PREFIX, len(text), n_kept):
        end = start + n_kept
        dropped = any_tokens(context.n_vocab, width - n_kept, seed)
        rows.append(context.eval([*text[start:end], *dropped])[:n_kept].copy())
        context.rollback(end)
    rows.append(context.eval(any_tokens(context.n_vocab, width)).copy())
    return np.concatenate(rows)
