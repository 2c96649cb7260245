"""A run as JSON on standard output: one object, or one event a line. Documented in docs/json.md."""

from __future__ import annotations

from dataclasses import asdict
from typing import Self

from spec_cli.events import (
    DraftingOff,
    Event,
    Finished,
    Notice,
    PromptProgress,
    PromptText,
    ReasoningDelta,
    RoundDone,
    ScoredToken,
    TextDelta,
    TokenLogprob,
    TokensScored,
)
from spec_cli.render.base import Renderer
from spec_cli.render.info import RunInfo
from spec_cli.render.stdout import Stdout
from spec_cli.spec.stats import RunStats

SCHEMA = "spec-cli/run/1"

Object = dict[str, object]


class JsonObject(Renderer):
    """Writes one object when the run has finished, and nothing before or without that."""

    def __init__(self, stdout: Stdout, info: RunInfo) -> None:
        self._stdout = stdout
        self._info = info
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._scores: list[Object] = []
        self._drafting_off = info.drafting_off

    def handle(self, event: Event) -> None:
        """Gather the text; write the object at the end."""
        match event:
            case TextDelta(text=text):
                self._text.append(text)
            case ReasoningDelta(text=text):
                self._reasoning.append(text)
            case TokensScored(tokens=tokens):
                self._scores += map(_scored, tokens)
            case DraftingOff(reason=reason):
                self._drafting_off = reason
            case Finished():
                result = result_object(self._info, event, self._drafting_off)
                answer: Object = {
                    "text": "".join(self._text),
                    "reasoning": "".join(self._reasoning) or None,
                    "logprobs": {"content": self._scores} if self._info.has_logprobs else None,
                }
                self._stdout.write_json(facts_object(self._info) | answer | result)
            case _:
                pass


class JsonLines(Renderer):
    """Writes each event as one line, at once."""

    def __init__(self, stdout: Stdout, info: RunInfo) -> None:
        self._stdout = stdout
        self._info = info
        self._drafting_off = info.drafting_off

    def __enter__(self) -> Self:
        self._line("start", facts_object(self._info))
        return self

    def handle(self, event: Event) -> None:
        """Write the line of `event`."""
        match event:
            case TextDelta():
                self._line("text", asdict(event))
            case ReasoningDelta():
                self._line("reasoning", asdict(event))
            case RoundDone():
                self._line("round", _round(event))
            case TokensScored(tokens=tokens):
                self._line("logprobs", {"content": list(map(_scored, tokens))})
            case Notice():
                self._line("notice", asdict(event))
            case DraftingOff(reason=reason):
                self._drafting_off = reason
                self._line("drafting_off", asdict(event))
            case Finished():
                result = result_object(self._info, event, self._drafting_off)
                self._line("end", facts_object(self._info) | result)
            case PromptProgress() | PromptText():
                pass

    def _line(self, name: str, fields: Object) -> None:
        self._stdout.write_json({"event": name} | fields)


def facts_object(info: RunInfo) -> Object:
    """What is known before the first token."""
    return {
        "schema": SCHEMA,
        "model": {
            "target": asdict(info.target),
            "draft": asdict(info.draft) if info.draft else None,
        },
        "draft_copy": info.draft_copy,
        "drafter": info.drafter,
        "draft_tokens": info.draft_tokens,
        "accept": info.accept,
        "seed": info.seed,
        "sampling": dict(info.sampling),
        "prompt": info.prompt,
        "prefill": info.prefill,
        "load_ms": 1000 * info.load_s,
        "system": system_object(info),
    }


def result_object(info: RunInfo, finished: Finished, drafting_off: str | None) -> Object:
    """What the run did, without its text."""
    stats, n_completion = finished.stats, len(finished.tokens)
    speedup = stats.speedup
    basis = "measured" if speedup and speedup.measured else "estimated"
    return {
        "tokens": finished.tokens,
        "finish_reason": finished.reason,
        "stop": finished.stop,
        "usage": {
            "prompt_tokens": info.n_prompt,
            "completion_tokens": n_completion,
            "total_tokens": info.n_prompt + n_completion,
        },
        "timings": timings_object(stats),
        "speculative": speculative_object(stats),
        "speedup": {"ratio": speedup.ratio, "basis": basis} if speedup else None,
        "drafting_off": drafting_off,
        "exactness": exactness_object(info) | {"near_ties": info.near_ties(stats.n_near_ties)},
        "ttft_ms": _ms(stats.ttft_s),
        "draft_ms": _ms(stats.draft_s),
        "verify_ms": _ms(stats.verify_s),
        "host_ms": _ms(stats.host_s),
    }


def exactness_object(info: RunInfo) -> Object:
    """Which widths and kernels the target's passes have, and at what price."""
    plan = info.plan
    return {
        "asked": info.exact,
        "mode": "bit-exact" if plan.is_exact else "fast",
        "widths": plan.widths,
        "plain_step_width": plan.padded(1),
        "kernels": asdict(plan.kernels),
        "price": plan.price,
        "max_logit_difference": plan.max_difference,
    }


def system_object(info: RunInfo) -> Object:
    """What computes, and with which programs."""
    return {
        "backend": info.backend,
        "device": info.device,
        "threads": info.n_threads,
        "n_ctx": info.n_ctx,
        "versions": dict(info.versions),
    }


def timings_object(stats: RunStats) -> Object:
    """Times and counts by llama-server's names."""
    return {
        "cache_n": stats.n_cached,
        "prompt_n": stats.n_prompt - stats.n_cached,
        "prompt_ms": _ms(stats.prefill_s),
        "prompt_per_token_ms": _ms(_inverse(stats.prompt_tokens_per_s)),
        "prompt_per_second": stats.prompt_tokens_per_s,
        "predicted_n": stats.n_emitted,
        "predicted_ms": _ms(stats.decode_s),
        "predicted_per_token_ms": _ms(_inverse(stats.tokens_per_s)),
        "predicted_per_second": stats.tokens_per_s,
        "draft_n": stats.n_drafted,
        "draft_n_accepted": stats.n_accepted,
    }


def speculative_object(stats: RunStats) -> Object:
    """What was drafted, by vLLM's names."""
    n_unaccepted = len(stats.drafted_at) - len(stats.accepted_at)
    return {
        "num_rounds": stats.n_rounds,
        "num_drafts": stats.n_drafting_rounds,
        "num_draft_tokens": stats.n_drafted,
        "num_accepted_tokens": stats.n_accepted,
        "draft_acceptance_rate": stats.acceptance_rate,
        "mean_acceptance_length": stats.acceptance_length,
        "drafted_per_pos": stats.drafted_at,
        "accepted_per_pos": stats.accepted_at + [0] * n_unaccepted,
        "acceptance_histogram": stats.accepted_histogram,
    }


def _round(event: RoundDone) -> Object:
    return {
        "index": event.index,
        "width": event.width,
        "drafted": event.n_drafted,
        "accepted": event.n_accepted,
        "emitted": event.n_emitted,
        "draft_ms": _ms(event.draft_s),
        "verify_ms": _ms(event.verify_s),
        "host_ms": _ms(event.host_s),
    }


def _scored(token: ScoredToken) -> Object:
    return _logprob(token.chosen) | {"top_logprobs": list(map(_logprob, token.likeliest))}


def _logprob(token: TokenLogprob) -> Object:
    return {
        "token": token.name,
        "id": token.token,
        "logprob": token.logprob,
        "bytes": None if token.piece is None else list(token.piece),
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


def _inverse(rate: float | None) -> float | None:
    """Seconds per token; None where the rate is unknown or nothing came."""
    return 1 / rate if rate else None
