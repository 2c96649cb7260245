"""The result of a line as a JSON object. Documented in docs/json.md."""

from __future__ import annotations

from spec_cli.batch.answer import Answer
from spec_cli.batch.request import Failure
from spec_cli.batch.results import SCHEMA, Row
from spec_cli.render.json import speculative_object, timings_object


def row_of(outcome: Answer | Failure) -> Row:
    """The object of an answer, or of what is wrong with its line."""
    return _answer(outcome) if isinstance(outcome, Answer) else _failure(outcome)


def _answer(answer: Answer) -> Row:
    request, finished = answer.request, answer.finished
    n_prompt, n_completion = finished.stats.n_prompt, len(finished.tokens)
    return {
        "schema": SCHEMA,
        "index": request.index,
        "id": request.id,
        "text": answer.text,
        "reasoning": answer.reasoning or None,
        "finish_reason": finished.reason,
        "stop": finished.stop,
        "usage": {
            "prompt_tokens": n_prompt,
            "completion_tokens": n_completion,
            "total_tokens": n_prompt + n_completion,
        },
        "timings": timings_object(finished.stats),
        "speculative": speculative_object(finished.stats),
        "seed": request.generation.seed,
        "key": request.key,
    }


def _failure(failure: Failure) -> Row:
    error = failure.error
    return {
        "schema": SCHEMA,
        "index": failure.index,
        "id": failure.id,
        "error": {"message": error.message, "hint": error.hint, "code": error.exit_code},
        "key": failure.key,
    }
