"""What is compared, in which order, who drafts at random, and what a save file keeps."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from random import Random

import pytest

from spec_cli.drafters.random import WRONG, RandomDrafter
from spec_cli.errors import UsageError
from spec_cli.events import FinishReason
from spec_cli.prompts import NamedPrompt
from spec_cli.spec.rounds import FixedRound
from spec_cli.verify.archive import Archive, open_save
from spec_cli.verify.comparison import Comparison, Text
from spec_cli.verify.difference import Difference
from spec_cli.verify.matrix import ArmDrafter, Cell, Matrix

PROMPTS = tuple(NamedPrompt(f"p{i}", "own", f"text {i}") for i in range(4))
MATRIX = Matrix(PROMPTS, (0.0, 0.8), tuple(ArmDrafter), (1, 3, 7, None), max_tokens=8, seed=1)
CELL = MATRIX.cells()[0]
TEXT = Text((1, 2), "ab", FinishReason.LENGTH)
DIFFERENCE = Difference(1, 2, None, 0.5, None, False, "because")
COMPARISON = Comparison(CELL, 2, 3, 4, 1, 5, DIFFERENCE)
SETTINGS = {"seed": 1, "widths": (1, 2), "draft": None}


def test_every_cell_is_worked_on_once_and_in_a_mixed_order() -> None:
    cells, shuffled = MATRIX.cells(), MATRIX.shuffled()
    assert len(set(cells)) == 4 * 2 * 4 * 4
    assert shuffled != cells and Counter(shuffled) == Counter(cells)
    assert shuffled == MATRIX.shuffled()
    assert shuffled != replace(MATRIX, seed=2).shuffled()
    first = shuffled[:32]  # a quarter: every axis is covered
    assert {cell.temp for cell in first} == {0.0, 0.8}
    assert {cell.drafter for cell in first} == set(ArmDrafter)
    assert {cell.prompt for cell in first} == set(PROMPTS)
    assert {cell.draft_tokens for cell in first} == {1, 3, 7, None}


def test_lengths_that_a_limit_makes_equal_are_tried_once() -> None:
    assert MATRIX.limited(2).draft_tokens == (1, 2, None)
    assert MATRIX.limited(15).draft_tokens == MATRIX.draft_tokens


@pytest.mark.parametrize("wrong", [{"max_tokens": 0}, {"temps": (0.8, -1.0)}, {"seed": -1}])
def test_a_matrix_that_cannot_be_run_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        replace(MATRIX, **wrong)  # type: ignore[arg-type]


PROMPT, KNOWN, N_VOCAB = [900, 901], list(range(400)), 1000


def drafts(context: list[int], k: int = 5, n: int = 2000) -> list[tuple[int, ...]]:
    drafter = RandomDrafter(KNOWN, N_VOCAB, Random(0))
    drafter.begin(PROMPT)
    return [drafter.propose(context, FixedRound(k)).tokens for _ in range(n)]


def test_random_drafts_are_the_known_text_with_errors_and_of_every_length() -> None:
    found = drafts([*PROMPT, *KNOWN[:10]])
    lengths = Counter(map(len, found))
    assert set(lengths) == {1, 2, 3, 4, 5} and min(lengths.values()) > 300
    guesses = [(token, 10 + i) for tokens in found for i, token in enumerate(tokens)]
    n_wrong = sum(token != known for token, known in guesses)
    assert abs(n_wrong / len(guesses) - WRONG) < 0.02
    assert all(0 <= token < N_VOCAB for token, _ in guesses)
    patterns = {tuple(t == 10 + i for i, t in enumerate(tokens)) for tokens in found}
    assert {p for p in patterns if len(p) == 3} == set(product((True, False), repeat=3))


def test_random_drafts_go_on_after_the_known_text_and_beside_it() -> None:
    for context in ([*PROMPT, *KNOWN], [*PROMPT, *KNOWN[:3], 7]):
        tokens = [token for draft in drafts(context, n=300) for token in draft]
        assert len(set(tokens)) > 200
    last = [draft for draft in drafts([*PROMPT, *KNOWN[:-1]]) if len(draft) > 1]
    assert sum(draft[0] == KNOWN[-1] for draft in last) > len(last) / 2


def test_random_drafts_are_those_of_their_seed() -> None:
    assert drafts(PROMPT) == drafts(PROMPT)


def test_what_is_saved_is_read_by_the_next_archive(tmp_path: Path) -> None:
    path = tmp_path / "save.jsonl"
    archive = Archive(open_save(path), SETTINGS)
    assert path.exists()  # a file that cannot be written is found before hours of work
    archive.add_plain(CELL.prompt, CELL.temp, TEXT)
    archive.add_comparison(COMPARISON)
    for again in (archive, Archive(open_save(path), SETTINGS)):
        assert again.plain(CELL.prompt, CELL.temp) == TEXT
        assert again.comparison(CELL) == COMPARISON
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[1]["configuration"] == {
        **json.loads(json.dumps(SETTINGS)),
        "prompt": "p0",
        "prompt_sha256": lines[0]["configuration"]["prompt_sha256"],
        "temp": 0.0,
        "drafter": "model",
        "draft_tokens": 1,
    }


def test_a_file_name_that_is_not_utf_8_is_kept_and_found_again(tmp_path: Path) -> None:
    path, settings = tmp_path / "save.jsonl", SETTINGS | {"target": "\udcff.gguf"}
    Archive(open_save(path), settings).add_comparison(COMPARISON)
    assert Archive(open_save(path), settings).comparison(CELL) == COMPARISON


def test_an_equal_comparison_and_a_draft_length_of_auto_survive(tmp_path: Path) -> None:
    path = tmp_path / "save.jsonl"
    cell = replace(CELL, draft_tokens=None)
    equal = replace(COMPARISON, cell=cell, difference=None)
    Archive(open_save(path), SETTINGS).add_comparison(equal)
    assert Archive(open_save(path), SETTINGS).comparison(cell) == equal


@pytest.mark.parametrize(
    "cell",
    [
        replace(CELL, prompt=NamedPrompt("p0", "own", "another text")),
        replace(CELL, prompt=NamedPrompt("other", "own", "text 0")),
        replace(CELL, temp=0.1),
        replace(CELL, drafter=ArmDrafter.RANDOM),
        replace(CELL, draft_tokens=None),
    ],
)
def test_another_cell_or_configuration_is_not_found(tmp_path: Path, cell: Cell) -> None:
    path = tmp_path / "save.jsonl"
    Archive(open_save(path), SETTINGS).add_comparison(COMPARISON)
    assert Archive(open_save(path), SETTINGS).comparison(cell) is None
    assert Archive(open_save(path), SETTINGS | {"seed": 2}).comparison(CELL) is None


def test_without_a_file_things_are_kept_in_memory() -> None:
    archive = Archive(None, SETTINGS)
    archive.add_plain(CELL.prompt, CELL.temp, TEXT)
    assert archive.plain(CELL.prompt, CELL.temp) == TEXT
    assert archive.plain(CELL.prompt, 0.1) is None


def test_a_line_that_was_cut_off_is_dropped_and_written_again(tmp_path: Path) -> None:
    path = tmp_path / "save.jsonl"
    Archive(open_save(path), SETTINGS).add_comparison(COMPARISON)
    whole = path.read_bytes()
    for n in (1, 30, len(whole) - 1):
        path.write_bytes(whole + whole[:n])
        archive = Archive(open_save(path), SETTINGS)
        assert path.read_bytes() == whole
        archive.add_plain(CELL.prompt, CELL.temp, TEXT)
        assert len(path.read_bytes().splitlines()) == 2


RESULT = {name: value for name, value in asdict(COMPARISON).items() if name != "cell"}
OTHERWISE = '{"schema": "spec-cli/verify-save/1", "configuration": {}, "result": %s}\n'


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("{}\n", 1),
        ("[" * 100_000 + "\n", 1),
        ("notes\n", 1),
        ("notes without an end", 1),
        ('{"schema": "other/1"}\n', 1),
        ('{"schema": "spec-cli/verify-save/1"}\n', 1),
        (OTHERWISE % '{"tokens": [1]}', 1),
        (OTHERWISE % "null", 1),
        (OTHERWISE % json.dumps(RESULT | {"difference": {"position": 1}}), 1),
    ],
)
def test_a_file_of_something_else_is_refused_and_left_alone(
    tmp_path: Path, content: str, line: int
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(content)
    with pytest.raises(UsageError, match=rf"line {line} was not written by"):
        open_save(path)
    assert path.read_text() == content


def test_a_file_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot use"):
        open_save(tmp_path / "none" / "save.jsonl")
