"""The built-in prompts, and files of the user's own."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from spec_cli.errors import UsageError
from spec_cli.prompts import (
    NamedPrompt,
    bench_prompts,
    built_in_prompts,
    first_of_each_kind,
    read_prompts,
)

KINDS = ["code", "edit", "prose", "steps", "extract"]
BENCH_KINDS = ["code", "edit", "prose", "steps", "summarise", "extract", "chat"]


def written(tmp_path: Path, text: str, name: str = "own.jsonl") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return path


def test_four_prompts_of_each_of_five_kinds_are_built_in() -> None:
    prompts = built_in_prompts()
    assert list(Counter(prompt.kind for prompt in prompts).items()) == [(k, 4) for k in KINDS]
    assert len({prompt.id for prompt in prompts}) == len({p.text for p in prompts}) == 20
    assert all(prompt.id.startswith(f"{prompt.kind}-") for prompt in prompts)


def test_what_verify_checks_with_never_changes() -> None:
    """Stored verify reports name these prompts; new ones belong into bench_prompts.jsonl."""
    prompts = json.dumps([[p.id, p.kind, p.text] for p in built_in_prompts()])
    digest = "57c8e8240960a1574b3ac0c3939e76c75064531f580094a62d0e5fc7009cc82a"
    assert hashlib.sha256(prompts.encode()).hexdigest() == digest


def test_some_built_in_prompts_are_long() -> None:
    """About 4 characters a token: past 512 and near 1024, before a token is generated."""
    lengths = sorted(len(prompt.text) for prompt in built_in_prompts())
    assert lengths[-1] > 4500
    assert sum(length > 1900 for length in lengths) >= 3


def test_the_benchmark_has_six_prompts_of_each_of_seven_kinds() -> None:
    prompts = bench_prompts()
    assert list(Counter(prompt.kind for prompt in prompts).items()) == [(k, 6) for k in BENCH_KINDS]
    assert len({prompt.id for prompt in prompts}) == len({p.text for p in prompts}) == 42
    assert all(prompt.id.startswith(f"{prompt.kind}-") for prompt in prompts)


def test_the_benchmark_keeps_the_built_in_prompts_in_their_order() -> None:
    own = {prompt.id for prompt in built_in_prompts()}
    assert tuple(p for p in bench_prompts() if p.id in own) == built_in_prompts()


def test_prompts_of_the_benchmark_are_as_long_as_their_kind_asks_for() -> None:
    """Texts to summarise have hundreds of words; sources to edit come in several languages."""
    by_kind = {kind: [p.text for p in bench_prompts() if p.kind == kind] for kind in BENCH_KINDS}
    assert all(200 <= len(text.split()) <= 450 for text in by_kind["summarise"])
    assert all(len(text.split()) <= 150 for kind in ("prose", "chat") for text in by_kind[kind])
    languages = [fence for text in by_kind["edit"] for fence in re.findall(r"```(\w+)", text)]
    assert set(languages) == {"python", "go", "javascript"}
    assert all(text.count("```") in (0, 2) for text in by_kind["edit"])
    assert all(len(text) < 6000 for texts in by_kind.values() for text in texts)


def test_the_first_of_each_kind_is_one_of_each() -> None:
    assert [prompt.kind for prompt in first_of_each_kind(built_in_prompts())] == KINDS


def test_so_many_of_each_kind_are_the_first_ones_kind_by_kind() -> None:
    prompts = bench_prompts()
    chosen = first_of_each_kind(prompts, 2)
    assert [prompt.kind for prompt in chosen] == [kind for kind in BENCH_KINDS for _ in range(2)]
    assert chosen[:2] == prompts[:2]
    assert first_of_each_kind(prompts, 99) == prompts


def test_a_json_line_needs_a_prompt_only(tmp_path: Path) -> None:
    own = {"prompt": "Hi.\nYou.", "id": "hi", "kind": "code", "more": 1}
    text = f'{{"prompt": " Süß "}}\r\n\n{json.dumps(own)}'
    assert read_prompts(written(tmp_path, text)) == (
        NamedPrompt("line-1", "own", " Süß "),
        NamedPrompt("hi", "code", "Hi.\nYou."),
    )


def test_each_line_of_a_text_file_is_a_prompt(tmp_path: Path) -> None:
    path = written(tmp_path, '\ufeffOne.\r\n\n{"prompt": "two"}\n', "own.TXT")
    assert [(p.id, p.text) for p in read_prompts(path)] == [
        ("line-1", "One."),
        ("line-3", '{"prompt": "two"}'),
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("Hi there", "is not JSON: Expecting value at column 1"),
        ('{"prompt": "a"', "is not JSON"),
        ('["a"]', "is not a JSON object"),
        ("{}", "`prompt` must be a text"),
        ('{"prompt": 3}', "`prompt` must be a text"),
        ('{"prompt": " \\n"}', "`prompt` must be a text that is not blank"),
        ('{"prompt": "a", "id": ""}', "`id` must be a text"),
        ('{"prompt": "a", "kind": null}', "`kind` must be a text"),
        ('{"prompt": "\\ud800"}', "`prompt` is not valid UTF-8"),
        ('{"prompt": "a", "id": "first"}', "the id `first` is that of line 1"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 5000, "nested too deeply"),
    ],
)
def test_a_bad_line_is_named_by_file_and_number(tmp_path: Path, line: str, problem: str) -> None:
    path = written(tmp_path, f'{{"id": "first", "prompt": "good"}}\n\n{line}\n')
    with pytest.raises(UsageError) as caught:
        read_prompts(path)
    assert caught.value.message.startswith(f"{path}, line 3")
    assert problem in caught.value.message


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no prompts"):
        read_prompts(written(tmp_path, "\n \n"))
    with pytest.raises(UsageError, match=r"cannot read .*none\.jsonl: No such file"):
        read_prompts(tmp_path / "none.jsonl")
    latin = tmp_path / "latin.txt"
    latin.write_bytes("Größe".encode("latin-1"))
    with pytest.raises(UsageError, match=r"latin\.txt is not valid UTF-8"):
        read_prompts(latin)
