"""The facts of a run for its renderers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite

from spec_cli import __version__
from spec_cli.download import LocalModel
from spec_cli.gguf import Header
from spec_cli.llama.devices import cpu_device
from spec_cli.llama.library import library
from spec_cli.pairs import LocalPair
from spec_cli.render.info import ModelInfo, RunInfo
from spec_cli.render.json import exactness_object, facts_object
from spec_cli.session import Session
from spec_cli.settings import GenerationSettings
from spec_cli.spec.settings import SamplingSettings
from spec_cli.trace import SCHEMA as TRACE_SCHEMA
from spec_cli.trace import costs_object


def describe(
    session: Session,
    pair: LocalPair,
    generation: GenerationSettings,
    *,
    n_prompt: int,
    load_s: float,
    prompt: str | None = None,
    prefill: str | None = None,
) -> RunInfo:
    """What runs, where, and with which settings.

    `prompt` where its text is to be shown, `prefill` where the answer begins with one.
    """
    draft = None
    if pair.draft is not None and session.draft_header is not None:
        draft = _model(pair.draft, session.draft_header)
    devices = session.devices or [cpu_device()]
    return RunInfo(
        target=_model(pair.target, session.target_header),
        draft=draft,
        draft_copy=session.draft_copy,
        drafter=session.drafter_name,
        draft_tokens=session.settings.draft_tokens or "auto",
        drafting_off=session.drafting_off,
        accept=str(generation.accept) if generation.sampling.temp else "greedy",
        exact=session.settings.exact,
        plan=session.plan,
        seed=generation.seed,
        sampling=_sampling(generation.sampling),
        n_prompt=n_prompt,
        n_ctx=session.n_ctx,
        n_threads=session.n_threads,
        backend=", ".join(device.name for device in devices),
        device=", ".join(device.description for device in devices),
        load_s=load_s,
        has_logprobs=generation.n_logprobs is not None,
        versions={"spec-cli": __version__, "llama-cpp-python": library().version},
        prompt=prompt,
        prefill=prefill,
    )


def trace_header(
    session: Session, info: RunInfo, generation: GenerationSettings, prompt: Sequence[int]
) -> dict[str, object]:
    """What a trace needs to know besides the rounds, the ids of the `prompt` included."""
    return facts_object(info) | {
        "schema": TRACE_SCHEMA,
        "settings": asdict(session.settings),
        "max_tokens": generation.max_tokens,
        "stop_strings": generation.stop,
        "exactness": exactness_object(info),
        "costs": costs_object(session.costs),
        "plain_step_s": session.plain_step_s,
        "prompt_tokens": prompt,
    }


def _sampling(settings: SamplingSettings) -> dict[str, object]:
    """By name; the bias of a token that is forbidden is None."""
    biases = {str(token): bias if isfinite(bias) else None for token, bias in settings.logit_bias}
    return asdict(settings) | {"logit_bias": biases}


def _model(model: LocalModel, header: Header) -> ModelInfo:
    return ModelInfo(
        name=header.name or model.name,
        file=model.path.name,
        quant=header.quant,
        repo=model.repo,
        revision=model.revision,
        sha256=model.sha256,
    )
