"""The decoding loop for several texts: each drafts for itself, one target pass verifies them all.

A pass reads the target's weights once, however many texts it serves; with one text most of its
time goes into that. What `engine.Decoder` does for one text is done here for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul

from spec_cli.engine import commit, count_round
from spec_cli.errors import SpecError
from spec_cli.spec.interfaces import (
    NO_DRAFT,
    AcceptanceRule,
    Draft,
    Drafter,
    Logits,
    SequenceModel,
)
from spec_cli.spec.meter import PassMeter
from spec_cli.spec.prefix import common_prefix
from spec_cli.spec.rounds import FixedRound
from spec_cli.spec.shapes import ParallelPlan, best_width
from spec_cli.spec.stats import RoundCount, RunStats
from spec_cli.spec.survival import Survival
from spec_cli.text import Output

_PAD = 0  # any token will do: its row is dropped, and earlier rows cannot see it
_MIN_COPIED = 32  # tokens of a prompt; fewer are read as fast as a cache is copied


@dataclass(slots=True)
class Text:
    """A text that is being generated: `context` is the prompt and what was committed after it.

    `drafter` must need no passes of its own. `survival` is what it has learned of its guesses.
    `error` is why the text cannot go on, where that is so.
    """

    context: list[int]
    output: Output
    rule: AcceptanceRule
    drafter: Drafter
    survival: Survival
    stats: RunStats = field(default_factory=RunStats)
    error: SpecError | None = None

    def __post_init__(self) -> None:
        self.stats.n_prompt = len(self.context)

    def survivals(self, draft: Draft) -> list[float]:
        """The probabilities that the first guess of `draft` holds, its first two, and so on."""
        return list(accumulate(map(self.survival.acceptance, draft.evidence), mul))

    def propose(self, k: int) -> Draft:
        """Up to `k` guesses; none where there is an error."""
        try:
            return self.drafter.propose(self.context, FixedRound(k)) if k else NO_DRAFT
        except SpecError as error:
            self.error = error
            return NO_DRAFT

    def commit(self, draft: Draft, rows: Logits) -> RoundCount:
        """Judge a draft by the target's rows, and commit what holds; nothing if that fails."""
        try:
            if self.error is None:
                return self._commit(draft, rows)
        except SpecError as error:
            self.error = error
        return RoundCount(0, 0, 0)

    def _commit(self, draft: Draft, rows: Logits) -> RoundCount:
        verdict = self.rule.verify(rows[: len(draft.tokens) + 1], draft, self.context)
        origins = commit(verdict.tokens, draft, self.context, self.output)
        self.drafter.commit(self.context)
        return count_round(draft, verdict, origins)

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes."""
        return self.output.finish_reason is not None or self.error is not None


class ParallelDecoder:
    """Generates several texts from one target; texts join when a place is free.

    Invariants, true whenever a round is not running, for the text in each place:

    I1  The target's sequence of that place has evaluated all of `context` but the last token.
    I2  The drafter knows no token but those of `context`.

    Which tokens a pass commits to a text is decided by the text's own rule, from the target's
    logits for that text: the other texts decide nothing.
    """

    def __init__(
        self,
        target: SequenceModel,
        plan: ParallelPlan,
        meter: PassMeter,
        *,
        draft_tokens: int | None,
        clock: Callable[[], float],
    ) -> None:
        """`draft_tokens` is the fixed draft length; None: what is expected to gain most."""
        self._target, self._plan, self._meter = target, plan, meter
        self._draft_tokens = draft_tokens
        self._clock = clock
        self._texts: dict[int, Text] = {}
        # What the sequence of each place has read of a prompt; kept when the text has ended.
        self._read: list[Sequence[int]] = [()] * target.n_sequences

    @property
    def n_texts(self) -> int:
        """How many texts are being generated."""
        return len(self._texts)

    def join(self, text: Text) -> None:
        """Read the prompt of a new text; what it shares with one that was read is copied.

        Raises Cancelled or ResourceError.
        """
        started = self._clock()
        place = min(place for place in range(len(self._read)) if place not in self._texts)
        prompt, n_batch = text.context[:-1], self._target.n_batch
        n_reused = self._reuse(place, prompt)
        self._read[place] = prompt[:n_reused]  # and no more, if reading is stopped
        for start in range(n_reused, len(prompt), n_batch):
            self._target.read(place, prompt[start : start + n_batch])
        self._read[place] = prompt
        text.drafter.begin(text.context)
        text.stats.prefill_s = self._clock() - started
        self._texts[place] = text

    def round(self) -> list[tuple[Text, RoundCount]]:
        """Draft for each text, verify all drafts in one target pass, commit what holds.

        Texts that have ended leave their places. An error in one of them ends that one alone.
        Raises Cancelled or ResourceError.
        """
        began = self._clock()
        n_places = self._plan.n_texts_in(max(self._texts) + 1)
        drafts = self._propose(max(self._plan.widths(n_places)))
        width = self._choose_width(n_places, drafts)
        drafts = {place: draft.first(width - 1) for place, draft in drafts.items()}
        drafted = self._clock()
        rows = self._target.eval([self._input(i, drafts, width) for i in range(n_places)])
        verified = self._clock()
        self._meter.observe(n_places * width, self._n_past, verified - drafted)
        counts = {place: self._texts[place].commit(drafts[place], rows[place]) for place in drafts}
        for place in range(n_places):
            self._roll_back(place)
        host_s = self._clock() - verified
        return [
            self._account(place, counts[place], drafted - began, verified - drafted, host_s)
            for place in counts
        ]

    def _propose(self, widest: int) -> dict[int, Draft]:
        """The draft of each text, for a pass in which each has up to `widest` rows."""
        drafts = {}
        for place, text in self._texts.items():
            k = min(widest, text.output.room) - 1
            k = k if self._draft_tokens is None else min(k, self._draft_tokens)
            drafts[place] = text.propose(k)
        return drafts

    def _choose_width(self, n_places: int, drafts: Mapping[int, Draft]) -> int:
        """How many rows each text gets."""
        widths = self._plan.widths(n_places)
        if self._draft_tokens is not None:
            n_rows = 1 + max(len(draft.tokens) for draft in drafts.values())
            return min(width for width in widths if width >= n_rows)
        survivals = [self._texts[place].survivals(draft) for place, draft in drafts.items()]
        n_past = self._n_past
        return best_width(
            widths, survivals, lambda width: self._meter.seconds(n_places * width, n_past)
        )

    def _input(self, place: int, drafts: Mapping[int, Draft], width: int) -> list[int]:
        """The tokens of a place in a pass; where there are too few, their rows are thrown away."""
        tokens = [self._texts[place].context[-1], *drafts[place].tokens] if place in drafts else []
        return tokens + [_PAD] * (width - len(tokens))

    def _roll_back(self, place: int) -> None:
        """Forget what was rejected, and padding; of a free place all but the prompt it has read."""
        text = self._texts.get(place)
        kept = len(self._read[place]) if text is None else len(text.context) - 1
        self._target.rollback(place, kept)

    def _account(
        self, place: int, count: RoundCount, draft_s: float, verify_s: float, host_s: float
    ) -> tuple[Text, RoundCount]:
        """Count a round for its text, which shares the times with the others; let it leave."""
        text = self._texts[place]
        text.stats.add_round(count, draft_s=draft_s, verify_s=verify_s, host_s=host_s)
        if text.has_ended:
            del self._texts[place]
        return text, count

    def _reuse(self, place: int, prompt: Sequence[int]) -> int:
        """Leave in the cache of a place what `prompt` begins with; how many tokens that is."""
        shared = [self._n_shared(read, prompt) for read in self._read]
        source = max(range(len(shared)), key=lambda i: (shared[i], i == place))
        if source != place and shared[source] < _MIN_COPIED:
            source = place
        if source != place:
            self._target.copy(source, place)
        self._target.rollback(place, shared[source])
        return shared[source]

    def _n_shared(self, read: Sequence[int], prompt: Sequence[int]) -> int:
        """How many tokens of a prompt that was read are those of `prompt`, with the same bits.

        Whole passes of both are the same; parts of one only where the plan says so.
        """
        n = common_prefix(read, prompt)
        return n if self._plan.shares_prefixes else n - n % self._target.n_batch

    @property
    def _n_past(self) -> int:
        """The mean length of the texts."""
        return sum(len(text.context) for text in self._texts.values()) // len(self._texts)
