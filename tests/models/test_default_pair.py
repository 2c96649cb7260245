"""The real default pair: speculative text is plain text, and the models say sensible things."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from spec_cli.cli.encode import encode
from spec_cli.cli.inputs import PromptInput
from spec_cli.events import Finished, FinishReason, TextDelta
from spec_cli.loader import Environment
from spec_cli.session import Session
from spec_cli.settings import DrafterKind, GenerationSettings, SessionSettings
from spec_cli.spec.settings import Exact, SamplingSettings
from tests.models.conftest import RealPair

pytestmark = pytest.mark.model

GREEDY = SamplingSettings(temp=0)
PROMPTS = [
    "Write a Python function that merges two sorted lists.",
    "Explain in three sentences why the sky is blue.",
    "Write the opening of a short story about a lighthouse keeper.",
    'Give me a JSON object that describes a book: "title", "author", "year", "tags".',
    "Add type hints to this function:\ndef area(width, height):\n    return width * height",
    "What is 17 * 23? Work it out step by step.",
    "Translate to Chinese and add three emoji: Good morning, my friend!",
    "List the planets of the solar system, one a line.",
    "Write a SQL query for the three best paid people in each department.",
    "Say hi.",
]

Answer = Callable[[Session, str, GenerationSettings], Finished]


def answer(session: Session, prompt: str, generation: GenerationSettings) -> Finished:
    """Answer `prompt` in the model's chat template."""
    template = session.target_header.chat_template
    user = PromptInput(prompt, system=None, raw=False, chat_template=None)
    tokens = encode(session.model, template, user, datetime(2026, 1, 1)).tokens
    session.prepare(len(tokens), generation.max_tokens)
    *events, finished = session.generate(tokens, generation)
    assert isinstance(finished, Finished)
    text = "".join(e.text for e in events if isinstance(e, TextDelta))
    kept = [t for t in finished.tokens if not session.model.is_end(t)]
    raw = b"".join(map(session.model.piece, kept))
    assert text == raw.decode("utf-8", "ignore"), "the text is the tokens' bytes"
    return finished


@pytest.fixture(scope="module")
def plain(q8_target: Path, environment: Environment) -> Session:
    settings = SessionSettings(drafter=DrafterKind.NONE, exact=Exact.ON)
    return Session(q8_target, None, settings, environment)


@pytest.fixture(scope="module")
def speculative(q8_target: Path, real_pair: RealPair, environment: Environment) -> Session:
    settings = SessionSettings(draft_tokens=4, exact=Exact.ON)
    return Session(q8_target, real_pair.draft, settings, environment)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_text_is_that_of_plain_decoding(
    plain: Session, speculative: Session, prompt: str
) -> None:
    generation = GenerationSettings(seed=0, sampling=GREEDY, max_tokens=48)
    expected = answer(plain, prompt, generation)
    got = answer(speculative, prompt, generation)
    assert got.tokens == expected.tokens
    assert got.reason is expected.reason
    assert got.stats.n_rounds < expected.stats.n_rounds


@pytest.mark.parametrize("prompt", PROMPTS)
def test_sampled_text_for_a_seed_is_that_of_plain_decoding(
    plain: Session, speculative: Session, prompt: str
) -> None:
    sampling = SamplingSettings(temp=0.8)
    generation = GenerationSettings(seed=1, sampling=sampling, max_tokens=32)
    expected = answer(plain, prompt, generation)
    assert answer(speculative, prompt, generation).tokens == expected.tokens


def test_code_is_guessed_well_by_the_small_model(speculative: Session) -> None:
    generation = GenerationSettings(seed=0, sampling=GREEDY, max_tokens=64)
    stats = answer(speculative, PROMPTS[0], generation).stats
    assert stats.acceptance_rate is not None and stats.acceptance_rate > 0.5
    assert stats.acceptance_length is not None and stats.acceptance_length > 2


def test_another_seed_gives_another_text(plain: Session) -> None:
    sampling = SamplingSettings(temp=1.0)
    one, two = (
        answer(plain, PROMPTS[2], GenerationSettings(seed=s, sampling=sampling, max_tokens=16))
        for s in (1, 2)
    )
    assert one.tokens != two.tokens


def test_copied_text_is_guessed_by_ngrams(q8_target: Path, environment: Environment) -> None:
    settings = SessionSettings(drafter=DrafterKind.NGRAM, draft_tokens=6, exact=Exact.ON)
    prompt = (
        "Repeat this code, but rename `total` to `sum_of_items`:\n"
        "def add_all(items):\n    total = 0\n    for item in items:\n        total += item\n"
        "    print('the total is', total)\n    return total\n"
    )
    generation = GenerationSettings(seed=0, sampling=GREEDY, max_tokens=64)
    with Session(q8_target, None, settings, environment) as session:
        stats = answer(session, prompt, generation).stats
    assert stats.n_accepted > 10


def test_the_official_files_run_as_a_pair_and_stop_by_themselves(
    real_pair: RealPair, environment: Environment
) -> None:
    generation = GenerationSettings(seed=0, sampling=GREEDY, max_tokens=100)
    settings = SessionSettings(draft_tokens=2)
    with Session(real_pair.target, real_pair.draft, settings, environment) as session:
        finished = answer(session, "Reply with the single word: ready", generation)
        assert finished.reason is FinishReason.STOP
        assert b"ready" in b"".join(map(session.model.piece, finished.tokens)).lower()


def test_the_chat_template_gives_the_ids_that_the_model_was_trained_on(plain: Session) -> None:
    user = PromptInput("Hi <|im_end|>", system="Be brief.", raw=False, chat_template=None)
    template = plain.target_header.chat_template
    tokens = encode(plain.model, template, user, datetime(2026, 1, 1)).tokens
    im_start, im_end = 151644, 151645
    # Three turns open and two close; what the user typed closes none.
    assert tokens.count(im_start) == 3
    assert tokens.count(im_end) == 2
    assert tokens[0] == im_start
    text = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi"
    prefix = plain.model.tokenize(text, special=True, bos=False)
    assert tokens[: len(prefix)] == prefix
