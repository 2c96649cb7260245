"""Reading a known text with a model: what it expects at each place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spec_cli.spec.interfaces import AcceptanceRule, LanguageModel, Logits

_N_ROWS = 16  # of a pass, where rows are wanted


def rows_from(model: LanguageModel, tokens: Sequence[int], first: int) -> Iterator[Logits]:
    """The logits [n_vocab] after `tokens[first]`, after the next one, ... and after the last.

    Each is a view that later ones overwrite. The model is left with the text in its cache.
    """
    model.rollback(0)
    for start in range(0, first, model.n_batch):
        model.eval(tokens[start : min(start + model.n_batch, first)], n_rows=0)
    n_rows = min(_N_ROWS, model.n_batch)
    for start in range(first, len(tokens), n_rows):
        yield from model.eval(tokens[start : start + n_rows])


def matches(
    model: LanguageModel,
    prompt: Sequence[int],
    text: Sequence[int],
    rule: AcceptanceRule,
    *,
    n_shared: int,
) -> list[bool]:
    """Whether `model` would guess each token of `text` after `prompt`, given those before it.

    It chooses among the first `n_shared` ids, as a draft model does.
    """
    tokens, found = [*prompt, *text], []
    rows = rows_from(model, tokens[:-1], len(prompt) - 1)
    for at, row in enumerate(rows, start=len(prompt)):
        history = tokens[max(0, at - rule.n_history) : at]
        found.append(rule.draw(row[:n_shared], at, history).token == tokens[at])
    return found
