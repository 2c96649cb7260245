"""Generates each plain text once and each speculative one, and compares them token for token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random

from spec_cli.arms import Arm
from spec_cli.drafters.random import RandomDrafter
from spec_cli.errors import Cancelled
from spec_cli.events import Finished, FinishReason, TextDelta
from spec_cli.prompts import NamedPrompt
from spec_cli.session import Session
from spec_cli.settings import DrafterKind, GenerationSettings
from spec_cli.spec.stats import RunStats
from spec_cli.verify.archive import Archive
from spec_cli.verify.comparison import Comparison, Text
from spec_cli.verify.difference import Difference, Judge, end_difference, rule_of
from spec_cli.verify.matrix import ArmDrafter, Cell, Matrix
from spec_cli.verify.recorder import Departure, Recorder


class Comparer:
    """Works through a matrix on a prepared session; what the archive knows is not run again.

    `prompts` are token ids by the prompt's id. Raises Cancelled, and what Session raises.
    """

    def __init__(
        self,
        session: Session,
        matrix: Matrix,
        prompts: Mapping[str, Sequence[int]],
        archive: Archive,
        progress: Callable[[str, float | None], None],
    ) -> None:
        self._session, self._matrix = session, matrix
        self._prompts, self._archive, self._progress = prompts, archive, progress

    def run(self) -> Iterator[Comparison]:
        """Every comparison, in an order that is spread over the matrix."""
        cells = self._matrix.shuffled()
        for i, cell in enumerate(cells):
            comparison = self._archive.comparison(cell)
            if comparison is None:
                self._progress(f"{i + 1}/{len(cells)}: {_name(cell)}", i / len(cells))
                comparison = self._compare(cell)
                self._archive.add_comparison(comparison)
            yield comparison

    def plain(self, prompt: NamedPrompt, temp: float) -> Text:
        """The text of plain decoding, generated when it is first asked for."""
        text = self._archive.plain(prompt, temp)
        if text is None:
            generation = self._matrix.generation(temp)
            arm = self._session.arm(generation, None, DrafterKind.NONE)
            text, _ = self._generate(prompt, generation, arm)
            self._archive.add_plain(prompt, temp, text)
        return text

    def _compare(self, cell: Cell) -> Comparison:
        plain = self.plain(cell.prompt, cell.temp)
        generation = self._matrix.generation(cell.temp)
        recorder = self._recorder(cell, plain.tokens)
        draft_tokens = cell.draft_tokens
        if cell.drafter is ArmDrafter.RANDOM and draft_tokens is None:
            draft_tokens = self._session.k_max  # a policy finds such drafts worth nothing
        arm = self._session.arm(generation, draft_tokens, cell.drafter.kind, recorder)
        if cell.drafter is ArmDrafter.RANDOM:
            random = Random(f"{self._matrix.seed} {_name(cell)}")
            drafter = RandomDrafter(plain.tokens, self._session.model.n_vocab, random)
            arm = replace(arm, drafter=drafter)
        text, stats = self._generate(cell.prompt, generation, arm)
        return Comparison(
            cell,
            n_tokens=len(plain.tokens),
            n_passes=stats.n_rounds,
            n_drafted=stats.n_drafted,
            n_accepted=stats.n_accepted,
            max_width=1 + len(stats.drafted_at),
            difference=self._difference(cell, plain, text, recorder.departure),
        )

    def _difference(
        self, cell: Cell, plain: Text, text: Text, departure: Departure | None
    ) -> Difference | None:
        if text == plain:
            return None
        if departure is None:
            return end_difference(plain.tokens, text.tokens)
        at = departure.position
        generation = replace(self._matrix.generation(cell.temp), max_tokens=at + 1)
        # Plain decoding, run again, leaves the text that has the other token there.
        recorder = self._recorder(cell, (*plain.tokens[:at], departure.token))
        arm = self._session.arm(generation, None, DrafterKind.NONE, recorder)
        self._generate(cell.prompt, generation, arm)
        n_context = len(self._prompts[cell.prompt.id]) + at
        judge = Judge(generation, self._session.plan, n_context)
        return judge.difference(plain.tokens[at], departure, recorder.departure)

    def _recorder(self, cell: Cell, known: Sequence[int]) -> Recorder:
        rule = rule_of(self._matrix.generation(cell.temp))
        return Recorder(rule, n_prompt=len(self._prompts[cell.prompt.id]), known=known)

    def _generate(
        self, prompt: NamedPrompt, generation: GenerationSettings, arm: Arm
    ) -> tuple[Text, RunStats]:
        self._session.forget_text()  # every text is made from its whole prompt
        *events, finished = self._session.generate(self._prompts[prompt.id], generation, arm)
        assert isinstance(finished, Finished)
        if finished.reason is FinishReason.INTERRUPTED:
            raise Cancelled
        text = "".join(event.text for event in events if isinstance(event, TextDelta))
        return Text(finished.tokens, text, finished.reason), finished.stats


def _name(cell: Cell) -> str:
    k = "auto" if cell.draft_tokens is None else cell.draft_tokens
    return f"{cell.prompt.id}, temp {cell.temp:g}, {cell.drafter} k={k}"
