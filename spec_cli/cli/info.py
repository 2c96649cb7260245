"""The facts of a run for its renderers."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite

from spec_cli import __version__
from spec_cli.cli.pairs import LocalPair
from spec_cli.download import LocalModel
from spec_cli.gguf import Header
from spec_cli.llama.devices import cpu_device
from spec_cli.llama.library import library
from spec_cli.render.info import ModelInfo, RunInfo
from spec_cli.session import Session
from spec_cli.settings import GenerationSettings
from spec_cli.spec.sampling import SamplingSettings


def describe(
    session: Session,
    pair: LocalPair,
    generation: GenerationSettings,
    *,
    n_prompt: int,
    load_s: float,
) -> RunInfo:
    """What runs, where, and with which settings."""
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
    )


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
