"""Requantising with llama.cpp: what comes out, and what is left when it fails."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from spec_cli.draft_copy import Copy, DraftCopies, NoCopy
from spec_cli.errors import Cancelled, ModelError, ResourceError, UsageError
from spec_cli.gguf import Header, read_header
from spec_cli.llama.context import LlamaContext
from spec_cli.llama.model import LlamaModel, LoadSettings
from spec_cli.llama.native import ContextSettings
from spec_cli.llama.quantize import quantize, quantize_apart, same_model
from spec_cli.spec.interfaces import Logits
from spec_cli.state import StateStore
from tests.tiny_gguf import write_tiny_model

F32, Q4_0, Q8_0 = 0, 2, 8  # enum ggml_type
TOKENS = [1, 50, 100, 150, 200, 250, 7, 8]


def pure(source: Path, destination: Path) -> Path:
    quantize(source, destination, "q4_0", n_threads=2, pure=True)
    return destination


def logits(path: Path) -> Logits:
    with (
        LlamaModel(path, LoadSettings()) as model,
        LlamaContext(model, ContextSettings(n_ctx=64, n_threads=2)) as context,
    ):
        return context.eval(TOKENS).copy()


def copies(directory: Path) -> DraftCopies:
    return DraftCopies(
        directory / "copies",
        build="1",
        state=StateStore(directory / "state"),
        cancelled=lambda: False,
        progress=lambda what, fraction: None,
    )


@contextmanager
def largest_file(n_bytes: int) -> Iterator[None]:
    """Writes beyond `n_bytes` fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def matrix_kinds(header: Header) -> set[int]:
    return {tensor.kind for tensor in header.tensors if len(tensor.shape) > 1}


def test_a_pure_copy_is_smaller_and_guesses_much_the_same(tiny_draft: Path, tmp_path: Path) -> None:
    path = pure(tiny_draft, tmp_path / "copy.gguf")
    header = read_header(path)
    assert header.quant == "Q4_0"
    assert matrix_kinds(header) == {Q4_0}
    assert path.stat().st_size < tiny_draft.stat().st_size / 4
    assert same_model(header, read_header(tiny_draft))
    rows, original = logits(path), logits(tiny_draft)
    assert not np.array_equal(rows, original)
    assert np.corrcoef(rows.ravel(), original.ravel())[0, 1] > 0.9


def test_a_mixture_keeps_more_bits_where_a_pure_copy_does_not(tmp_path: Path) -> None:
    source = write_tiny_model(tmp_path / "source.gguf", n_embd=256)
    quantize(source, tmp_path / "mixture.gguf", "q4_0", n_threads=2)
    assert len(matrix_kinds(read_header(tmp_path / "mixture.gguf"))) > 1
    assert matrix_kinds(read_header(pure(source, tmp_path / "pure.gguf"))) == {Q4_0}


def test_a_file_that_is_quantised_already_is_taken(tiny_draft: Path, tmp_path: Path) -> None:
    quantize(tiny_draft, tmp_path / "q8.gguf", "q8_0", n_threads=2)
    assert matrix_kinds(read_header(tmp_path / "q8.gguf")) == {Q8_0}
    path = pure(tmp_path / "q8.gguf", tmp_path / "q4.gguf")
    assert matrix_kinds(read_header(path)) == {Q4_0}


def test_an_unknown_type_is_refused_with_those_there_are(tiny_draft: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="q3") as caught:
        quantize(tiny_draft, tmp_path / "copy.gguf", "q3", n_threads=2)
    assert "q4_0" in str(caught.value.hint)


def test_a_model_that_llama_cpp_does_not_know_is_refused_with_its_reason(
    tiny_draft: Path, tmp_path: Path
) -> None:
    foreign = tmp_path / "foreign.gguf"
    foreign.write_bytes(tiny_draft.read_bytes().replace(b"llama", b"lxama"))
    with pytest.raises(ModelError, match=r"^foreign\.gguf cannot be requantised: .*lxama"):
        pure(foreign, tmp_path / "copy.gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["foreign.gguf"]


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_full_disk_is_an_error_and_leaves_nothing(
    tiny_draft: Path, tmp_path: Path, fraction: float
) -> None:
    n_bytes = pure(tiny_draft, tmp_path / "whole.gguf").stat().st_size
    (tmp_path / "whole.gguf").unlink()
    with (
        largest_file(int(fraction * n_bytes)),
        pytest.raises(ResourceError, match=r"copy\.gguf (cannot be|was not) written"),
    ):
        pure(tiny_draft, tmp_path / "copy.gguf")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_not_there_is_an_error(tiny_draft: Path, tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="cannot be written: No such file or directory"):
        pure(tiny_draft, tmp_path / "missing" / "copy.gguf")


def test_a_directory_in_the_place_of_the_file_is_an_error(tiny_draft: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.gguf").mkdir()
    with pytest.raises(ResourceError, match="cannot be written: Is a directory"):
        pure(tiny_draft, tmp_path / "copy.gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["copy.gguf"]


def test_a_failed_attempt_leaves_the_earlier_file(tiny_draft: Path, tmp_path: Path) -> None:
    path = pure(tiny_draft, tmp_path / "copy.gguf")
    before = path.read_bytes()
    with largest_file(1000), pytest.raises(ResourceError):
        pure(tiny_draft, path)
    assert path.read_bytes() == before


def test_a_link_is_replaced_and_what_it_leads_to_is_left_alone(
    tiny_draft: Path, tmp_path: Path
) -> None:
    victim, path = tmp_path / "victim", tmp_path / "copy.gguf"
    victim.write_text("precious")
    path.symlink_to(victim)
    pure(tiny_draft, path)
    assert not path.is_symlink()
    assert victim.read_text() == "precious"


def test_a_file_may_be_requantised_onto_itself(tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "model.gguf")
    pure(path, path)
    assert matrix_kinds(read_header(path)) == {Q4_0}


def test_the_file_is_its_owners_alone(tiny_draft: Path, tmp_path: Path) -> None:
    assert pure(tiny_draft, tmp_path / "copy.gguf").stat().st_mode & 0o777 == 0o600


def test_a_process_of_its_own_writes_the_same_file(tiny_draft: Path, tmp_path: Path) -> None:
    quantize_apart(tiny_draft, tmp_path / "apart.gguf", "q4_0", cancelled=lambda: False)
    here = pure(tiny_draft, tmp_path / "here.gguf")
    assert (tmp_path / "apart.gguf").read_bytes() == here.read_bytes()


@pytest.mark.parametrize("extra", [(), ("q4_0", "purer"), ("q4_0", "pure", "x")])
def test_the_command_takes_its_arguments_only(
    tiny_draft: Path, tmp_path: Path, extra: tuple[str, ...]
) -> None:
    command = [sys.executable, "-m", "spec_cli.llama.quantize"]
    files = [str(tiny_draft), str(tmp_path / "copy.gguf")]
    ended = subprocess.run([*command, *files, *extra], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "IN.gguf OUT.gguf" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_fails_says_why_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ResourceError) as caught:
        quantize_apart(
            tmp_path / "no.gguf", tmp_path / "copy.gguf", "q4_0", cancelled=lambda: False
        )
    assert caught.value.message == f"no such file: {tmp_path / 'no.gguf'}"


def test_a_process_can_be_stopped_and_writes_nothing_any_more(
    tiny_draft: Path, tmp_path: Path
) -> None:
    with pytest.raises(Cancelled):
        quantize_apart(tiny_draft, tmp_path / "copy.gguf", "q4_0", cancelled=lambda: True)
    assert not (tmp_path / "copy.gguf").exists()


def test_a_draft_gets_a_copy_that_evaluates_and_is_found_again(
    tiny_draft: Path, tmp_path: Path
) -> None:
    source = read_header(tiny_draft)
    copy = copies(tmp_path).copy_of(source)
    assert isinstance(copy, Copy) and copy.made
    assert matrix_kinds(read_header(copy.path)) == {Q4_0}
    assert np.isfinite(logits(copy.path)).all()
    assert copies(tmp_path).copy_of(source) == Copy(copy.path, made=False)


def test_a_copy_of_a_copy_is_not_made(tiny_draft: Path, tmp_path: Path) -> None:
    path = pure(tiny_draft, tmp_path / "q4.gguf")
    no_copy = copies(tmp_path).copy_of(read_header(path))
    assert no_copy == NoCopy("Q4_0 would hardly be smaller than q4.gguf, Q4_0")


def test_a_draft_that_cannot_be_requantised_gets_no_copy_and_the_reason(
    tiny_draft: Path, tmp_path: Path
) -> None:
    foreign = tmp_path / "foreign.gguf"
    foreign.write_bytes(tiny_draft.read_bytes().replace(b"llama", b"lxama"))
    no_copy = copies(tmp_path).copy_of(read_header(foreign))
    assert isinstance(no_copy, NoCopy)
    assert no_copy.reason.startswith("foreign.gguf cannot be requantised: ")
    assert not list((tmp_path / "copies").glob("*.gguf*"))


def test_makers_at_once_end_with_one_good_copy(tiny_draft: Path, tmp_path: Path) -> None:
    source = read_header(tiny_draft)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: copies(tmp_path).copy_of(source), range(3)))
    made = [copy for copy in found if isinstance(copy, Copy) and copy.made]
    assert len(made) == 1
    assert {copy.path for copy in found if isinstance(copy, Copy)} == {made[0].path}
    assert same_model(read_header(made[0].path), source)
    assert list((tmp_path / "copies").glob("*.gguf*")) == [made[0].path]
