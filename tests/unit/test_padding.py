"""Padded passes: they change no token, and where kernels differ by width they keep texts equal."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.errors import Cancelled
from spec_cli.events import FinishReason
from spec_cli.spec.acceptance import make_rule
from spec_cli.spec.costs import PassTimes
from spec_cli.spec.exactness import DEFAULT_KERNELS, ExactnessPlan, Widths
from spec_cli.spec.interfaces import Drafter, LanguageModel, Logits
from spec_cli.spec.padding import PaddedModel
from spec_cli.spec.settings import Accept, SamplingSettings
from tests.engine.fakes import EOG, ScriptedDrafter, TableLM
from tests.engine.generation import GREEDY, SAMPLED, Run, generate, model_drafter, ngram_drafter

PENALISED = SamplingSettings(temp=0.9, repeat_penalty=1.4, presence_penalty=0.3, repeat_last_n=5)
CLASSES = [(1, 2, 3), (4,), (8, 12, 16), tuple(range(2, 17)), tuple(range(1, 17))]
PROMPT = (1, 2, 3, 1, 4, 2, 1, 2, 3)
N_BATCH = 4


def plan(widths: Widths) -> ExactnessPlan:
    return ExactnessPlan(DEFAULT_KERNELS, widths, 0.0, 0.0, PassTimes((1,), (1.0,)))


class RecordingLM(TableLM):
    """A table that never ends a text, and remembers the width of each pass that gave rows."""

    def __init__(self, *, seed: int = 0, n_ctx: int = 64, n_batch: int = N_BATCH) -> None:
        super().__init__(seed=seed, n_ctx=n_ctx, n_batch=n_batch)
        self._table[..., EOG] = -1e9
        self.widths: list[int] = []
        self.chunks: list[int] = []

    def eval(self, tokens: Sequence[int], n_rows: int | None = None) -> Logits:
        (self.chunks if n_rows == 0 else self.widths).append(len(tokens))
        return super().eval(tokens, n_rows)


def by_width(width: int) -> int:
    """A kernel for 1 to 3 rows, one for 4, one for 8, 12 and 16; every other width is alone."""
    return {1: 0, 2: 0, 3: 0, 8: 8, 12: 8, 16: 8}.get(width, width)


class WidthSensitiveLM(RecordingLM):
    """A table whose passes are computed by kernels that round, here grossly, in their own way.

    What a kernel stored in the KV cache differs, too: a row depends on the kernel of its own pass
    and on those of the passes that evaluated the tokens before it.
    """

    def __init__(self, *, seed: int = 0, n_ctx: int = 64, n_batch: int = N_BATCH) -> None:
        super().__init__(seed=seed, n_ctx=n_ctx, n_batch=n_batch)
        self._seed = seed
        self._kernels: list[int] = []

    def eval(self, tokens: Sequence[int], n_rows: int | None = None) -> Logits:
        self._kernels += [by_width(len(tokens))] * len(tokens)
        return super().eval(tokens, n_rows)

    def rollback(self, n_past: int) -> None:
        super().rollback(n_past)
        del self._kernels[n_past:]

    def keep(self, tokens: Sequence[int]) -> int:
        n_past = super().keep(tokens)
        del self._kernels[n_past:]
        return n_past

    def row(self, context: Sequence[int]) -> Logits:
        history = zlib.crc32(bytes(self._kernels[: len(context)]))
        error = np.random.default_rng([self._seed, history]).normal(size=self.n_vocab)
        row: Logits = super().row(context) + error.astype(np.float32)
        return row


class Watched:
    """A padded table that is looked at after every call: its cache holds the tokens asked for."""

    def __init__(self, inner: TableLM, padded: PaddedModel) -> None:
        self.inner, self._padded = inner, padded
        self.n_vocab, self.n_ctx, self.n_batch = padded.n_vocab, padded.n_ctx, padded.n_batch
        self.tokens: list[int] = []

    @property
    def n_past(self) -> int:
        return self._padded.n_past

    def eval(self, tokens: Sequence[int], n_rows: int | None = None) -> Logits:
        rows = self._padded.eval(tokens, n_rows)
        self.tokens += tokens
        self._check()
        assert rows.shape == (0 if n_rows == 0 else len(tokens), self.n_vocab)
        return rows

    def rollback(self, n_past: int) -> None:
        self._padded.rollback(n_past)
        del self.tokens[n_past:]
        self._check()

    def keep(self, tokens: Sequence[int]) -> int:
        n_past = self._padded.keep(tokens)
        del self.tokens[n_past:]
        self._check()
        return n_past

    def _check(self) -> None:
        assert self.inner.kv == self.tokens
        assert self.n_past == len(self.tokens)


def padded(
    widths: Widths,
    kind: type[RecordingLM] = RecordingLM,
    *,
    seed: int = 0,
    n_ctx: int = 64,
    n_batch: int = N_BATCH,
) -> Watched:
    """A padded table with not one cell and not one place in the batch to spare."""
    inner = kind(seed=seed, n_ctx=n_ctx + widths[-1], n_batch=max(n_batch, widths[-1]))
    return Watched(inner, PaddedModel(inner, plan(widths), n_ctx=n_ctx, n_batch=n_batch))


def endless(seed: int = 0, *, n_ctx: int = 64) -> TableLM:
    """The bare table; its batch holds whatever is drafted in these tests."""
    return RecordingLM(seed=seed, n_ctx=n_ctx, n_batch=16)


Name = str
DRAFTERS: dict[Name, Callable[[int, SamplingSettings, Sequence[int]], Drafter | None]] = {
    "none": lambda seed, settings, text: None,
    "model": lambda seed, settings, text: model_drafter(
        TableLM(seed=seed, n_ctx=256), make_rule(Accept.COUPLED, settings, 7)
    ),
    "ngram": lambda seed, settings, text: ngram_drafter(),
    "right until it is wrong": lambda seed, settings, text: oracle(text),
}


def oracle(text: Sequence[int]) -> Drafter:
    """Drafts `text` itself, but every third token wrong."""

    def script(context: Sequence[int], k: int) -> list[int]:
        at = len(context) - len(PROMPT)
        return [
            1 + token % 4 if i % 3 == 2 else token
            for i, token in enumerate(text[at : at + k], start=at)
        ]

    return ScriptedDrafter(script)


def run(
    target: LanguageModel,
    drafter: Drafter | None = None,
    *,
    k: int = 3,
    settings: SamplingSettings = GREEDY,
    max_tokens: int = 20,
) -> Run:
    return generate(target, drafter, prompt=PROMPT, k=k, settings=settings, max_tokens=max_tokens)


@given(
    widths=st.sampled_from(CLASSES),
    drafter=st.sampled_from(sorted(DRAFTERS)),
    k=st.integers(1, 15),
    settings=st.sampled_from([GREEDY, SAMPLED, PENALISED]),
    max_tokens=st.integers(0, 30),
    n_ctx=st.integers(len(PROMPT), 36),
    n_batch=st.integers(1, 20),
    seed=st.integers(0, 20),
)
def test_a_padded_target_generates_what_the_bare_one_does(
    widths: Widths,
    drafter: Name,
    k: int,
    settings: SamplingSettings,
    max_tokens: int,
    n_ctx: int,
    n_batch: int,
    seed: int,
) -> None:
    bare = run(endless(seed, n_ctx=n_ctx), settings=settings, max_tokens=max_tokens)
    target = padded(widths, seed=seed, n_ctx=n_ctx, n_batch=n_batch)
    drafts = DRAFTERS[drafter](seed + 1, settings, bare.tokens)
    k = min(k, widths[-1] - 1)
    found = run(target, drafts, k=k, settings=settings, max_tokens=max_tokens)
    assert found.tokens == bare.tokens
    assert isinstance(target.inner, RecordingLM)
    assert set(target.inner.widths) <= set(widths)
    assert max(target.inner.chunks) <= n_batch


@pytest.mark.parametrize("widths", CLASSES)
@pytest.mark.parametrize("k", [0, 1, 2, 5, 15])
def test_each_pass_has_the_least_width_of_the_class_that_holds_it(widths: Widths, k: int) -> None:
    k = min(k, widths[-1] - 1)
    text = run(endless()).tokens
    target = padded(widths, n_batch=16)
    found = run(target, oracle(text), k=k)
    assert isinstance(target.inner, RecordingLM)
    wanted = [r.width for r in found.rounds]
    assert target.inner.widths == [min(w for w in widths if w >= n) for n in wanted]
    assert k == 0 or max(wanted) == k + 1  # drafts were checked


def test_the_chunks_of_the_prompt_are_evaluated_as_they_are() -> None:
    target = padded((16,))
    run(target, max_tokens=2)
    assert isinstance(target.inner, RecordingLM)
    assert target.inner.chunks == [4, 4]
    assert target.inner.widths == [16, 16]


@pytest.mark.parametrize("widths", CLASSES)
@pytest.mark.parametrize("k", [1, 2, 15])
@pytest.mark.parametrize("n_ctx", range(len(PROMPT), len(PROMPT) + 8))
def test_a_context_can_be_filled_to_its_last_cell(widths: Widths, k: int, n_ctx: int) -> None:
    text = run(endless(), max_tokens=30).tokens
    target = padded(widths, n_ctx=n_ctx)
    found = run(target, oracle(text), k=min(k, widths[-1] - 1), max_tokens=99)
    n_room = n_ctx + 1 - len(PROMPT)
    assert found.tokens == text[:n_room]
    assert found.finished.reason is FinishReason.LENGTH
    assert target.n_past == n_ctx


def test_the_sizes_that_are_told_are_those_without_padding() -> None:
    target = padded((4, 8), n_ctx=10, n_batch=2)
    assert (target.n_ctx, target.n_batch, target.n_vocab) == (10, 2, 5)


def test_rows_are_those_of_the_tokens_asked_for_and_of_no_others() -> None:
    bare, target = endless(), padded((8,))
    for tokens in ([1, 2, 3], [4], [1, 1, 2, 3, 4, 1, 2, 3]):
        assert np.array_equal(target.eval(tokens), bare.eval(tokens))
        assert np.array_equal(target.eval(tokens, n_rows=len(tokens)), bare.eval(tokens))


def test_rows_of_a_part_of_the_tokens_are_not_to_be_had() -> None:
    with pytest.raises(AssertionError):
        padded((8,)).eval([1, 2, 3], n_rows=1)


def test_a_pass_that_fails_leaves_no_padding_behind() -> None:
    class Stopped(RecordingLM):
        def eval(self, tokens: Sequence[int], n_rows: int | None = None) -> Logits:
            if len(tokens) == 8:
                raise Cancelled
            return super().eval(tokens, n_rows)

    target = padded((4, 8), Stopped)
    target.eval([1, 2, 3])
    with pytest.raises(Cancelled):
        target._padded.eval([1, 2, 3, 4, 1])
    assert target.n_past == 3 and target.inner.kv == [1, 2, 3]
    target.eval([4])


SENSITIVE_CLASSES = [(1, 2, 3), (4,), (8, 12, 16)]


@pytest.mark.parametrize("settings", [GREEDY, SAMPLED])
@pytest.mark.parametrize("drafter", ["model", "right until it is wrong"])
def test_without_padding_a_target_whose_kernels_differ_by_width_says_something_else(
    settings: SamplingSettings, drafter: Name
) -> None:
    n_different = 0
    for seed in range(10):
        plain = run(WidthSensitiveLM(seed=seed, n_batch=16), settings=settings)
        drafts = DRAFTERS[drafter](seed, settings, plain.tokens)
        found = run(WidthSensitiveLM(seed=seed, n_batch=16), drafts, k=4, settings=settings)
        n_different += found.tokens != plain.tokens
    assert n_different >= 8


@pytest.mark.parametrize("widths", SENSITIVE_CLASSES)
@pytest.mark.parametrize("drafter", [name for name in DRAFTERS if name != "none"])
@pytest.mark.parametrize("settings", [GREEDY, SAMPLED, PENALISED])
def test_padded_to_one_class_it_says_the_same_whatever_is_drafted(
    widths: Widths, drafter: Name, settings: SamplingSettings
) -> None:
    n_accepted = n_rejected = 0
    for seed in range(4):
        plain = run(padded(widths, WidthSensitiveLM, seed=seed, n_batch=16), settings=settings)
        for k in range(1, widths[-1]):
            drafts = DRAFTERS[drafter](seed, settings, plain.tokens)
            target = padded(widths, WidthSensitiveLM, seed=seed, n_batch=16)
            found = run(target, drafts, k=k, settings=settings)
            assert found.tokens == plain.tokens
            n_accepted += found.finished.stats.n_accepted
            n_rejected += found.finished.stats.n_drafted - found.finished.stats.n_accepted
    assert n_accepted > 10 and n_rejected > 10


@given(
    widths=st.sampled_from(SENSITIVE_CLASSES),
    guesses=st.lists(st.lists(st.integers(1, 4), max_size=15), min_size=1, max_size=8),
    k=st.integers(1, 15),
    settings=st.sampled_from([GREEDY, SAMPLED, PENALISED]),
    n_ctx=st.integers(len(PROMPT), 30),
    n_batch=st.integers(1, 16),
    seed=st.integers(0, 100),
)
def test_no_sequence_of_guesses_changes_what_a_padded_target_says(
    widths: Widths,
    guesses: Sequence[Sequence[int]],
    k: int,
    settings: SamplingSettings,
    n_ctx: int,
    n_batch: int,
    seed: int,
) -> None:
    def target() -> Watched:
        return padded(widths, WidthSensitiveLM, seed=seed, n_ctx=n_ctx, n_batch=n_batch)

    drafter = ScriptedDrafter(lambda context, _k: guesses[len(context) % len(guesses)])
    plain = run(target(), settings=settings)
    found = run(target(), drafter, k=min(k, widths[-1] - 1), settings=settings)
    assert found.tokens == plain.tokens


@pytest.mark.parametrize("widths", [(3, 4), (4, 8), (1, 2, 3, 16)])
def test_widths_of_two_classes_are_not_enough(widths: Widths) -> None:
    """What a wrong answer of the probe would do: the equality above is owed to the class."""
    n_different = 0
    for seed in range(10):
        plain = run(padded(widths, WidthSensitiveLM, seed=seed, n_batch=16))
        target = padded(widths, WidthSensitiveLM, seed=seed, n_batch=16)
        found = run(target, oracle(plain.tokens), k=widths[-1] - 1)
        n_different += found.tokens != plain.tokens
    assert n_different >= 5


def test_two_classes_may_say_different_things() -> None:
    """Each is true to itself; which one is taken is part of the plan."""
    texts = {run(padded(c, WidthSensitiveLM, seed=1)).tokens for c in SENSITIVE_CLASSES}
    assert len(texts) == len(SENSITIVE_CLASSES)
