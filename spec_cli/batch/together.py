"""Answering several requests at once, in passes that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from spec_cli.batch.answer import Answer, Encode, Gathered, Outcome, prepared
from spec_cli.batch.request import Failure, Request
from spec_cli.errors import Cancelled, SpecError
from spec_cli.events import Finished, Notice
from spec_cli.parallel import ParallelDecoder, Text
from spec_cli.session import Session
from spec_cli.settings import DrafterKind, GenerationSettings
from spec_cli.spec.counts import counted
from spec_cli.spec.settings import MAX_ROWS
from spec_cli.spec.shapes import ParallelPlan
from spec_cli.spec.stats import RoundCount
from spec_cli.text import Opening

_MIN_CTX = 512


def parallel_plan(
    session: Session, n_texts: int, notify: Callable[[Notice], None]
) -> ParallelPlan | None:
    """How `n_texts` texts go together; None where they do not, and why is told.

    Raises ResourceError or Cancelled.
    """
    hint = None
    if session.model.is_recurrent:
        reason = "the target's memory is recurrent"
    elif session.has_learned_positions:
        reason = "the target has no position to spare for throw-away rows"
    elif session.settings.n_batch < MAX_ROWS:
        size = counted(session.settings.n_batch, "token")
        reason = f"a batch of {size} has no room for a shared pass"
    else:
        plan = session.parallel_plan(n_texts)
        if plan.serves(n_texts):
            return plan
        reason = f"passes over {n_texts} texts do not give the bits of passes over one here"
        hint = "use `--exact off` to answer them together anyway"
    notify(Notice(f"lines are answered one by one: {reason}", hint, "warning"))
    return None


@dataclass(slots=True)
class _Job:
    """A request whose text is being generated; `gathered` has it so far."""

    request: Request
    text: Text
    n_ctx: int
    gathered: Gathered = field(default_factory=Gathered)

    def gather(self) -> None:
        """Take the text that has become final."""
        for delta in self.text.output.drain():
            self.gathered.add(delta)

    def answer(self) -> Answer:
        """The whole of it."""
        self.gather()
        output, stats = self.text.output, self.text.stats
        assert output.finish_reason is not None
        finished = Finished(output.finish_reason, tuple(output.tokens), stats, output.stop)
        return self.gathered.answer(self.request, finished)


class Together:
    """Answers requests with a session, `n_texts` at a time, and gives the answers in order.

    Guesses are copies of earlier text; a draft model takes no part.
    """

    def __init__(
        self,
        session: Session,
        plan: ParallelPlan,
        n_texts: int,
        encode: Encode,
        *,
        is_ready: Callable[[], bool],
        cancelled: Callable[[], bool],
        watch: Callable[[RoundCount], None],
    ) -> None:
        """`is_ready` says whether the next request can be had at once; `watch` sees each round."""
        self._session, self._plan, self._n_texts = session, plan, n_texts
        self._encode, self._watch = encode, watch
        self._is_ready, self._cancelled = is_ready, cancelled
        self._decoder: ParallelDecoder | None = None
        self._n_ctx = 0
        self._jobs: list[_Job] = []
        self._waiting: _Job | None = None  # until the others are done, for a larger context
        self._outcomes: dict[int, Outcome] = {}  # whose turn has not come

    def answers(self, requests: Iterator[Request | Failure]) -> Iterator[Outcome]:
        """What becomes of each request. Raises ResourceError, ModelError or Cancelled."""
        turn: int | None = None
        is_over = False
        while not (is_over and not self._jobs and not self._waiting):
            if self._cancelled():
                raise Cancelled
            if self._waiting and not self._jobs:
                self._start(self._waiting)
            elif not is_over and self._can_take():
                request = next(requests, None)
                is_over = request is None
                if request is not None:
                    turn = request.index if turn is None else turn
                    self._take(request)
            else:
                self._round()
            while turn in self._outcomes:
                yield self._outcomes.pop(turn)
                turn += 1

    def _can_take(self) -> bool:
        """Whether there is a place for a request, and one to be had; else the others go on."""
        is_free = len(self._jobs) < self._n_texts and not self._waiting
        return is_free and (not self._jobs or self._is_ready())

    def _take(self, request: Request | Failure) -> None:
        """Start the request's text, or let it wait for a context that holds it."""
        if isinstance(request, Failure):
            self._outcomes[request.index] = request
            return
        try:
            job = self._job(request, *prepared(self._session, request, self._encode))
        except SpecError as error:
            self._outcomes[request.index] = _failure(request, error)
            return
        if job.n_ctx > self._n_ctx and self._jobs:
            self._waiting = job
        else:
            self._start(job)

    def _start(self, job: _Job) -> None:
        self._waiting = None
        if job.text.output.finish_reason:
            self._finish(job)
            return
        if self._decoder is None or job.n_ctx > self._n_ctx:
            trained = self._session.model.n_ctx_train
            self._n_ctx = max(job.n_ctx, min(trained, max(_MIN_CTX, 2 * self._n_ctx)))
            self._decoder = self._session.parallel(self._plan, self._n_texts, self._n_ctx)
        self._decoder.join(job.text)
        self._jobs.append(job)

    def _round(self) -> None:
        assert self._decoder is not None
        jobs = {id(job.text): job for job in self._jobs}
        for text, count in self._decoder.round():
            self._watch(count)
            job = jobs[id(text)]
            job.gather()
            if text.has_ended:
                self._jobs.remove(job)
                self._finish(job)

    def _finish(self, job: _Job) -> None:
        if job.text.error:
            self._outcomes[job.request.index] = _failure(job.request, job.text.error)
            return
        self._session.keep_answer(job.text.output.tokens)
        self._outcomes[job.request.index] = job.answer()

    def _job(
        self,
        request: Request,
        tokens: list[int],
        opening: Opening,
        generation: GenerationSettings,
    ) -> _Job:
        copies = self._session.kind in (DrafterKind.CHAIN, DrafterKind.NGRAM)
        kind = DrafterKind.NGRAM if copies else DrafterKind.NONE
        k = self._session.settings.draft_tokens
        arm = self._session.arm(generation, k, kind, n_prompt=len(tokens), opening=opening)
        output = self._session.output(generation, self._n_ctx, opening)
        n_ctx = len(tokens) + output.room
        return _Job(request, Text(tokens, output, arm.rule, arm.drafter, arm.survival), n_ctx)


def _failure(request: Request, error: SpecError) -> Failure:
    return Failure(request.index, request.key, request.id, error)
