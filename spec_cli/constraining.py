"""What the settings of a generation forbid, in the tokens of one model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf

from spec_cli.errors import UsageError
from spec_cli.events import Finished, FinishReason, Notice
from spec_cli.free_reasoning import FreeReasoning, ThinkingTokens
from spec_cli.grammar.gbnf import parse_gbnf
from spec_cli.llama.grammar import GrammarEngine, GrammarState
from spec_cli.llama.model import LlamaModel
from spec_cli.llama.pieces import PieceTree
from spec_cli.reasoning import Part, ReasoningFormat, ReasoningSplitter, Stage
from spec_cli.settings import GenerationSettings
from spec_cli.spec.constraint import ConstrainedText
from spec_cli.spec.counts import counted
from spec_cli.spec.interfaces import Constraint
from spec_cli.spec.settings import SamplingSettings
from spec_cli.text import Opening


class Constraining:
    """Makes the constraints of generations.

    What is costly to make is kept: the tree of the model's tokens, the last grammar, and the last
    format of reasoning.
    """

    def __init__(self, model: LlamaModel, clock: Callable[[], float]) -> None:
        self._model, self._clock = model, clock
        self._tree = PieceTree(model)
        self._engine: GrammarEngine | None = None
        self._thinking: ThinkingTokens | None = None

    def text(
        self, generation: GenerationSettings, n_prompt: int, opening: Opening
    ) -> ConstrainedText | None:
        """The text after `n_prompt` tokens that a grammar constrains, if there is one.

        The grammar is that of the answer: what `opening` has of it already counts, and the
        reasoning before it is free. Raises UsageError.
        """
        if generation.grammar is None:
            return None
        if self._engine is None or self._engine.grammar.source != generation.grammar:
            grammar = parse_gbnf(generation.grammar)
            self._engine = GrammarEngine(self._model, self._tree, grammar, self._clock)
        return ConstrainedText(self._start(self._engine.start, opening), n_prompt)

    def _start(self, start: GrammarState, opening: Opening) -> Constraint:
        """What may follow `opening`. Raises UsageError where it breaks the grammar."""
        if opening.reasoning is None:
            return _after(start, opening.given)
        marks, has_begun = opening.reasoning.marks, opening.reasoning.has_begun
        splitter = ReasoningSplitter(marks, has_begun=has_begun)
        stretches = splitter.push(opening.given)
        grammar: Constraint | None = None
        match splitter.stage:
            case Stage.ANSWER:
                return _after(start, "".join(s for part, s in stretches if part is Part.ANSWER))
            case Stage.ENDED:
                grammar = start
            case Stage.OPEN:
                state, n_read = start.read(splitter.held)
                grammar = state if n_read == len(splitter.held) else None
        tokens = self._thinking_tokens(opening.reasoning)
        return FreeReasoning(tokens, splitter, start=start, grammar=grammar)

    def _thinking_tokens(self, reasoning: ReasoningFormat) -> ThinkingTokens:
        if self._thinking is None or self._thinking.format.marks != reasoning.marks:
            self._thinking = ThinkingTokens(reasoning, self._tree.pieces, self._tree.ends)
        return self._thinking

    def sampling(self, generation: GenerationSettings) -> SamplingSettings:
        """As asked for, every end-of-generation token forbidden where the end is ignored.

        Raises UsageError for a bias of a token that the model lacks.
        """
        sampling = generation.sampling
        for token, _ in sampling.logit_bias:
            if token >= self._model.n_vocab:
                raise UsageError(
                    f"--logit-bias names token {token}, but the ids of this model end at "
                    f"{self._model.n_vocab - 1}"
                )
        if not generation.ignore_eos:
            return sampling
        ends = tuple((token, -inf) for token in self._model.ends)
        return replace(sampling, logit_bias=(*sampling.logit_bias, *ends))


def _after(start: GrammarState, given: str) -> GrammarState:
    """The state after the answer's given beginning. Raises UsageError where it is not allowed."""
    state, n_read = start.read(given)
    if n_read < len(given):
        place = f"come after {given[:n_read]!r}" if n_read else "be first"
        raise UsageError(
            f"the grammar refuses the prefill {given!r}: {given[n_read]!r} cannot {place}",
            hint="change `--prefill`, or leave it out",
        )
    return state


def cut_notice(finished: Finished, text: ConstrainedText | None) -> Iterator[Notice]:
    """A notice where the answer was cut before its grammar was complete."""
    if text and finished.reason is FinishReason.LENGTH and not text.is_complete:
        length = counted(len(finished.tokens), "token")
        yield Notice(
            f"the answer was cut after {length}, before its grammar ends",
            "give it more room with `--max-tokens` and `--ctx-size`",
            "warning",
        )
