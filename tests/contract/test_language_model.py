"""What every `LanguageModel` must do, run on a table and on a real llama.cpp context."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest

from spec_cli.errors import Cancelled, ModelError, ResourceError
from spec_cli.llama.context import LlamaContext
from spec_cli.llama.library import library
from spec_cli.llama.model import LlamaModel, LoadSettings
from spec_cli.llama.native import ContextSettings
from spec_cli.llama.sequences import LlamaSequences
from spec_cli.spec.interfaces import LanguageModel
from tests.engine.fakes import TableLM
from tests.tiny_gguf import write_tiny_model

N_CTX, N_BATCH = 48, 16
ROUNDING = 0.02  # logits of a spread of 3, f16 KV


@pytest.fixture(scope="module")
def loaded(tiny_target: Path) -> Iterator[LlamaModel]:
    with LlamaModel(tiny_target, LoadSettings()) as model:
        yield model


@pytest.fixture(params=["table", "llama"])
def lm(request: pytest.FixtureRequest, loaded: LlamaModel) -> Iterator[LanguageModel]:
    if request.param == "table":
        yield TableLM(n_vocab=20, n_ctx=N_CTX, n_batch=N_BATCH)
        return
    settings = ContextSettings(N_CTX, n_threads=1, n_batch=N_BATCH, n_rows=8)
    with LlamaContext(loaded, settings) as context:
        yield context


def test_a_row_comes_back_for_each_of_the_last_tokens(lm: LanguageModel) -> None:
    assert lm.eval([1, 2, 3]).shape == (3, lm.n_vocab)
    assert lm.eval([4, 5, 6], n_rows=1).shape == (1, lm.n_vocab)
    assert lm.eval([7, 8], n_rows=0).shape == (0, lm.n_vocab)
    assert lm.n_past == 8


def test_a_pass_without_logits_is_waited_for(
    lm: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not isinstance(lm, LlamaContext):
        pytest.skip("a table computes at once")
    waited: list[object] = []
    monkeypatch.setattr(library().api, "llama_synchronize", waited.append)
    lm.eval([7, 8], n_rows=0)
    assert waited


def test_the_last_row_alone_is_the_last_of_all_rows(lm: LanguageModel) -> None:
    every = lm.eval([3, 1, 4, 1])[3].copy()
    lm.rollback(0)
    # Not bit for bit: the output head is a matrix product over as many rows as are asked for.
    assert lm.eval([3, 1, 4, 1], n_rows=1)[0] == pytest.approx(every, abs=ROUNDING)


def test_after_a_rollback_the_dropped_tokens_leave_no_trace(lm: LanguageModel) -> None:
    lm.eval([5, 6, 7])
    expected = lm.eval([8, 9]).copy()
    lm.rollback(3)
    lm.eval([1, 2, 3, 4])
    lm.rollback(3)
    assert lm.n_past == 3
    assert np.array_equal(lm.eval([8, 9]), expected)


def test_a_rollback_to_nothing_starts_anew(lm: LanguageModel) -> None:
    expected = lm.eval([5, 6, 7]).copy()
    lm.eval([1, 2, 3])
    lm.rollback(0)
    assert np.array_equal(lm.eval([5, 6, 7]), expected)


def test_rows_depend_on_the_tokens_before_them(lm: LanguageModel) -> None:
    first = lm.eval([5, 6])[1].copy()
    lm.rollback(0)
    assert not np.array_equal(lm.eval([4, 6])[1], first)


def test_tokens_one_by_one_give_the_rows_of_one_pass(lm: LanguageModel) -> None:
    together = lm.eval([5, 6, 7, 8]).copy()
    lm.rollback(0)
    for i, token in enumerate([5, 6, 7, 8]):
        assert lm.eval([token])[0] == pytest.approx(together[i], abs=ROUNDING)


def test_the_whole_context_can_be_used_and_no_more(lm: LanguageModel) -> None:
    for start in range(0, N_CTX, N_BATCH):
        lm.eval([1 + i % 9 for i in range(start, start + N_BATCH)], n_rows=0)
    assert lm.n_past == N_CTX
    with pytest.raises(AssertionError):
        lm.eval([1])
    lm.rollback(N_CTX - 1)
    assert lm.eval([1]).shape == (1, lm.n_vocab)


def test_what_is_kept_is_the_common_prefix_and_nothing_is_left_of_the_rest(
    lm: LanguageModel,
) -> None:
    lm.eval([5, 6, 7], n_rows=0)
    expected = lm.eval([8, 9]).copy()
    lm.eval([1, 2, 3], n_rows=0)
    assert lm.keep([5, 6, 7, 8, 2, 3]) == lm.n_past == 4
    assert lm.keep([5, 6, 7]) == 3
    assert np.array_equal(lm.eval([8, 9]), expected)
    assert lm.keep([5, 6, 7, 8, 9, 1]) == 5
    assert lm.keep([6]) == lm.n_past == 0


def test_a_rollback_cannot_go_forward(lm: LanguageModel) -> None:
    lm.eval([1, 2])
    with pytest.raises(AssertionError):
        lm.rollback(3)


def test_a_cancelled_pass_changes_nothing(loaded: LlamaModel) -> None:
    cancel = False
    settings = ContextSettings(N_CTX, n_threads=1, n_batch=N_BATCH, n_rows=8)
    with LlamaContext(loaded, settings, cancelled=lambda: cancel) as context:
        context.eval([5, 6, 7])
        expected = context.eval([8, 9]).copy()
        context.rollback(3)
        cancel = True
        with pytest.raises(Cancelled):
            context.eval([8, 9])
        assert context.n_past == 3
        assert context.keep([5, 6, 7, 8, 9]) == 3
        cancel = False
        assert np.array_equal(context.eval([8, 9]), expected)


def test_a_memory_that_cannot_drop_its_tail_is_empty_after_a_cancelled_pass(
    tiny_mamba: Path,
) -> None:
    cancel = False
    settings = ContextSettings(N_CTX, n_threads=1, n_batch=N_BATCH, n_rows=8)
    with (
        LlamaModel(tiny_mamba, LoadSettings()) as model,
        LlamaContext(model, settings, cancelled=lambda: cancel) as context,
    ):
        expected = context.eval([5, 6, 7]).copy()
        cancel = True
        with pytest.raises(Cancelled):
            context.eval([8, 9])
        cancel = False
        assert context.n_past == 0
        assert np.array_equal(context.eval([5, 6, 7]), expected)


def test_a_memory_that_cannot_drop_its_tail_keeps_everything_or_nothing(tiny_mamba: Path) -> None:
    settings = ContextSettings(N_CTX, n_threads=1, n_batch=N_BATCH, n_rows=8)
    with (
        LlamaModel(tiny_mamba, LoadSettings()) as model,
        LlamaContext(model, settings) as context,
    ):
        context.eval([5, 6, 7], n_rows=0)
        expected = context.eval([8]).copy()
        assert context.keep([5, 6, 9]) == context.n_past == 0
        context.eval([5, 6, 7], n_rows=0)
        assert context.keep([5, 6, 7, 8]) == 3
        assert np.array_equal(context.eval([8]), expected)


def test_a_model_and_its_context_can_be_closed_twice(tiny_target: Path) -> None:
    model = LlamaModel(tiny_target, LoadSettings())
    context = LlamaContext(model, ContextSettings(N_CTX, n_threads=1))
    for _ in range(2):
        context.close()
        model.close()


@pytest.mark.parametrize(
    ("n_ctx", "hint"), [(8192, "use a smaller one: `--ctx-size 4096`"), (300, None)]
)
def test_a_context_that_llama_cpp_refuses_is_an_error_with_what_may_do_instead(
    loaded: LlamaModel, monkeypatch: pytest.MonkeyPatch, n_ctx: int, hint: str | None
) -> None:
    monkeypatch.setattr(library().api, "llama_init_from_model", lambda *_: None)
    with pytest.raises(ResourceError, match=rf"a context of {n_ctx:,} tokens .* gave no") as caught:
        LlamaContext(loaded, ContextSettings(n_ctx, n_threads=1))
    assert caught.value.hint == hint


def test_loading_stops_when_the_progress_callback_says_so(tiny_target: Path) -> None:
    with pytest.raises(Cancelled):
        LlamaModel(tiny_target, LoadSettings(), progress=lambda fraction: False)


def test_what_the_progress_callback_raises_stops_loading_and_comes_out(tiny_target: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        LlamaModel(tiny_target, LoadSettings(), progress=lambda fraction: fraction < 1 / 0)


def test_a_file_that_llama_cpp_refuses_is_a_model_error_with_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF\x03\0\0\0" + bytes(64))
    with pytest.raises(ModelError, match=r"cannot be loaded: .+"):
        LlamaModel(path, LoadSettings())


@pytest.mark.parametrize("text", ["hello there", "héllo 世界 🙂", "a\nb\tc", ""])
def test_text_survives_the_way_through_tokens(loaded: LlamaModel, text: str) -> None:
    tokens = loaded.tokenize(text, special=False, bos=False)
    assert b"".join(map(loaded.piece, tokens)).decode() == text


def test_a_model_is_not_freed_under_a_text_that_is_still_being_tokenised(
    tiny_target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_text, may_end, cancel = "a" * 20_000, threading.Event(), True
    model = LlamaModel(tiny_target, LoadSettings(), cancelled=lambda: cancel)
    monkeypatch.setattr(model, "_tokenize", lambda *_: may_end.wait() and [])
    with pytest.raises(Cancelled):
        model.tokenize(long_text, special=False, bos=False)
    monkeypatch.undo()
    cancel = False
    assert model.tokenize(long_text, special=False, bos=False)  # another one ends before it
    model.close()
    assert model.handle
    may_end.set()
    while model.handle:
        time.sleep(0.01)
        model.close()


def test_control_tokens_are_recognised_only_when_asked_and_have_no_text(loaded: LlamaModel) -> None:
    (control,) = loaded.tokenize("<|im_end|>", special=True, bos=False)
    assert loaded.is_end(control)
    assert loaded.piece(control) == b""
    assert len(loaded.tokenize("<|im_end|>", special=False, bos=False)) > 1
    assert {"<|im_start|>", "<|im_end|>"} <= set(loaded.control_texts())


def test_a_recurrent_model_says_so(tiny_mamba: Path, loaded: LlamaModel) -> None:
    assert not loaded.is_recurrent
    with LlamaModel(tiny_mamba, LoadSettings()) as model:
        assert model.is_recurrent


def test_tokens_that_the_file_forbids_are_never_generated(tmp_path: Path) -> None:
    forbidden = (5, 300)

    def forbid(writer: gguf.GGUFWriter) -> None:
        writer.add_array("tokenizer.ggml.suppress_tokens", list(forbidden))

    free_file = write_tiny_model(tmp_path / "free.gguf")
    file = write_tiny_model(tmp_path / "forbidding.gguf", change=forbid)
    settings = ContextSettings(N_CTX, n_threads=1, n_batch=N_BATCH, n_rows=8)
    with (
        LlamaModel(free_file, LoadSettings()) as free_model,
        LlamaModel(file, LoadSettings()) as model,
        LlamaContext(free_model, settings) as free,
        LlamaContext(model, settings) as context,
        LlamaSequences(model, replace(settings, n_sequences=2)) as sequences,
    ):
        assert model.suppressed == forbidden
        expected = free.eval([1, 2, 3]).copy()
        expected[:, forbidden] = -np.inf
        assert np.array_equal(context.eval([1, 2, 3]), expected)
        assert np.isneginf(sequences.eval([[1, 2], [3, 4]])[..., forbidden]).all()
