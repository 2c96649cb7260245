from __future__ import annotations

import pytest

from spec_cli.quant import choose_file, model_files, quants, split_parts

FILES = [
    "README.md",
    "Toy-8B-Q4_K_M.gguf",
    "Toy-8B-UD-Q4_K_M.gguf",
    "Toy-8B.Q8_0.gguf",
    "Toy-8B-IQ4_NL.gguf",
    "toy-8b-q5_k_m-00001-of-00003.gguf",
    "toy-8b-q5_k_m-00002-of-00003.gguf",
    "toy-8b-q5_k_m-00003-of-00003.gguf",
    "BF16/Toy-8B-BF16-00001-of-00002.gguf",
    "BF16/Toy-8B-BF16-00002-of-00002.gguf",
    "mmproj-Toy-8B-F16.gguf",
]


@pytest.mark.parametrize(
    ("quant", "file"),
    [
        ("Q4_K_M", "Toy-8B-Q4_K_M.gguf"),
        ("q4_k_m", "Toy-8B-Q4_K_M.gguf"),
        ("ud-q4_k_m", "Toy-8B-UD-Q4_K_M.gguf"),
        ("Q8_0", "Toy-8B.Q8_0.gguf"),
        ("Q5_K_M", "toy-8b-q5_k_m-00001-of-00003.gguf"),
        ("BF16", "BF16/Toy-8B-BF16-00001-of-00002.gguf"),
        ("F16", None),
        ("K_M", None),
        ("Q4_NL", None),
        ("Q8.0", None),
    ],
)
def test_quant_names_one_file_whatever_the_case(quant: str, file: str | None) -> None:
    assert choose_file(FILES, quant) == file
    assert choose_file(reversed(FILES), quant) == file


def test_quants_of_a_repository_are_listed_once_without_projectors() -> None:
    assert quants(FILES) == ["BF16", "IQ4_NL", "Q4_K_M", "Q5_K_M", "Q8_0", "UD-Q4_K_M"]


@pytest.mark.parametrize("tag", ["Q2_K_XL", "IQ1_S", "TQ1_0", "MXFP4_MOE", "NVFP4", "FP16", "F32"])
def test_every_kind_of_tag_is_known(tag: str) -> None:
    assert quants([f"toy-8b-{tag.lower()}.gguf"]) == [tag]
    assert choose_file([f"toy-8b-{tag}.gguf"], tag) == f"toy-8b-{tag}.gguf"


def test_file_without_a_tag_is_listed_by_its_name() -> None:
    assert quants(["model.gguf", "x-Q4_0.gguf"]) == ["Q4_0", "model.gguf"]


def test_later_parts_and_other_files_are_no_models() -> None:
    assert model_files(["b.gguf", "a-00002-of-00002.gguf", "a.safetensors", "A.GGUF"]) == [
        "A.GGUF",
        "b.gguf",
    ]


def test_split_model_has_all_its_parts() -> None:
    assert split_parts("q/x-00001-of-00002.gguf") == [
        "q/x-00001-of-00002.gguf",
        "q/x-00002-of-00002.gguf",
    ]
    assert split_parts("x.gguf") == ["x.gguf"]


def test_a_name_that_promises_no_parts_is_that_of_a_whole_file() -> None:
    names = ["x-00001-of-00000.gguf", "x-０００01-of-00002.gguf"]
    assert model_files(names) == names
    assert [split_parts(name) for name in names] == [[name] for name in names]
