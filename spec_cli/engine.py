"""The decoding loop: propose, verify, commit, roll back.

Plain decoding is this loop with a drafter that proposes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from spec_cli.errors import Cancelled, UsageError
from spec_cli.events import (
    DraftingOff,
    Event,
    Finished,
    FinishReason,
    Origin,
    PromptProgress,
    RoundDetail,
    RoundDone,
    ScoredToken,
    TokensScored,
)
from spec_cli.spec.counts import counted
from spec_cli.spec.interfaces import (
    NO_DRAFT,
    AcceptanceRule,
    Draft,
    Drafter,
    LanguageModel,
    Logits,
    Verdict,
)
from spec_cli.spec.policy import Policy
from spec_cli.spec.rounds import Round
from spec_cli.spec.stats import RoundCount, RunStats
from spec_cli.text import Output


@dataclass(frozen=True, slots=True)
class Verified:
    """One round: what was drafted and committed, and how long its two parts took, in seconds."""

    detail: RoundDetail
    count: RoundCount
    draft_s: float
    verify_s: float
    scores: tuple[ScoredToken, ...]


class Decoder:
    """Generates text from a target model with the help of a drafter.

    Invariants, true whenever a round is not running:

    I1  `context` is the committed sequence; the target has evaluated all of it but the last token.
    I2  The drafter knows no token but those of `context` (see `drafters.model`).

    Whatever a generation leaves in the target, the next one keeps the part of it that its own
    prompt begins with: the target itself knows which tokens it has evaluated.

    Which tokens a pass commits is decided by `rule`, from the target's logits: the drafter and
    the policy decide how many it can commit.
    """

    def __init__(
        self,
        target: LanguageModel,
        drafter: Drafter,
        rule: AcceptanceRule,
        policy: Policy,
        *,
        clock: Callable[[], float],
        cancelled: Callable[[], bool] = lambda: False,
        score: Callable[[Logits, int], ScoredToken] | None = None,
    ) -> None:
        """`score` scores each committed token by the logits of its place."""
        self._target = target
        self._drafter = drafter
        self._rule = rule
        self._policy = policy
        self._clock = clock
        self._cancelled = cancelled
        self._score = score

    def generate(
        self,
        prompt: Sequence[int],
        output: Output,
        *,
        plain_step_s: Callable[[int], float] | None = None,
    ) -> Iterator[Event]:
        """Generate after `prompt` until `output` ends it, the context is full, or cancelled.

        `plain_step_s` tells what a plain step takes now after so many tokens, for the estimated
        speed-up.
        Raises UsageError when the prompt is empty or does not fit the context.
        """
        self._check(prompt)
        started = self._clock()
        context = list(prompt)
        n_cached = self._target.keep(context[:-1])
        stats = RunStats(n_prompt=len(prompt), n_cached=n_cached)
        try:
            for progress in self._prefill(context):
                stats.prefill_s = self._clock() - started
                yield progress
            self._drafter.begin(context)
            while (room := self._room(context, output)) and not self._cancelled():
                began = self._clock()
                # The first token waits for no drafter.
                plan = self._plan(context, room) if stats.n_rounds else None
                verified = self._round(context, plan, output)
                ended = self._clock()
                detail, n_checked = verified.detail, verified.count.n_drafted
                self._policy.observe(detail.draft, n_checked, detail.committed, ended - began)
                if plain_step_s:
                    stats.plain_step_estimate_s = plain_step_s(len(context))
                if stats.ttft_s is None:
                    stats.ttft_s = ended - started
                yield _account(stats, verified, elapsed_s=ended - began)
                if verified.scores:
                    yield TokensScored(verified.scores)
                yield from output.drain()
            if output.finish_reason is None:
                output.finish(FinishReason.INTERRUPTED if room else FinishReason.LENGTH)
        except Cancelled:
            output.finish(FinishReason.INTERRUPTED)
        yield from output.drain()
        if not stats.n_drafted and (reason := self._policy.idle_reason):
            yield DraftingOff(reason)
        assert output.finish_reason is not None
        yield Finished(output.finish_reason, tuple(output.tokens), stats, output.stop)

    def _plan(self, context: Sequence[int], room: int) -> Round | None:
        """What the policy wants drafted, where `room` tokens may still be committed."""
        k_max = min(room, self._target.n_batch) - 1
        return self._policy.plan(k_max, len(context), self._drafter.n_behind(context))

    def _round(self, context: list[int], plan: Round | None, output: Output) -> Verified:
        """Draft as planned, verify what is worth it in one target pass, commit what holds."""
        started = self._clock()
        drafted = self._drafter.propose(context, plan) if plan else NO_DRAFT
        draft = drafted.first(plan.keep()) if plan else NO_DRAFT
        drafted_at = self._clock()
        rows = self._target.eval((context[-1], *draft.tokens))
        verified_at = self._clock()
        n_before = len(context)
        verdict = self._rule.verify(rows, draft, context)
        origins = commit(verdict.tokens, draft, context, output)
        committed = tuple(context[n_before:])
        scores = self._scores(rows, committed)
        self._target.rollback(len(context) - 1)
        self._drafter.commit(context)
        count = count_round(draft, verdict, origins)
        detail = RoundDetail(
            position=n_before,
            draft=drafted,
            committed=committed,
            origins=origins,
            n_near_ties=count.n_near_ties,
            n_expected=plan.expected(len(draft.tokens)) if plan else None,
        )
        return Verified(detail, count, drafted_at - started, verified_at - drafted_at, scores)

    def _scores(self, rows: Logits, tokens: Sequence[int]) -> tuple[ScoredToken, ...]:
        """Of the committed tokens, each by its row."""
        if self._score is None:
            return ()
        return tuple(self._score(row, token) for row, token in zip(rows, tokens, strict=False))

    def _prefill(self, prompt: Sequence[int]) -> Iterator[PromptProgress]:
        """Evaluate what is missing of the prompt, short of its last token; no logits are needed."""
        end = len(prompt) - 1
        for start in range(self._target.n_past, end, self._target.n_batch):
            if self._cancelled():
                raise Cancelled
            chunk = prompt[start : min(start + self._target.n_batch, end)]
            self._target.eval(chunk, n_rows=0)
            yield PromptProgress(self._target.n_past, len(prompt))

    def _room(self, context: Sequence[int], output: Output) -> int:
        """How many tokens may still be committed: one more than the context has cells for."""
        return min(output.room, self._target.n_ctx + 1 - len(context))

    def _check(self, prompt: Sequence[int]) -> None:
        if not prompt:
            raise UsageError("the prompt has no tokens")
        if len(prompt) > self._target.n_ctx:
            raise UsageError(
                f"the prompt has {counted(len(prompt), 'token')}, but the context holds "
                f"{self._target.n_ctx:,}",
                hint=f"shorten the prompt, or use `--ctx-size {len(prompt) + 256}` or more",
            )


def commit(
    tokens: Sequence[int], draft: Draft, context: list[int], output: Output
) -> tuple[Origin, ...]:
    """Append the `tokens` of a verdict, as far as `output` goes on; where each came from."""
    origins = []
    for i, token in enumerate(tokens):
        is_last = i == len(tokens) - 1
        origins.append(_origin_of_last(draft, i) if is_last else Origin.DRAFT)
        context.append(token)
        output.push(token, origins[i])
        if output.finish_reason:
            break
    return tuple(origins)


def count_round(draft: Draft, verdict: Verdict, origins: Sequence[Origin]) -> RoundCount:
    """What a round did that committed tokens of these `origins`, the first ones of its verdict."""
    n_emitted = len(origins)
    n_near_ties = sum(verdict.near_ties[:n_emitted])
    return RoundCount(len(draft.tokens), origins.count(Origin.DRAFT), n_emitted, n_near_ties)


def _origin_of_last(draft: Draft, n_accepted: int) -> Origin:
    """Where the one token after the accepted ones came from."""
    if not draft.tokens:
        return Origin.PLAIN
    return Origin.BONUS if n_accepted == len(draft.tokens) else Origin.CORRECTION


def _account(stats: RunStats, verified: Verified, *, elapsed_s: float) -> RoundDone:
    count, draft_s, verify_s = verified.count, verified.draft_s, verified.verify_s
    host_s = elapsed_s - draft_s - verify_s
    stats.add_round(count, draft_s=draft_s, verify_s=verify_s, host_s=host_s)
    return RoundDone(
        index=stats.n_rounds - 1,
        width=count.n_drafted + 1,
        n_drafted=count.n_drafted,
        n_accepted=count.n_accepted,
        n_emitted=count.n_emitted,
        draft_s=draft_s,
        verify_s=verify_s,
        host_s=host_s,
        detail=verified.detail,
        plain_step_s=stats.plain_step_estimate_s,
    )
