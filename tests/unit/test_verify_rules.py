"""The check of the acceptance rules: right rules pass, wrong ones do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from spec_cli.errors import Cancelled
from spec_cli.spec import acceptance
from spec_cli.spec.acceptance import MatchRule
from spec_cli.spec.interfaces import Draft, Logits, Verdict
from spec_cli.spec.settings import Accept
from spec_cli.verify.chisquare import ChiSquare
from spec_cli.verify.rows import RowPair, likeliest, most_contested, positions
from spec_cli.verify.rules import FALSE_ALARM, SAMPLINGS, RuleCheck, check_rules

N_ROUNDS = 600


def row_pair(seed: int = 0, n: int = 5, noise: float = 1.5) -> RowPair:
    rng = np.random.default_rng(seed)
    target = rng.normal(scale=1.5, size=(2, n)).astype(np.float32)
    draft = (target + rng.normal(scale=noise, size=(2, n))).astype(np.float32)
    return RowPair("toy", seed, target, draft)


def checks(*pairs: RowPair, seed: int = 1) -> tuple[RuleCheck, ...]:
    rows = pairs or (row_pair(),)
    return check_rules(rows, seed, N_ROUNDS, lambda: False, lambda what, fraction: None)


def failed(found: tuple[RuleCheck, ...]) -> set[Accept]:
    return {check.accept for check in found if not check.passes(len(found))}


def test_right_rules_pass_and_are_compared_on_every_pair() -> None:
    found = checks(row_pair(1), row_pair(2))
    assert failed(found) == set()
    cells = [(check.accept, check.sampling, check.position) for check in found]
    assert cells == [(a, s, p) for a in Accept for s in SAMPLINGS for p in (1, 2)]
    assert all(check.n_drafted == 2 * N_ROUNDS for check in found)
    assert all(0 < check.n_accepted < check.n_drafted for check in found)
    assert any(check.test.degrees_of_freedom > 5 for check in found)


def test_block_accepts_most_and_coupled_no_more_than_rejection() -> None:
    n_accepted = {c.accept: c.n_accepted for c in checks() if c.sampling == "unfiltered"}
    assert n_accepted[Accept.BLOCK] > n_accepted[Accept.REJECTION] > n_accepted[Accept.COUPLED]


def test_the_same_seed_gives_the_same_figures() -> None:
    first = checks()
    assert checks() == first
    assert checks(seed=2) != first


def test_equal_models_are_accepted_always_by_every_rule() -> None:
    pair = row_pair(noise=0.0)
    assert all(check.n_accepted == check.n_drafted for check in checks(pair))


def always_p(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptance, "residual", lambda p, q, scale=1.0: p)


def token_by_token_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptance, "prefix_acceptance", lambda s, z: s)


def draft_kept_at_will(monkeypatch: pytest.MonkeyPatch) -> None:
    verify = MatchRule.verify

    def lenient(self: MatchRule, rows: Logits, draft: Draft, context: range) -> Verdict:
        if draft.tokens and rows[0][draft.tokens[0]] > rows[0].max() - 1:
            return Verdict((*draft.tokens[:1], *verify(self, rows[1:], Draft(), context).tokens))
        return verify(self, rows, draft, context)

    monkeypatch.setattr(MatchRule, "verify", lenient)


def draft_of_other_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes what is accepted, not what comes out: the target's choice decides."""
    draw = MatchRule.draw
    monkeypatch.setattr(
        MatchRule,
        "draw",
        lambda self, row, at, history: draw(self, row, at + 7, history),
    )


@pytest.mark.parametrize(
    ("break_it", "wrong"),
    [
        (always_p, {Accept.REJECTION, Accept.BLOCK}),
        (token_by_token_block, {Accept.BLOCK}),
        (draft_kept_at_will, {Accept.COUPLED}),
        (draft_of_other_noise, set()),
    ],
)
def test_a_wrong_rule_fails_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
    break_it: Callable[[pytest.MonkeyPatch], None],
    wrong: set[Accept],
) -> None:
    break_it(monkeypatch)
    assert failed(checks()) == wrong


def test_the_limit_is_shared_by_all_checks() -> None:
    check = RuleCheck(Accept.BLOCK, "default", "toy", 0, 1, 2, 1, ChiSquare(9, 1, FALSE_ALARM / 8))
    assert not check.passes(1)
    assert not check.passes(7)
    assert check.passes(8)


def test_it_stops_when_asked_to() -> None:
    with pytest.raises(Cancelled):
        check_rules([row_pair()], 1, 5, lambda: True, lambda what, fraction: None)


def test_rows_are_cut_to_the_likeliest_ids_of_any_of_them() -> None:
    rng = np.random.default_rng(0)
    target, draft = rng.normal(size=(2, 2, 1000)).astype(np.float32)
    ours, theirs = likeliest(target, draft)
    assert ours.shape == theirs.shape and 100 < ours.shape[1] <= 400
    for cut, whole in zip((*ours, *theirs), (*target, *draft), strict=True):
        assert np.isin(np.sort(whole)[-100:], cut).all()
    small = row_pair()
    np.testing.assert_array_equal(likeliest(small.target, small.draft), (small.target, small.draft))


def test_rows_where_the_models_partly_agree_come_first() -> None:
    same, near, far = row_pair(noise=0), row_pair(noise=1), row_pair(noise=30)
    assert most_contested([same, far, near])[0] is near
    assert same.contest == pytest.approx(0, abs=1e-6)
    assert len(most_contested([near] * 9)) == 4


@pytest.mark.parametrize(
    ("n_tokens", "expected"), [(0, []), (1, []), (2, [1]), (4, [1, 2, 3]), (64, [16, 32, 48])]
)
def test_positions_lie_within_the_text(n_tokens: int, expected: list[int]) -> None:
    assert positions(n_tokens) == expected
