"""Which pair a command line names, and how long its drafts are."""

from __future__ import annotations

import pytest

from spec_cli.errors import UsageError
from spec_cli.modelref import Pair, RepoFile
from spec_cli.pairs import choose_pair
from spec_cli.registry import Registry
from spec_cli.settings import DrafterKind, SessionSettings

TARGET, DRAFT = RepoFile("t", "a/t", quant="Q8_0"), RepoFile("d", "a/d", quant="Q8_0")
PAIR = Pair("one", TARGET, DRAFT, draft_tokens=5)
REGISTRY = Registry(pairs={"one": PAIR}, default=PAIR, files={})
AUTO = DrafterKind.AUTO


def test_no_name_is_the_default_pair_with_its_draft_length() -> None:
    assert choose_pair(REGISTRY, None, None, AUTO) == PAIR


@pytest.mark.parametrize(
    ("draft_model", "drafter"),
    [("none", AUTO), (None, DrafterKind.NGRAM), (None, DrafterKind.NONE)],
)
def test_a_draft_that_takes_no_part_is_not_fetched_and_its_length_is_not_used(
    draft_model: str | None, drafter: DrafterKind
) -> None:
    pair = choose_pair(REGISTRY, "one", draft_model, drafter)
    assert (pair.draft, pair.draft_tokens) == (None, None)


def test_a_pairs_draft_length_is_not_that_of_another_draft() -> None:
    pair = choose_pair(REGISTRY, "one", "b/other:Q4_0", AUTO)
    assert pair.draft is not None and pair.draft.name == "b/other:Q4_0"
    assert pair.draft_tokens is None


def test_a_draft_longer_than_the_batch_is_refused_with_both_numbers() -> None:
    SessionSettings(draft_tokens=7, n_batch=8)
    with pytest.raises(UsageError, match=r"--draft-tokens is 8, but --batch-size is 8"):
        SessionSettings(draft_tokens=8, n_batch=8)
