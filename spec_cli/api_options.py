"""The options of the Python API, and the settings that they stand for."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import fields
from enum import Enum
from typing import Any, TypedDict, get_type_hints

from spec_cli.errors import wrong_word
from spec_cli.settings import DrafterKind, GenerationSettings, SessionSettings
from spec_cli.spec.settings import Accept, Exact, SamplingSettings


class SessionOptions(TypedDict, total=False):
    """The fields of `SessionSettings`, where they are described."""

    drafter: DrafterKind | str
    draft_tokens: int | None
    n_ctx: int | None
    n_batch: int
    n_threads: int | None
    n_gpu_layers: int | None
    device: str | None
    draft_device: str | None
    exact: Exact | str
    draft_copy: bool
    index: bool


class TemplateOptions(TypedDict, total=False):
    """How messages become a prompt. There is no place for these where the prompt is a `str`.

    `prefill` is the beginning of the answer. `think` sets the chat template's switch for thinking,
    and `template_vars` others of its variables.
    """

    prefill: str
    think: bool | None
    template_vars: Mapping[str, object]


class GenerationOptions(TypedDict, total=False):
    """The fields of `GenerationSettings` and `SamplingSettings`, where they are described.

    Without a seed, one is drawn at random. Several biases of one token add up.
    """

    temp: float
    top_k: int
    top_p: float
    min_p: float
    repeat_penalty: float
    repeat_last_n: int
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int, float] | Sequence[tuple[int, float]]
    seed: int | None
    accept: Accept | str
    max_tokens: int | None
    stop: str | Sequence[str]
    grammar: str | None
    ignore_eos: bool
    n_logprobs: int | None


class StreamOptions(TemplateOptions, GenerationOptions):
    """What a generation can be asked for."""


def session_settings(options: SessionOptions) -> SessionSettings:
    """The settings that `options` stand for. Raises UsageError."""
    return SessionSettings(**_with_enums(SessionSettings, options))


def parted(options: StreamOptions) -> tuple[TemplateOptions, GenerationOptions]:
    """The options of the chat template, and the others."""
    others: Any = dict(options)
    of_template: Any = {
        name: others.pop(name) for name in TemplateOptions.__annotations__ if name in others
    }
    return of_template, others


def generation_settings(options: GenerationOptions) -> GenerationSettings:
    """The settings that `options` stand for, with a random seed unless there is one.

    Raises UsageError.
    """
    values = _with_enums(GenerationSettings, options)
    sampling = {f.name: values.pop(f.name) for f in fields(SamplingSettings) if f.name in values}
    if "logit_bias" in sampling:
        biases = sampling["logit_bias"]
        sampling["logit_bias"] = tuple(biases.items() if isinstance(biases, Mapping) else biases)
    stop = values.pop("stop", ())
    seed = values.pop("seed", None)
    return GenerationSettings(
        seed=secrets.randbits(32) if seed is None else seed,
        sampling=SamplingSettings(**sampling),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        **values,
    )


def _with_enums(settings: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """`options`, with words turned into members of their enumerations. Raises UsageError."""
    hints = get_type_hints(settings)
    values = dict(options)
    for name, value in options.items():
        kind = hints.get(name)
        if isinstance(kind, type) and issubclass(kind, Enum):
            if value not in list(kind):
                raise wrong_word(name, value, [str(choice.value) for choice in kind])
            values[name] = kind(value)
    return values
