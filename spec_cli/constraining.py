"""What the settings of a generation forbid, in the tokens of one model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf

from spec_cli.errors import UsageError
from spec_cli.events import Finished, FinishReason, Notice
from spec_cli.grammar.gbnf import parse_gbnf
from spec_cli.llama.grammar import GrammarEngine
from spec_cli.llama.model import LlamaModel
from spec_cli.llama.pieces import PieceTree
from spec_cli.settings import GenerationSettings
from spec_cli.spec.constraint import ConstrainedText
from spec_cli.spec.sampling import SamplingSettings


class Constraining:
    """Keeps what is costly: the tree of the model's tokens, and the last grammar."""

    def __init__(self, model: LlamaModel, clock: Callable[[], float]) -> None:
        self._model, self._clock = model, clock
        self._tree = PieceTree(model)
        self._engine: GrammarEngine | None = None

    def text(self, generation: GenerationSettings, n_prompt: int) -> ConstrainedText | None:
        """The text after `n_prompt` tokens that a grammar constrains, if there is one.

        Raises UsageError.
        """
        if generation.grammar is None:
            return None
        if self._engine is None or self._engine.grammar.source != generation.grammar:
            grammar = parse_gbnf(generation.grammar)
            self._engine = GrammarEngine(self._model, self._tree, grammar, self._clock)
        return ConstrainedText(self._engine.start, n_prompt)

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


def cut_notice(finished: Finished, text: ConstrainedText | None) -> Iterator[Notice]:
    """A notice where the answer was cut before its grammar was complete."""
    if text and finished.reason is FinishReason.LENGTH and not text.is_complete:
        yield Notice(
            f"the answer was cut after {len(finished.tokens)} tokens, before its grammar ends",
            "give it more room with `--max-tokens` and `--ctx-size`",
            "warning",
        )
