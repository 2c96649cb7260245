"""How much is drafted: by what guesses turned out to be worth, and never at a great loss."""

from __future__ import annotations

from random import Random

import pytest

from spec_cli.spec.costs import PassTimes
from spec_cli.spec.interfaces import NO_DRAFT, Draft, Evidence, Source
from spec_cli.spec.meter import PassMeter
from spec_cli.spec.policy import MAX_LOSS, CostAware, FixedLength
from spec_cli.spec.survival import N_COPY_LEVELS, Survival, model_evidence

WIDTHS = tuple(range(1, 17))
FLAT = PassTimes(WIDTHS, (1.0,) * 16)
STEEP = PassTimes(WIDTHS, tuple(0.5 + 0.5 * w for w in WIDTHS))


class Desk:
    """Rounds on a policy with a draft model, at exact prices.

    As `drafters.model` does, the model scores what it would have guessed for the tokens that came
    without it, when it is used again.
    """

    def __init__(
        self, target: PassTimes, draft_s: float, *, may_drop: bool = True, read_s: float = 0.0
    ) -> None:
        """`read_s` is what each token takes that the draft model has to catch up with."""
        self.target = target
        self.draft = PassTimes((1, 10_001), (draft_s, draft_s + 10_000 * read_s))
        self.survival = Survival()
        self.policy = CostAware(
            PassMeter(target),
            PassMeter(self.draft),
            self.survival,
            widths=WIDTHS,
            may_drop=may_drop,
        )
        self.n_tokens = self.n_unseen = 0
        self._has_drafted = False
        self.seconds = 0.0
        self.first_loss = 0.0  # of the round in which the model was first used

    def round(self, confidence: float, *, right: bool) -> int:
        """One round in which every guess is made with `confidence`; the number checked."""
        plan = self.policy.plan(60, self.n_tokens, 1 + self.n_unseen)
        draft, seconds, k = NO_DRAFT, 0.0, 0
        if plan is not None:
            evidence: list[Evidence] = []
            while plan.wants_model():
                for _ in range(min(self.n_unseen, 63)):
                    self.survival.learn(model_evidence(confidence), accepted=right)
                seconds += self.draft(1 + self.n_unseen)
                self.n_unseen = 0
                evidence.append(model_evidence(confidence))
                plan.add(evidence[-1])
            draft = Draft((7,) * len(evidence), None, tuple(evidence))
            k = plan.keep()
        committed = (7,) * k + (8,) if right else (9,)
        seconds += self.target(k + 1)
        if draft.tokens and not self._has_drafted:
            self._has_drafted = True
            self.first_loss = seconds - len(committed) * self.target(1)
        self.policy.observe(draft, k, committed, seconds)
        self.n_tokens += len(committed)
        if not draft.tokens:
            self.n_unseen += len(committed)
        self.seconds += seconds
        return k

    @property
    def lost(self) -> float:
        """Seconds more than plain decoding would have taken."""
        return self.seconds - self.n_tokens * self.target(1)


def test_a_fixed_length_is_kept_but_for_the_room_left() -> None:
    policy = FixedLength(4)
    kept = [plan.keep() if (plan := policy.plan(r, 0, 1)) else 0 for r in (9, 4, 2, 0)]
    assert kept == [4, 4, 2, 0]


def test_sure_guesses_that_hold_fill_the_widest_pass() -> None:
    desk = Desk(FLAT, 0.02)
    assert [desk.round(0.999, right=True) for _ in range(30)][-1] == 15


def test_guesses_that_fail_are_no_longer_made() -> None:
    desk = Desk(STEEP, 0.2)
    checked = [desk.round(0.999, right=False) for _ in range(300)]
    assert any(checked[:20])
    assert sum(k > 0 for k in checked[40:]) <= 5


@pytest.mark.parametrize("draft_s", [0.05, 0.2, 0.4])
@pytest.mark.parametrize("target", [FLAT, STEEP], ids=["flat", "steep"])
@pytest.mark.parametrize("read_s", [0.0, 0.05])
@pytest.mark.parametrize("may_drop", [True, False])
def test_whatever_the_guesses_the_loss_is_bounded(
    target: PassTimes, draft_s: float, may_drop: bool, read_s: float
) -> None:
    """Guesses that are always wrong, by turns, at random, or right until they are trusted.

    What the model has to read after a pause counts as well.
    """
    random = Random(3)
    courses = {
        "wrong": lambda i: False,
        "by turns": lambda i: i % 40 < 20,
        "random": lambda i: random.random() < 0.5,
        "betrayed": lambda i: i < 100,
    }
    for right in courses.values():
        desk = Desk(target, draft_s, may_drop=may_drop, read_s=read_s)
        for i in range(400):
            desk.round(0.97, right=right(i))
            # The first round of the draft model reads the prompt, which is not counted.
            allowed = min(4, 0.15 * desk.n_tokens) + MAX_LOSS * desk.n_tokens
            assert desk.lost - desk.first_loss <= 0.5 + allowed


def test_drafting_comes_back_when_guesses_hold_again() -> None:
    desk = Desk(STEEP, 0.1)
    for _ in range(200):
        desk.round(0.97, right=False)
    checked = [desk.round(0.97, right=True) for _ in range(3000)]
    assert sum(k > 0 for k in checked[-100:]) > 80


def test_a_guess_that_was_dropped_unchecked_is_judged_by_the_text() -> None:
    desk = Desk(STEEP, 0.1)
    before = desk.survival.acceptance(model_evidence(0.4))
    desk.policy.plan(60, 5, 1)
    desk.policy.observe(Draft((7,), None, (model_evidence(0.4),)), 0, (7,), 1.0)
    assert desk.survival.acceptance(model_evidence(0.4)) > before


def test_guesses_after_a_wrong_one_are_not_judged() -> None:
    desk = Desk(FLAT, 0.1)
    sure, unsure = model_evidence(0.999), model_evidence(0.4)
    before = desk.survival.acceptance(sure)
    desk.policy.observe(Draft((7, 7), None, (unsure, sure)), 2, (9, 7), 1.0)
    assert desk.survival.acceptance(sure) == before


def test_a_plain_step_now_and_then_shows_what_one_takes() -> None:
    desk = Desk(FLAT, 0.02)
    checked = [desk.round(0.999, right=True) for _ in range(200)]
    assert 2 <= checked.count(0) <= 4


def test_a_model_that_does_not_pay_is_explained_with_numbers() -> None:
    desk = Desk(STEEP, 0.45)
    for _ in range(30):
        desk.round(0.4, right=False)
    assert desk.policy.idle_reason is not None
    assert "0.45 of a plain step to draft and 0.50 to check" in desk.policy.idle_reason
    assert "% of them are right" in desk.policy.idle_reason


def test_drafts_that_pay_need_no_reason() -> None:
    desk = Desk(FLAT, 0.05)
    desk.round(0.999, right=True)
    assert desk.policy.idle_reason is None


def test_no_room_is_a_plain_step() -> None:
    assert Desk(FLAT, 0.05).policy.plan(0, 5, 1) is None


def test_a_draft_model_that_must_read_a_long_prompt_is_not_started_for_a_short_answer() -> None:
    draft = PassMeter(PassTimes((1, 64), (0.1, 6.4)))
    policy = CostAware(PassMeter(STEEP), draft, Survival(), widths=WIDTHS)
    _write_plainly(policy)
    for n_behind, room, starts in ((20, 400, True), (2000, 400, False), (20, 3, False)):
        plan = policy.plan(room, 2000, n_behind)
        assert plan is not None and plan.wants_model() is starts


@pytest.mark.parametrize(("n_behind", "starts"), [(100, True), (160, False)])
def test_a_long_prompt_is_not_read_before_enough_was_written(n_behind: int, starts: bool) -> None:
    """A fifth of 64 plain steps is 12.8 seconds; the gain to come would repay more."""
    draft = PassMeter(PassTimes((1, 64), (0.02, 6.4)))
    policy = CostAware(PassMeter(FLAT), draft, Survival(), widths=WIDTHS)
    _write_plainly(policy)
    plan = policy.plan(4000, 200, n_behind)
    assert plan is not None and plan.wants_model() is starts


def test_rounds_of_copies_do_not_put_off_a_try_that_could_not_be_paid_yet() -> None:
    """A guess takes 12 plain steps: so much may be lost, if it comes to that, after 76 tokens."""
    draft = PassMeter(PassTimes((1, 64), (12.0, 12.0)))
    policy = CostAware(PassMeter(STEEP), draft, Survival(), widths=WIDTHS)
    copy = Evidence(Source.COPY, N_COPY_LEVELS - 1)
    n_tokens = 0
    for i in range(100):
        plan = policy.plan(60, n_tokens, 1)
        assert plan is not None
        k = plan.take([copy], or_model=True) if i % 4 == 0 else 0
        if plan.wants_model():
            break
        committed = (7,) * k + (8,)
        policy.observe(Draft((7,) * k, None, (copy,) * k), k, committed, STEEP(k + 1))
        n_tokens += len(committed)
    assert n_tokens == 76


def _write_plainly(policy: CostAware) -> None:
    """Plain steps, until what drafting may lose is as much as it ever gets."""
    for _ in range(30):
        policy.observe(NO_DRAFT, 0, (1,), 1.0)
