"""`spec-cli verify` on the real default pair, a small part of its matrix."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pytest

from spec_cli.cli.encode import encode
from spec_cli.cli.inputs import PromptInput
from spec_cli.loader import Environment
from spec_cli.prompts import NamedPrompt, built_in_prompts
from spec_cli.session import Session
from spec_cli.settings import SessionSettings
from spec_cli.spec.settings import Exact
from spec_cli.verify.archive import Archive
from spec_cli.verify.matrix import ArmDrafter, Matrix
from spec_cli.verify.run import verify_pair
from tests.models.conftest import RealPair

pytestmark = pytest.mark.model

CODE, STEPS = ("code-intervals",), ("steps-trains",)
CROSSING = ("extract-minutes",)  # its answer takes the context past 512 tokens
N_TOKENS = 24


def matrix(
    ids: Sequence[str], drafters: Sequence[ArmDrafter], temps: tuple[float, ...], *k: int
) -> Matrix:
    prompts = tuple(prompt for prompt in built_in_prompts() if prompt.id in ids)
    return Matrix(prompts, temps, tuple(drafters), k, max_tokens=N_TOKENS, seed=1)


def encoded(session: Session, prompt: NamedPrompt) -> list[int]:
    user = PromptInput(prompt.text, system=None, raw=False, chat_template=None)
    template = session.target_header.chat_template
    return encode(session.model, template, user, datetime(2026, 1, 1)).tokens


def test_the_default_pair_is_bit_exact_and_keeps_every_token(
    real_pair: RealPair, environment: Environment
) -> None:
    settings = SessionSettings(draft_tokens=7, exact=Exact.ON)
    matrices = [
        matrix(CODE, tuple(ArmDrafter), (0.0,), 7),
        matrix(STEPS, tuple(ArmDrafter), (0.8,), 3),
        matrix(CROSSING, (ArmDrafter.MODEL, ArmDrafter.RANDOM), (0.8,), 7),
    ]
    with Session(real_pair.target, real_pair.draft, settings, environment) as session:
        assert session.plan.is_exact
        for wanted in matrices:
            tokens = {prompt.id: encoded(session, prompt) for prompt in wanted.prompts}
            session.prepare(max(map(len, tokens.values())), N_TOKENS)
            report = verify_pair(
                session,
                wanted.limited(session.k_max),
                tokens,
                Archive(None, {}),
                n_rounds=100,
                cancelled=environment.cancelled,
                progress=environment.progress,
            )
            assert report.failure is None and report.rules
            assert report.equal == list(report.comparisons)
            assert len(report.cells) == len(report.comparisons)
            assert sum(c.n_accepted for c in report.comparisons) > 20
    assert len(tokens[CROSSING[0]]) < 512 < len(tokens[CROSSING[0]]) + N_TOKENS


def test_the_long_built_in_prompts_reach_past_the_chunk_and_past_1024(
    real_pair: RealPair, environment: Environment
) -> None:
    with Session(real_pair.draft, None, SessionSettings(), environment) as session:
        lengths = sorted(len(encoded(session, prompt)) for prompt in built_in_prompts())
    assert len(lengths) == 20
    assert 480 < lengths[-4] < 512 < lengths[-3] < 1024
    assert lengths[-2] < 1024 < lengths[-2] + 256 and lengths[-1] < 1024 < lengths[-1] + 256
