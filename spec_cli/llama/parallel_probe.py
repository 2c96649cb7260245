"""Does a text get the same bits in a pass that it shares with others, here?

Several texts of different lengths are read, one of them longer than the cells that kernels split
at. Their next rows are evaluated by passes of each shape and compared bit for bit with those of
a context that holds one text alone; also one token later, so that rows meet another index and
other neighbours. Last, prompts that are read in two parts are compared with one that is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spec_cli.llama.context import LlamaContext
from spec_cli.llama.model import LlamaModel
from spec_cli.llama.native import ContextSettings
from spec_cli.llama.rolling_back import any_tokens
from spec_cli.llama.sequences import LlamaSequences
from spec_cli.spec.exactness import ExactnessPlan, agree
from spec_cli.spec.interfaces import Logits
from spec_cli.spec.padding import PaddedModel
from spec_cli.spec.settings import MAX_ROWS
from spec_cli.spec.shapes import ParallelPlan, Shape

_LENGTHS = (264, 7, 40, 19)  # tokens of the texts, in turns; the first attends to 512 cells
_N_PROMPT = 100  # tokens of a prompt that is read in two parts,
_PARTS = (3, 40, 99)  # of which the first has so many
_N_CTX = max(_LENGTHS) + 2 * MAX_ROWS


def probe_shapes(
    model: LlamaModel,
    plan: ExactnessPlan,
    shapes: Sequence[Shape],
    *,
    n_threads: int,
    n_batch: int,
    cancelled: Callable[[], bool],
) -> ParallelPlan:
    """Those of `shapes` whose rows are those of passes of `plan`, which is exact, over one text.

    Raises ResourceError when memory is short, and Cancelled.
    """
    n_texts = max(n for n, _ in shapes)
    settings = ContextSettings(
        n_ctx=_N_CTX,
        n_threads=n_threads,
        n_batch=max(n_batch, MAX_ROWS),
        n_rows=MAX_ROWS,
        k_type=plan.kernels.k_type,
        v_type=plan.kernels.v_type,
        n_sequences=1,
    )
    with LlamaContext(model, settings, cancelled=cancelled) as context:
        alone = PaddedModel(context, plan, n_ctx=_N_CTX - MAX_ROWS, n_batch=n_batch)
        texts = [_sample(alone, plan, i) for i in range(n_texts)]
    together = replace(settings, n_sequences=n_texts)
    with LlamaSequences(model, together, cancelled=cancelled) as sequences:
        for i, text in enumerate(texts):
            _read(sequences, i, text.prompt, n_batch)
        good = tuple(shape for shape in shapes if _agrees(sequences, texts, shape))
        shares = bool(good) and _parts_agree(sequences, good[0], model.n_vocab, n_batch)
    return ParallelPlan(good, shares)


@dataclass(frozen=True, slots=True)
class _Sample:
    """A text: a prompt, the tokens after it, and the logits after each of those."""

    prompt: Sequence[int]
    tail: Sequence[int]
    rows: Logits


def _sample(alone: PaddedModel, plan: ExactnessPlan, i: int) -> _Sample:
    """Text `i`, evaluated as one text alone is."""
    tokens = any_tokens(alone.n_vocab, _LENGTHS[i % len(_LENGTHS)] + MAX_ROWS + 1, seed=i)
    prompt, tail = tokens[: -MAX_ROWS - 1], tokens[-MAX_ROWS - 1 :]
    alone.rollback(0)
    for start in range(0, len(prompt), alone.n_batch):
        alone.eval(prompt[start : start + alone.n_batch], n_rows=0)
    width = min(plan.max_width or 1, alone.n_batch)
    passes = [tail[start : start + width] for start in range(0, len(tail), width)]
    return _Sample(prompt, tail, np.concatenate([alone.eval(own).copy() for own in passes]))


def _agrees(sequences: LlamaSequences, texts: Sequence[_Sample], shape: Shape) -> bool:
    """Whether passes of `shape` give the rows of the texts; their prompts have been read."""
    n, width = shape
    found = []
    for first in (0, 1):
        rows = sequences.eval([text.tail[first : first + width] for text in texts[:n]])
        found += [
            agree(rows[i], text.rows[first : first + width]) for i, text in enumerate(texts[:n])
        ]
        for i, text in enumerate(texts[:n]):
            sequences.rollback(i, len(text.prompt) + (1 - first))
    return all(found)


def _parts_agree(sequences: LlamaSequences, shape: Shape, n_vocab: int, n_batch: int) -> bool:
    """Whether a prompt that is read in two parts gives the rows of one that is not."""
    prompt = any_tokens(n_vocab, _N_PROMPT)
    whole = _after(sequences, shape, [prompt], n_batch)
    return all(
        agree(whole, _after(sequences, shape, [prompt[:n], prompt[n:]], n_batch)) for n in _PARTS
    )


def _after(
    sequences: LlamaSequences, shape: Shape, parts: Sequence[Sequence[int]], n_batch: int
) -> Logits:
    """The rows after a prompt in the first sequence."""
    n, width = shape
    sequences.rollback(0, 0)
    for part in parts:
        _read(sequences, 0, part, n_batch)
    n_past = [sequences.n_past(i) for i in range(n)]
    rows: Logits = sequences.eval([list(range(width))] * n)[0].copy()
    for i in range(n):
        sequences.rollback(i, n_past[i])
    return rows


def _read(sequences: LlamaSequences, i: int, prompt: Sequence[int], n_batch: int) -> None:
    for start in range(0, len(prompt), n_batch):
        sequences.read(i, prompt[start : start + n_batch])
