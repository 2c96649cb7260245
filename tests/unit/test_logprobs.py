"""Log-probabilities against the plain formula, and the likeliest tokens in order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.logprobs import TokenScorer, likeliest, log_sum_exp

rows = st.lists(st.integers(-400, 400).map(lambda i: i / 4), min_size=1, max_size=40).map(
    lambda values: np.array(values, dtype=np.float32)
)


class Names:
    """Token 0 has no text, token 1 is half a character."""

    def piece(self, token: int) -> bytes:
        return {0: b"", 1: b"\xc3"}.get(token, b"t%d" % token)

    def token_text(self, token: int) -> str:
        return f"<{token}>"


@given(row=rows, n=st.integers(0, 20))
def test_scores_are_the_logarithms_of_the_softmax(row: np.ndarray, n: int) -> None:
    exact = row.astype(np.longdouble)
    expected = exact - exact.max() - np.log(np.exp(exact - exact.max()).sum())
    for token in range(row.size):
        score = TokenScorer(Names(), n)(row, token)
        assert score.chosen.logprob == pytest.approx(float(expected[token]), abs=1e-9)
        assert score.chosen.logprob <= 1e-12
        order = np.argsort(-row, kind="stable")[:n].tolist()
        assert [likely.token for likely in score.likeliest] == order
        assert all(likely.logprob >= score.chosen.logprob for likely in score.likeliest[:1])


def test_a_token_without_text_has_its_name_and_part_of_a_character_its_bytes() -> None:
    scorer = TokenScorer(Names(), 0)
    row = np.zeros(3, dtype=np.float32)
    nameless, half, whole = (scorer(row, token).chosen for token in range(3))
    assert (nameless.name, nameless.piece) == ("<0>", None)
    assert (half.name, half.piece) == ("\ufffd", b"\xc3")
    assert (whole.name, whole.piece) == ("t2", b"t2")


def test_forbidden_tokens_are_among_no_likeliest_ones() -> None:
    row = np.array([0, -np.inf, 1], dtype=np.float32)
    assert likeliest(row, 3).tolist() == [2, 0]
    assert log_sum_exp(row) == pytest.approx(np.log(1 + np.e))
