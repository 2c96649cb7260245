"""Reading a known text with a model, against rows of the table without a cache."""

from __future__ import annotations

import numpy as np
import pytest

from spec_cli.reading import matches, rows_from
from spec_cli.spec.acceptance import make_rule
from spec_cli.spec.settings import Accept, SamplingSettings
from tests.engine.fakes import TableLM

TEXT = [1, 2, 3, 4, 1, 3, 2, 2, 4, 1, 1, 3, 4, 2, 3, 1, 4, 4, 2, 1, 3]


@pytest.mark.parametrize("first", [0, 1, 7, 8, 9, 19, 20])
def test_the_rows_are_those_after_each_token_from_the_first_on(first: int) -> None:
    model = TableLM(seed=3)
    model.eval([4, 4])  # what was in the cache before plays no part
    rows = [row.copy() for row in rows_from(model, TEXT, first)]
    expected = [model.row(TEXT[: i + 1]) for i in range(first, len(TEXT))]
    np.testing.assert_array_equal(rows, expected)
    assert model.kv == TEXT


@pytest.mark.parametrize("temp", [0.0, 0.9])
@pytest.mark.parametrize("n_shared", [5, 4])
def test_a_match_is_a_token_that_the_model_would_have_chosen_there(
    temp: float, n_shared: int
) -> None:
    settings = SamplingSettings(temp=temp)
    prompt, text = TEXT[:6], TEXT[6:]
    rule = make_rule(Accept.COUPLED, settings, seed=5)
    found = matches(TableLM(seed=3), prompt, text, rule, n_shared=n_shared)
    model = TableLM(seed=3)
    expected = [
        rule.draw(model.row(TEXT[:at])[:n_shared], at, TEXT[:at]).token == TEXT[at]
        for at in range(6, len(TEXT))
    ]
    assert found == expected
    assert any(found) and not all(found)
