"""Two models side by side: what decides whether they make a pair, and what is told besides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from spec_cli.errors import PairError
from spec_cli.events import Notice
from spec_cli.gguf import Header, Vocabulary
from spec_cli.pairing import PairReport, check_pair, differences


@dataclass(frozen=True, slots=True)
class Aspect:
    """One property of both models; None where a file says nothing."""

    name: str
    target: str | int | None
    draft: str | int | None


@dataclass(frozen=True, slots=True)
class Compatibility:
    """The aspects, how many of the token ids that both have stand for equal texts, and the outcome.

    `report` where the models make a pair, else `problem`.
    """

    aspects: tuple[Aspect, ...]
    n_common_ids: int
    n_equal_ids: int
    report: PairReport | None
    problem: PairError | None

    @property
    def notes(self) -> tuple[Notice, ...]:
        """What differs without harm, or only costs speed."""
        return self.report.notes if self.report else ()


def compare(target: Header, draft: Header) -> Compatibility:
    """Compare two models by their headers."""
    n_common = min(len(target.vocab.tokens), len(draft.vocab.tokens))
    n_equal = n_common - sum(1 for _ in differences(target.vocab, draft.vocab))
    aspects = tuple(a for a in _aspects(target, draft) if (a.target, a.draft) != (None, None))
    try:
        return Compatibility(aspects, n_common, n_equal, check_pair(target, draft), None)
    except PairError as error:
        return Compatibility(aspects, n_common, n_equal, None, error)


def _aspects(target: Header, draft: Header) -> Iterator[Aspect]:
    def both(name: str, value: Callable[[Header], str | int | None]) -> Aspect:
        return Aspect(name, value(target), value(draft))

    yield both("file", lambda model: model.path.name)
    yield both("architecture", lambda model: model.architecture)
    yield both("quant", lambda model: model.quant)
    yield both("parameters", lambda model: model.n_params)
    yield both("tokenizer", lambda model: model.vocab.model)
    yield both("pre-tokenizer", lambda model: model.vocab.pre)
    yield both("tokens", lambda model: len(model.vocab.tokens))
    yield both("BOS", lambda model: _special(model.vocab, model.vocab.bos_id))
    yield both("EOS", lambda model: _special(model.vocab, model.vocab.eos_id))
    yield both("EOT", lambda model: _special(model.vocab, model.vocab.eot_id))
    yield both("PAD", lambda model: _special(model.vocab, model.vocab.pad_id))
    yield both("context", lambda model: model.context_length)
    yield both("chat template", _template)


def _special(vocab: Vocabulary, token: int | None) -> str | None:
    return None if token is None else f"{token} {vocab.text(token)}"


def _template(model: Header) -> str:
    return "yes" if model.chat_template else "no"
