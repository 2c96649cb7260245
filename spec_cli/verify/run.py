"""A whole verification on a prepared session: the texts, then the acceptance rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from spec_cli.errors import Cancelled
from spec_cli.session import Session
from spec_cli.verify.archive import Archive
from spec_cli.verify.compare import Comparer
from spec_cli.verify.comparison import Comparison
from spec_cli.verify.matrix import Matrix
from spec_cli.verify.report import Report
from spec_cli.verify.rows import RowPair, likeliest, most_contested, positions
from spec_cli.verify.rules import check_rules

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
    cells, plan, made = tuple(matrix.cells()), session.plan, list[Comparison]()
    try:
        for comparison in comparer.run():
            made.append(comparison)
        progress("acceptance rules", None)
        pairs = most_contested(list(_pairs(session, comparer, matrix, prompts)))
        if not pairs:
            why = (
                "there is no draft model"
                if session.draft_header is None
                else "no text is long enough"
            )
            return Report(cells, tuple(made), plan, rules_skipped=why)
        rules = check_rules(
            pairs, matrix.seed, n_rounds=n_rounds, cancelled=cancelled, progress=progress
        )
    except Cancelled:
        return Report(cells, tuple(made), plan, rules_skipped="interrupted", interrupted=True)
    return Report(cells, tuple(made), plan, rules)


def _pairs(
    session: Session, comparer: Comparer, matrix: Matrix, prompts: Mapping[str, Sequence[int]]
) -> Iterator[RowPair]:
    """Rows from the hottest texts of the shortest prompts, as far as the draft can read them."""
    if session.draft_header is None:
        return
    n_draft_ids = len(session.draft_header.vocab.tokens)
    shortest = sorted(matrix.prompts, key=lambda prompt: len(prompts[prompt.id]))
    for prompt in shortest[:_N_TEXTS]:
        text = comparer.plain(prompt, max(matrix.temps))
        for at in positions(len(text.tokens)):
            context = [*prompts[prompt.id], *text.tokens[: at + 1]]
            if max(context) < n_draft_ids:
                yield RowPair(prompt.id, at, *likeliest(*session.rows_after(context)))
