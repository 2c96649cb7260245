"""Peers that run in this process: llama-cpp-python's own drafting, and assisted generation.

The second reads the same GGUF files, but computes with their weights unpacked to 32 bits: its
speed-up over its own plain decoding says more than the comparison with llama-server's.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from peer_arms import OpenArm, Request
from peer_report import Timings


def python_arms(
    target: Path, draft: Path | None, n_threads: int, n_ctx: int, say: Callable[[str], None]
) -> dict[str, OpenArm]:
    """What is installed of the two; `say` gets a line about what is not."""
    arms: dict[str, OpenArm] = {
        f"llama-cpp-python {name}": partial(LlamaCppPython, target, n_threads, n_ctx, lookup=lookup)
        for name, lookup in (("plain", False), ("prompt lookup", True))
    }
    missing = [name for name in ("transformers", "torch", "gguf") if find_spec(name) is None]
    if missing:
        say(f"assisted generation is left out: {', '.join(missing)} not installed")
    else:
        arms["transformers plain"] = partial(Transformers, target, None, n_threads)
        if draft is not None:
            arms["transformers assisted"] = partial(Transformers, target, draft, n_threads)
    return arms


class LlamaCppPython:
    """llama-cpp-python's `Llama`, with `LlamaPromptLookupDecoding` at its defaults or without."""

    def __init__(self, target: Path, n_threads: int, n_ctx: int, *, lookup: bool) -> None:
        from llama_cpp import Llama
        from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

        self._llama: Any = Llama(
            str(target),
            n_ctx=n_ctx,
            n_threads=n_threads,
            n_threads_batch=n_threads,
            flash_attn=True,
            logits_all=lookup,  # with a draft model it writes all rows, asked to or not
            draft_model=LlamaPromptLookupDecoding() if lookup else None,
            verbose=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._llama.close()

    def answer(self, request: Request) -> Timings:
        """Times of its generator; what it drafts it does not tell."""
        sampling = request.sampling
        self._llama.set_seed(request.seed)
        self._llama.reset()
        started = time.perf_counter()
        times = []
        tokens = self._llama.generate(
            request.tokens,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
            temp=sampling.temp,
        )
        for token in tokens:
            times.append(time.perf_counter())
            if token == self._llama.token_eos() or len(times) == request.n_predict:
                break
        tokens.close()
        return _timings(times[0] - started, times[-1] - times[0], len(times), len(times) - 1)


class Transformers:
    """`generate` of transformers, with `assistant_model` or without."""

    def __init__(self, target: Path, draft: Path | None, n_threads: int) -> None:
        import_module("torch").set_num_threads(n_threads)
        self._target = _from_gguf(target)
        self._draft = None if draft is None else _from_gguf(draft)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        del self._target, self._draft
        gc.collect()

    def answer(self, request: Request) -> Timings:
        """Timed from the end of the first pass, which may emit several tokens."""
        torch = import_module("torch")
        torch.manual_seed(request.seed)
        n_prompt, sampling = len(request.tokens), request.sampling
        passes: list[tuple[float, int]] = []

        def note(ids: Any, scores: Any, **_: Any) -> Any:
            passes.append((time.perf_counter(), ids.shape[1] - n_prompt))
            return torch.zeros(ids.shape[0], dtype=torch.bool)

        filters: dict[str, Any] = {"do_sample": sampling.temp > 0}
        if sampling.temp > 0:
            filters |= {
                "temperature": sampling.temp,
                "top_k": sampling.top_k,
                "top_p": sampling.top_p,
                "min_p": sampling.min_p,
            }
        ids = torch.tensor([request.tokens])
        started = time.perf_counter()
        self._target.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=request.n_predict,
            assistant_model=self._draft,
            stopping_criteria=import_module("transformers").StoppingCriteriaList([note]),
            **filters,
        )
        (first_s, n_first), (last_s, n_last) = passes[0], passes[-1]
        return _timings(first_s - started, last_s - first_s, n_last, n_last - n_first)


def _from_gguf(path: Path) -> Any:
    loader, dtype = (
        import_module("transformers").AutoModelForCausalLM,
        import_module("torch").float32,
    )
    return loader.from_pretrained(path.parent, gguf_file=path.name, dtype=dtype)


def _timings(prompt_s: float, predicted_s: float, predicted_n: int, timed_n: int) -> Timings:
    return Timings(prompt_s * 1e3, predicted_s * 1e3, predicted_n, timed_n, None, None)
