"""A whole verification on a prepared session: the texts, then the acceptance rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from spec_cli.errors import Cancelled
from spec_cli.session import Session
from spec_cli.verify.archive import Archive
from spec_cli.verify.compare import Comparer
from spec_cli.verify.comparison import Comparison
from spec_cli.verify.matrix import Cell, Matrix
from spec_cli.verify.report import Report
from spec_cli.verify.rows import RowPair, likeliest, most_contested, positions, rows_after
from spec_cli.verify.rules import RuleCheck, check_rules

_N_TEXTS = 3  # of which rows are taken


def verify_pair(
    session: Session,
    matrix: Matrix,
    prompts: Mapping[str, Sequence[int]],
    archive: Archive,
    *,
    n_rounds: int,
    cancelled: Callable[[], bool],
    progress: Callable[[str, float | None], None],
) -> Report:
    """The report; when cancelled, of what was finished.

    `prompts` are token ids by the prompt's id; each rule is tried for `n_rounds` rounds.
    """
    comparer = Comparer(session, matrix, prompts, archive, progress)
    made: dict[Cell, Comparison] = {}
    rules: tuple[RuleCheck, ...] = ()
    skipped, interrupted = None, False
    try:
        for comparison in comparer.run():
            made[comparison.cell] = comparison
        pairs = list(_pairs(session, comparer, matrix, prompts, progress))
        if pairs:
            rules = check_rules(most_contested(pairs), matrix.seed, n_rounds, cancelled, progress)
        elif session.draft_header is None:
            skipped = "there is no draft model"
        else:
            skipped = "no text is long enough"
    except Cancelled:
        skipped, interrupted = "interrupted", True
    cells = tuple(matrix.cells())
    comparisons = tuple(made[cell] for cell in cells if cell in made)
    return Report(cells, comparisons, session.plan, rules, skipped, interrupted)


def _pairs(
    session: Session,
    comparer: Comparer,
    matrix: Matrix,
    prompts: Mapping[str, Sequence[int]],
    progress: Callable[[str, float | None], None],
) -> Iterator[RowPair]:
    """Rows from the hottest texts of the shortest prompts, as far as the draft can read them."""
    if session.draft_header is None:
        return
    n_draft_ids = len(session.draft_header.vocab.tokens)
    shortest = sorted(matrix.prompts, key=lambda prompt: len(prompts[prompt.id]))
    for prompt in shortest[:_N_TEXTS]:
        progress(f"rows for the acceptance rules: {prompt.id}", None)
        text = comparer.plain(prompt, max(matrix.temps))
        for at in positions(len(text.tokens)):
            context = [*prompts[prompt.id], *text.tokens[: at + 1]]
            if max(context) < n_draft_ids:
                yield RowPair(prompt.id, at, *likeliest(*rows_after(session, context)))
