from __future__ import annotations

from pathlib import Path

import pytest

from spec_cli.compatibility import compare
from spec_cli.gguf import Header, read_header
from spec_cli.modelref import LocalFile, Pair, RepoFile
from spec_cli.suggestion import Candidate, known_drafts, problem, suggest
from tests.tiny_gguf import bpe_vocab, spm_vocab, write_tiny_model


@pytest.fixture
def target(tmp_path: Path) -> Header:
    return read_header(write_tiny_model(tmp_path / "target.gguf", n_layer=4))


@pytest.fixture
def draft(tmp_path: Path) -> Header:
    return read_header(write_tiny_model(tmp_path / "draft.gguf", n_layer=1))


@pytest.fixture
def foreign(tmp_path: Path) -> Header:
    vocab = bpe_vocab(renamed={40: "zzz"})
    return read_header(write_tiny_model(tmp_path / "foreign.gguf", n_layer=1, vocab=vocab))


def test_drafts_that_fit_come_first_the_smallest_first(
    target: Header, draft: Header, foreign: Header
) -> None:
    found = suggest(
        target,
        [
            Candidate("foreign", 1, foreign),
            Candidate("large", 30, draft),
            Candidate("unseen", 20, None),
            Candidate("small", 10, draft),
        ],
    )
    assert [(one.candidate.name, one.fits) for one in found] == [
        ("small", True), ("unseen", True), ("large", True), ("foreign", False),
    ]  # fmt: skip


def test_reason_says_what_differs(target: Header, foreign: Header, tmp_path: Path) -> None:
    assert problem(target, foreign) == "its token 40 is `zzz`, not `(`"
    other = read_header(write_tiny_model(tmp_path / "spm.gguf", n_layer=1, vocab=spm_vocab()))
    assert str(problem(target, other)).startswith("its tokenizer is `llama`, not `gpt2`")


def test_model_as_large_as_the_target_is_no_draft(target: Header, draft: Header) -> None:
    assert problem(target, target) == problem(draft, target) == "it is not smaller than the target"
    assert problem(target, draft) is None


def test_without_the_targets_header_known_drafts_are_believed(draft: Header) -> None:
    assert [one.fits for one in suggest(None, [Candidate("known", 1, draft)])] == [True]


def test_drafts_of_pairs_with_another_quant_of_the_target_are_known() -> None:
    draft = RepoFile("user/small:Q8_0", "user/small", quant="Q8_0")
    pairs = [
        Pair("one", RepoFile("user/big:Q4_0", "user/big", quant="Q4_0"), draft),
        Pair("two", RepoFile("user/big:Q6_K", "user/big", quant="Q6_K"), draft),
        Pair("local", RepoFile("user/big:Q8_0", "user/big", quant="Q8_0"), LocalFile("x", Path())),
        Pair("other", RepoFile("user/other:Q8_0", "user/other", quant="Q8_0"), draft),
    ]
    assert known_drafts(RepoFile("user/big:Q8_0", "user/big", quant="Q8_0"), pairs) == [draft]
    assert known_drafts(LocalFile("x.gguf", Path("x.gguf")), pairs) == []


# -- two models side by side


def test_comparison_of_a_pair_counts_all_ids(target: Header, draft: Header) -> None:
    found = compare(target, draft)
    assert (found.problem, found.n_equal_ids) == (None, 320)
    aspects = {aspect.name: (aspect.target, aspect.draft) for aspect in found.aspects}
    assert aspects["tokens"] == (320, 320)
    assert aspects["tokenizer"] == ("gpt2", "gpt2")
    assert aspects["EOS"] == ("267 <|im_end|>",) * 2
    assert "EOT" not in aspects
    assert aspects["chat template"] == ("yes", "yes")
    assert aspects["parameters"] == (target.n_params, draft.n_params)


def test_comparison_of_what_is_no_pair_keeps_the_reason(target: Header, foreign: Header) -> None:
    found = compare(target, foreign)
    assert found.report is None
    assert (found.n_equal_ids, found.n_common_ids) == (319, 320)
    assert found.problem is not None and "its token 40" in found.problem.message
    assert found.notes == ()
