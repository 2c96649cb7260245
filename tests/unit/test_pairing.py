from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from gguf import TokenType

from spec_cli.errors import ExitCode, PairError
from spec_cli.gguf import Header, read_header
from spec_cli.pairing import MAX_EXTRA_IDS, check_pair
from tests.tiny_gguf import N_VOCAB, TinyVocab, bpe_vocab, spm_vocab, write_tiny_model

END, IM_START, IM_END, PADDING = 265, 266, 267, 268
Model = Callable[..., Header]


@pytest.fixture
def model(tmp_path: Path) -> Model:
    """Headers of tiny models: `model("name", vocab)`."""

    def make(name: str, vocab: TinyVocab | None = None, n_layer: int = 1) -> Header:
        path = tmp_path / f"{name}.gguf"
        return read_header(write_tiny_model(path, vocab=vocab, n_layer=n_layer))

    return make


@pytest.fixture
def target(model: Model) -> Header:
    return model("target", n_layer=2)


def refusal(target: Header, draft: Header) -> PairError:
    with pytest.raises(PairError) as caught:
        check_pair(target, draft)
    assert caught.value.exit_code == ExitCode.PAIR
    assert "`--drafter ngram`" in (caught.value.hint or "")
    return caught.value


def notes(target: Header, draft: Header) -> list[str]:
    return [note.message for note in check_pair(target, draft).notes]


def test_models_of_one_vocabulary_fit_without_a_note(target: Header, model: Model) -> None:
    report = check_pair(target, model("draft"))
    assert (report.n_shared, report.n_target, report.n_draft) == (N_VOCAB, N_VOCAB, N_VOCAB)
    assert report.notes == ()


@pytest.mark.parametrize("n_draft", [N_VOCAB - 40, N_VOCAB + 128, N_VOCAB + MAX_EXTRA_IDS])
def test_ids_beyond_the_smaller_vocabulary_never_cross(
    target: Header, model: Model, n_draft: int
) -> None:
    report = check_pair(target, model("draft", bpe_vocab(n_draft)))
    assert report.n_shared == min(N_VOCAB, n_draft)
    assert (report.n_target, report.n_draft) == (N_VOCAB, n_draft)
    assert report.notes == () or report.notes[0].level == "warning"


def test_too_many_extra_ids_are_refused(target: Header, model: Model) -> None:
    n_draft = N_VOCAB + MAX_EXTRA_IDS + 1
    assert refusal(target, model("draft", bpe_vocab(n_draft))).message == (
        f"draft.gguf does not share the vocabulary of target.gguf: it has {n_draft} tokens, "
        f"not {N_VOCAB}"
    )


def test_another_tokenizer_model_is_named_first(target: Header, model: Model) -> None:
    message = refusal(target, model("draft", spm_vocab())).message
    assert message.index("its tokenizer is `llama`, not `gpt2`") < message.index(
        "its pre-tokenizer is `default`, not `gpt-2`"
    )


def test_another_tokenizer_model_is_refused_even_with_equal_texts(target: Header) -> None:
    draft = replace(target, vocab=replace(target.vocab, model="llama"))
    assert "its tokenizer is `llama`, not `gpt2`" in refusal(target, draft).message


def test_first_other_text_is_shown_with_its_id(target: Header, model: Model) -> None:
    draft = model("draft", bpe_vocab(renamed={100: "x\n", 7: "zebra"}))
    assert refusal(target, draft).message == (
        "draft.gguf does not share the vocabulary of target.gguf: its token 7 is `zebra`, not `ć`"
    )


def test_unprintable_and_long_texts_are_shown_in_one_line(target: Header, model: Model) -> None:
    draft = model("draft", bpe_vocab(renamed={7: "\x1b[2J\n" + "x" * 100}))
    message = refusal(target, draft).message
    assert "is `\\x1b[2J\\x0a" + "x" * 35 + "…`" in message
    assert message.isprintable()


def test_last_shared_text_is_compared(target: Header, model: Model) -> None:
    renamed = bpe_vocab(renamed={N_VOCAB - 1: "zebra"})
    types = [*renamed.types[:-1], TokenType.NORMAL]
    draft = model("draft", replace(renamed, types=types))
    assert f"its token {N_VOCAB - 1} is `zebra`" in refusal(target, draft).message


def test_first_five_ids_are_free_as_in_llama_cpp(target: Header, model: Model) -> None:
    assert check_pair(target, model("four", bpe_vocab(renamed={4: "zebra"}))).n_shared == N_VOCAB
    assert "its token 5 is" in refusal(target, model("five", bpe_vocab(renamed={5: "z"}))).message


def test_special_tokens_may_have_other_texts(target: Header, model: Model) -> None:
    draft = model("draft", bpe_vocab(renamed={PADDING: "<think>", END: "<|end|>"}, bos="<|end|>"))
    report = check_pair(target, draft)
    assert report.n_shared == N_VOCAB
    assert [note.message for note in report.notes] == [
        "the draft has another text for 2 special tokens, the first is 265: "
        "`<|endoftext|>` and `<|end|>`"
    ]


def test_special_token_against_plain_text_is_refused(target: Header, model: Model) -> None:
    types = [*bpe_vocab().types]
    types[IM_START] = TokenType.NORMAL
    plain = model("plain", replace(bpe_vocab(renamed={IM_START: "zebra"}), types=types))
    assert f"token {IM_START} is `zebra`, not `<|im_start|>`" in refusal(target, plain).message
    assert f"token {IM_START} is `<|im_start|>`, not `zebra`" in refusal(plain, target).message


def test_without_token_types_every_text_counts(target: Header, model: Model) -> None:
    draft = model("draft", bpe_vocab(renamed={PADDING: "<think>"}))
    assert check_pair(target, draft).n_shared == N_VOCAB
    untyped = replace(draft, vocab=replace(draft.vocab, types=None))
    assert f"its token {PADDING} is `<think>`" in refusal(target, untyped).message


def test_pre_tokenizer_alone_is_only_a_note(target: Header, model: Model) -> None:
    assert notes(target, model("draft", bpe_vocab(pre="qwen2"))) == [
        "the pre-tokenizer is `gpt-2` in the target and `qwen2` in the draft, "
        "but all token texts are equal"
    ]


def test_pre_tokenizer_is_named_when_texts_differ_too(target: Header, model: Model) -> None:
    message = refusal(target, model("draft", bpe_vocab(pre="qwen2", renamed={9: "z"}))).message
    assert "its pre-tokenizer is `qwen2`, not `gpt-2`; its token 9 is `z`" in message


def test_base_model_drafts_for_an_instruct_model(target: Header, model: Model) -> None:
    assert notes(target, model("draft", bpe_vocab(eos="<|endoftext|>"))) == [
        "the EOS token is 267 in the target and 265 in the draft: `<|im_end|>` and `<|endoftext|>`"
    ]


def test_bos_flag_is_a_note_and_no_refusal(target: Header, model: Model) -> None:
    assert notes(target, model("draft", bpe_vocab(add_bos=True))) == [
        "only the draft adds a BOS token; the target's way is used"
    ]


def test_unstated_special_ids_are_no_difference(target: Header, model: Model) -> None:
    draft = model("draft")
    silent = replace(draft, vocab=replace(draft.vocab, bos_id=None, eos_id=None, add_bos=None))
    assert notes(target, silent) == []


@pytest.mark.parametrize(("n_layer", "hint"), [(2, "use a smaller draft"), (3, "swap target and")])
def test_draft_that_is_not_smaller_is_warned_about(
    target: Header, model: Model, n_layer: int, hint: str
) -> None:
    (note,) = check_pair(target, model("draft", n_layer=n_layer)).notes
    assert note.level == "warning"
    assert "drafting will hardly be faster" in note.message
    assert (note.hint or "").startswith(hint)


def test_hint_names_the_family(target: Header, model: Model) -> None:
    draft = model("draft", spm_vocab())
    assert "a smaller llama model" in (refusal(target, draft).hint or "")
    named = replace(target, values={**target.values, "general.basename": "Qwen3"})
    assert "a smaller Qwen3 model" in (refusal(named, draft).hint or "")
