"""llama.cpp's grammars as constraints: what is allowed, by any route, and nothing that aborts."""

from __future__ import annotations

import calendar
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spec_cli.errors import UsageError
from spec_cli.grammar.gbnf import parse_gbnf
from spec_cli.grammar.integers import integers
from spec_cli.grammar.json_schema import schema_to_gbnf
from spec_cli.llama.grammar import GrammarEngine, GrammarState
from spec_cli.llama.library import library
from spec_cli.llama.model import LlamaModel, LoadSettings
from spec_cli.llama.pieces import PieceTree
from tests.tiny_gguf import bpe_vocab, spm_vocab, write_tiny_model

ANY_OBJECT = schema_to_gbnf('{"type":"object"}')
GRAMMARS = {
    "json": ANY_OBJECT,
    "choice": 'root ::= "hello" | "hell no" | "the end"',
    "list": 'root ::= item+\nitem ::= "- " [^\\n]{1,20} "\\n"',
    "nested": 'root ::= "(" root* ")" | [a-e]',
    "accents": "root ::= [à-ÿ]{2,5} [0-9]?",
    "not é": "root ::= [^éa-z]+ [a-z]",
    "anything": "root ::= .*",
    "beyond": "root ::= [\\U00010000-\\U0010FFFF]+",
}
BAD = {
    'root ::= "a" x\nx ::= "b"\n\nroot ::= "c"': "line 4 of the grammar: there are two",
    'rot ::= "a"': "no rule `root`",
    'root ::= "a" foo': "line 1 of the grammar: there is no rule `foo`",
    'root ::= "a"\nx = "b"': "line 2 of the grammar: `::=` is missing after `x`",
    'root ::= root "a"': "line 1 of the grammar: `root` can begin with itself",
    'root ::= a\na ::= b? c\nb ::= "x"\nc ::= a "y" | "z"': "can begin with itself",
    'root ::= e root "a"\ne ::= f\nf ::= ""': "can begin with itself",
    'root ::= "x" ("a"*)*': "what may be empty is repeated without end",
    'root ::= "a': '`"` is missing',
    "root ::= [a-z": "`]` is missing",
    "root ::= []": "a class of characters is empty",
    "root ::= [z-a]": "a range of characters ends before it begins",
    'root ::= ("a"': "`)` is missing",
    'root ::= "\\q"': "an escape is not understood",
    'root ::= "a"{3,1}': "repeats nothing",
    'root ::= "a"{0}': "repeats nothing",
    'root ::= "a"{5000}': "2000 times at most",
    f'root ::= "a"{{{"9" * 5000}}}': "2000 times at most",
    'root ::= "a"{\u0663}': "a repetition is `{n}`, `{n,}` or `{n,m}`",
    'root ::= ("a"{0,100}){100}': "a repetition of repetitions is too long",
    "root ::= *": "nothing before `*` to repeat",
    'root ::= ""*': "nothing before `*` to repeat",
    'root ::= "a"**': "without parentheses",
    "root ::= <think>": "token literals are not supported",
    "root ::= !<[3]>": "token literals are not supported",
    'root ::= "a" $': "`$` is not understood here",
    "root ::= " + "(" * 200 + '"a"' + ")" * 200: "nested more than 100 times",
    "": "no rule `root`",
    "# nothing": "no rule `root`",
    'root ::= "\0"': "there is a NUL character",
    "root ::= r0\n" + "".join(f'r{i} ::= r{i + 1} "x" | r{i + 1} "y"\n' for i in range(40))
    + 'r40 ::= "z"': "branches too often",
    "x" * 300_000: "at most 262,144 fit",
}  # fmt: skip


def no_time() -> float:
    return 0.0


@pytest.fixture(scope="module", params=["bpe", "spm"])
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LlamaModel]:
    vocab = {"bpe": bpe_vocab, "spm": spm_vocab}[request.param]()
    path = write_tiny_model(tmp_path_factory.mktemp("grammar") / "tiny.gguf", vocab=vocab)
    with LlamaModel(path, LoadSettings()) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def start(model: LlamaModel) -> Callable[[str], GrammarState]:
    tree = PieceTree(model)
    return lambda source: GrammarEngine(model, tree, parse_gbnf(source), no_time).start


def spelled(model: LlamaModel, text: bytes) -> list[int]:
    """The tokens of the single bytes."""
    ids = {model.piece(token): token for token in reversed(range(model.n_vocab))}
    return [ids[bytes([byte])] for byte in text]


def walk(state: GrammarState, model: LlamaModel, text: bytes) -> GrammarState | None:
    """The state after the bytes of `text`; None where one of them is not allowed."""
    for token in spelled(model, text):
        if not state.allows(np.array([token]))[0]:
            return None
        state = state.after(token)
    return state


def accepts(state: GrammarState, model: LlamaModel, text: str) -> bool:
    end = walk(state, model, text.encode())
    return end is not None and end.is_complete


def random_states(state: GrammarState, seed: int, n: int) -> Iterator[GrammarState]:
    """States along random texts, new ones where a text has ended."""
    rng, first = np.random.default_rng(seed), state
    for _ in range(n):
        yield state
        ids = state.allowed()
        token = int(rng.choice(ids))
        following = state.after(token)
        state = first if following is state else following


@pytest.mark.parametrize("grammar", GRAMMARS.values(), ids=GRAMMARS)
def test_what_the_tree_of_pieces_finds_is_what_each_token_is_told(
    grammar: str, model: LlamaModel, start: Callable[[str], GrammarState]
) -> None:
    every = np.arange(model.n_vocab)
    for state in random_states(start(grammar), seed=3, n=60):
        allowed = state.allowed().tolist()
        assert allowed == every[state.allows(every)].tolist()
        assert allowed == [x for x in every if state.allows(np.array([x]))[0]]
        assert allowed


@pytest.mark.parametrize("grammar", GRAMMARS.values(), ids=GRAMMARS)
def test_texts_are_utf_8_without_control_tokens_and_end_where_they_may(
    grammar: str, model: LlamaModel, start: Callable[[str], GrammarState]
) -> None:
    rng, first = np.random.default_rng(5), start(grammar)
    for _ in range(8):
        state, text = first, b""
        for _ in range(40):
            token = int(rng.choice(state.allowed()))
            if model.is_end(token):
                assert state.is_complete
                text.decode()
                break
            assert model.piece(token)
            text += model.piece(token)
            state = state.after(token)


@pytest.mark.parametrize(
    ("text", "n_read"), [("there", 3), ("the end", 7), ("tx", 1), ("", 0), ("é", 0), ("hello!", 5)]
)
def test_a_text_is_read_as_far_as_it_is_allowed(
    text: str, n_read: int, model: LlamaModel, start: Callable[[str], GrammarState]
) -> None:
    state, n = start(GRAMMARS["choice"]).read(text)
    assert n == n_read
    expected = walk(start(GRAMMARS["choice"]), model, text[:n].encode())
    assert expected is not None
    assert state.allowed().tolist() == expected.allowed().tolist()
    whole, n = start('root ::= "né" [a-z]').read("né")
    assert n == 2 and whole.allows(np.array(spelled(model, b"x"))).all()


def test_a_state_is_a_value(model: LlamaModel, start: Callable[[str], GrammarState]) -> None:
    state = start(GRAMMARS["choice"])
    h, t = (spelled(model, c)[0] for c in (b"h", b"t"))
    assert state.after(h).allowed().tolist() != state.after(t).allowed().tolist()
    assert state.allows(np.array([h, t])).all()
    assert not state.after(h).allows(np.array([t]))[0]


def test_a_forbidden_token_is_refused_and_not_an_abort(
    model: LlamaModel, start: Callable[[str], GrammarState]
) -> None:
    state = start(GRAMMARS["choice"])
    for token in (spelled(model, b"x")[0], *model.ends):
        with pytest.raises(ValueError, match="not allowed"):
            state.after(token)


def test_the_end_is_allowed_only_where_the_grammar_is_complete(
    model: LlamaModel, start: Callable[[str], GrammarState]
) -> None:
    state = walk(start(GRAMMARS["choice"]), model, b"hello")
    assert state is not None and state.is_complete
    assert state.allowed().tolist() == sorted(model.ends)
    assert state.after(model.ends[0]) is state
    assert not start(GRAMMARS["choice"]).is_complete


def test_a_character_is_not_left_unfinished(
    model: LlamaModel, start: Callable[[str], GrammarState]
) -> None:
    state = walk(start('root ::= "a" [é]?'), model, b"a\xc3")
    assert state is not None and not state.is_complete
    assert state.allowed().tolist() == sorted(
        x for x in range(model.n_vocab) if model.piece(x) == b"\xa9"
    )


@pytest.mark.parametrize(("grammar", "message"), BAD.items(), ids=[m[-25:] for m in BAD.values()])
def test_a_grammar_that_cannot_be_used_is_one_line(grammar: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_gbnf(grammar)
    assert message in caught.value.message
    assert "\n" not in caught.value.message


VALID = [
    *GRAMMARS.values(),
    'root ::= (\n "a" # one\n | "b" ) ("c" | ) x\nx ::= [-a\\]"]? "\\x41" .',
    'root::="a"|\n"b"\r\n\r\nx-1 ::= "c"',
    'root ::= "a"{2,} ("b" "c"){0,3} [0-9]{ 4 }',
]
SIGNS = [*'"[](){}|*+?\\-^.:=<!#\n aé0', "root"]
mutations = st.lists(
    st.tuples(st.integers(0, 10**6), st.sampled_from(["", *SIGNS])),
    min_size=1,
    max_size=3,
)


@given(grammar=st.sampled_from(VALID), changes=mutations)
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_llama_cpp_can_use_whatever_passes(
    grammar: str,
    changes: Sequence[tuple[int, str]],
    model: LlamaModel,
    start: Callable[[str], GrammarState],
) -> None:
    for at, text in changes:
        at %= len(grammar) + 1
        grammar = grammar[:at] + text + grammar[at + 1 :]
    try:
        first = start(grammar)
    except UsageError as error:
        assert "llama.cpp" not in error.message
        return
    assert len(list(random_states(first, seed=1, n=5))) == 5
    assert library().log.take_errors() == []


SCHEMAS: list[tuple[object, Sequence[object], Sequence[object]]] = [
    ({}, [1, "x", None, [], {"a": [True]}], []),
    (True, [1, {}], []),
    ({"type": "object"}, [{}, {"a": 1, "b": {"c": [1.5, -2e3]}}], [1, []]),
    ({"type": "array"}, [[], [1, "x"]], [{}]),
    ({"type": "string"}, ["", "é\n\"\\ \u4e16"], [1]),
    ({"type": "integer"}, [0, -5, 123], [1.5, "1"]),
    ({"type": "number"}, [0, 1.5, -2e3], ["1", None]),
    ({"type": ["integer", "null"], "title": "x"}, [1, None], ["x", 1.5]),
    ({"enum": ["red", "grün", 3, None]}, ["red", "grün", 3, None], ["blue", 4]),
    ({"type": "string", "enum": ["red", 3]}, ["red"], [3]),
    ({"const": {"a\n": [1]}}, [], [{"a\n": [2]}]),
    ({"const": [1]}, [[1]], [[2], 1]),
    ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, [1, True], ["x", None]),
    (
        {
            "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": True},
            "required": ["b"],
        },
        [{"b": "x"}, {"a": 1, "b": "x"}, {"a": 1, "b": "", "c": 1}, {"b": "", "c": {}}],
        [{}, {"a": 1}, {"b": 1}, {"b": "x", "a": 1}, {"b": "x", "d": 1}],
    ),
    (
        {"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
        [{}, {"a": 1}, {"b": 1}, {"a": 1, "b": 2}],
        [{"c": 1}, {"b": 1, "a": 1}],
    ),
    (
        {
            "properties": {"age": {"type": "integer"}, "ad": True},
            "required": ["age"],
            "additionalProperties": {"type": "string"},
        },
        [{"age": 1}, {"age": 1, "ad": 2, "agent": "x", "a": "y", "": "z", "b": ""}],
        [{"age": 1, "x": 1}, {"agent": "x"}],
    ),
    ({"additionalProperties": {"type": "integer"}}, [{}, {"a": 1}], [{"a": "x"}]),
    ({"properties": {"a": {"type": "null"}}, "additionalProperties": {"type": "null"}},
     [{"a": None, "b": None, "ab": None}], [{"b": 1}]),
    ({"required": ["a"]}, [{"a": 1}, {"a": {}, "b": 2}], [{}, {"b": 1}]),
    ({"additionalProperties": False}, [{}], [{"a": 1}]),
    ({"items": {"type": "integer"}, "minItems": 2, "maxItems": 3}, [[1, 2], [1, 2, 3]],
     [[], [1], [1, 2, 3, 4], [1, "x"]]),
    ({"items": {"type": "integer"}, "minItems": 1}, [[1], [1, 2, 3, 4]], [[]]),
    ({"type": "array", "maxItems": 0}, [[]], [[1]]),
    ({"prefixItems": [{"type": "integer"}, {"type": "string"}]}, [[1, "x"]], [[1], [1, 2], []]),
    ({"prefixItems": [{"type": "integer"}], "items": {"type": "string"}, "maxItems": 3},
     [[1], [1, "x"], [1, "x", "y"]], [[], ["x"], [1, "x", "y", "z"]]),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "éab", "\"\\"], ["a", "abcd"]),
    ({"type": "string", "pattern": "^[a-c]{2}-\\d+$"}, ["ab-1", "cc-123"], ["a-1", "ab-", "xab-1"]),
    ({"type": "string", "pattern": "b+"}, ["b", "abbc"], ["", "ac"]),
    ({"type": "string", "pattern": "^(?:ab|[^\"a-y])*\\.$"}, ["ab.", "zé\\."], ['".', "a."]),
    ({"type": "string", "pattern": "^.\\s?\\w$"}, ['"a', "\\\t_"], ["a", "\n\n"]),
    ({"type": "string", "format": "date"},
     ["2026-11-30", "2026-01-31", "2026-02-28", "2024-02-29", "2000-02-29", "0400-12-31"],
     ["2026-13-30", "2026-11-31", "2026-02-29", "2026-02-30", "1900-02-29", "2026-01-00", "x"]),
    ({"type": "string", "format": "uuid"}, ["123e4567-e89b-12d3-a456-426614174000"], ["123"]),
    ({"type": "string", "format": "date-time"}, ["2026-11-30T12:00:00Z"], ["2026-11-30"]),
    ({"type": "integer", "minimum": 0}, [0, 7, 123456], [-1]),
    ({"type": "integer", "exclusiveMaximum": 5, "minimum": 3.5}, [4], [3, 5]),
    ({"type": "number", "minimum": 0}, [0, 0.5], [-1]),
    ({"$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}}},
      "$ref": "#/$defs/node"}, [{}, {"next": {"next": {}}}], [{"x": 1}, {"next": 1}]),
    ({"allOf": [{"$ref": "#/$defs/a"}, {"properties": {"b": {"type": "null"}}, "required": ["b"]}],
      "$defs": {"a": {"type": "object", "properties": {"a": {"type": "integer"}}}}},
     [{"a": 1, "b": None}, {"b": None}], [{}, {"a": 1}]),
    ({"allOf": [{"$ref": "#/$defs/a", "required": ["a"]}, {"properties": {"b": {"type": "null"}}}],
      "$defs": {"a": {"type": "object", "properties": {"a": {"type": "integer"}}}}},
     [{"a": 1, "b": None}, {"a": 1}], [{}, {"b": None}]),
    ({"$ref": "#/$defs/a", "required": ["a"], "allOf": [{"x-order": 1}, {"x-order": 2}],
      "$defs": {"a": {"type": "object", "properties": {"a": {"type": "integer"}}}}},
     [{"a": 1}], [{}]),
    ({"const": 1, "enum": [2, 1]}, [1], [2]),
    ({"type": "string", "pattern": "^\\S[^\\s]$"}, ["aé"], ["a\xa0", "\u2003b", "a\ufeff", "a "]),
    ({"type": "string", "pattern": "^\\u{1F600}\\x41$"}, ["\U0001f600A"], ["A"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "good", "bad"), SCHEMAS, ids=lambda value: json.dumps(value)[:40]
)
def test_a_schema_allows_what_satisfies_it_and_nothing_else(
    schema: object,
    good: Sequence[object],
    bad: Sequence[object],
    model: LlamaModel,
    start: Callable[[str], GrammarState],
) -> None:
    state = start(schema_to_gbnf(json.dumps(schema)))
    for value in good:
        for separators in ((", ", ": "), (",", ":")):
            text = json.dumps(value, ensure_ascii=False, separators=separators)
            assert accepts(state, model, text), text
    for value in bad:
        assert not accepts(state, model, json.dumps(value, ensure_ascii=False)), value


def test_a_date_is_one_of_the_calendar(
    model: LlamaModel, start: Callable[[str], GrammarState]
) -> None:
    state = start(schema_to_gbnf('{"format": "date"}'))
    for year in (1900, 1996, 2000, 2004, 2010, 2100):
        days = [f"{year}-02-{day}" for day in (28, 29)]
        allowed = [accepts(state, model, f'"{day}"') for day in days]
        assert allowed == [True, calendar.isleap(year)]


def test_a_key_that_spells_a_property_in_another_way_is_not_another_key(
    model: LlamaModel, start: Callable[[str], GrammarState]
) -> None:
    schema = {"properties": {"age": {"type": "integer"}}, "additionalProperties": True}
    state = start(schema_to_gbnf(json.dumps(schema)))
    assert accepts(state, model, '{"age": 1, "agf": "x"}')
    for key in ("age", "\\u0061ge"):
        assert not accepts(state, model, f'{{"{key}": "x"}}')
        assert not accepts(state, model, f'{{"age": 1, "{key}": "x"}}')


def test_strings_may_have_escapes_and_objects_line_ends(
    model: LlamaModel, start: Callable[[str], GrammarState]
) -> None:
    state = start(schema_to_gbnf("{}"))
    value = {"a": ['é\n"\\ \u4e16', {"b": None}]}
    assert accepts(state, model, json.dumps(value))
    assert accepts(state, model, json.dumps(value, indent=2))


@pytest.mark.parametrize(
    "text", ['"\n"', '"\t"', '"\\x"', '"\\ud800"', "01", "+1", "1.", ".5", "'a'"]
)
def test_what_is_no_json_is_not_allowed(
    text: str, model: LlamaModel, start: Callable[[str], GrammarState]
) -> None:
    assert not accepts(start(schema_to_gbnf("{}")), model, text)


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 0), (0, 9), (3, 12), (17, 345), (-5, 5), (-120, -7), (100, 999), (99, 1000), (-1000, 23)],
)
def test_integers_within_bounds(
    low: int, high: int, model: LlamaModel, start: Callable[[str], GrammarState]
) -> None:
    state = start(f"root ::= {integers(low, high)}")
    found = [n for n in range(-1300, 1300) if accepts(state, model, str(n))]
    assert found == list(range(low, high + 1))
    assert not accepts(state, model, "-0") and not accepts(state, model, "007")


@pytest.mark.parametrize(("low", "high"), [(None, 12), (12, None), (None, None), (None, -12)])
def test_integers_with_one_bound(
    low: int | None, high: int | None, model: LlamaModel, start: Callable[[str], GrammarState]
) -> None:
    state = start(f"root ::= {integers(low, high)}")
    for n in [*range(-30, 30), 10**15, -(10**15)]:
        inside = (low is None or n >= low) and (high is None or n <= high)
        assert accepts(state, model, str(n)) == inside
    assert integers(5, 4) == ""


def test_a_step_that_takes_too_long_is_the_last(tmp_path: Path) -> None:
    readings = iter([0.0, 1.0, 1.0, 7.5])
    with LlamaModel(write_tiny_model(tmp_path / "m.gguf"), LoadSettings()) as model:
        grammar = parse_gbnf(GRAMMARS["choice"])
        state = GrammarEngine(model, PieceTree(model), grammar, lambda: next(readings)).start
        assert state.allows(np.array(spelled(model, b"h")))[0]
        with pytest.raises(UsageError, match=r"one step took 6\.5 s"):
            state.allows(np.array(spelled(model, b"h")))


def test_bytes_and_merged_tokens_lead_to_the_same_state(tmp_path: Path) -> None:
    with LlamaModel(write_tiny_model(tmp_path / "m.gguf"), LoadSettings()) as model:
        state = GrammarEngine(
            model, PieceTree(model), parse_gbnf(GRAMMARS["choice"]), no_time
        ).start
        (hello,) = [x for x in range(model.n_vocab) if model.piece(x) == b"hello"]
        slow = walk(state, model, b"hello")
        assert slow is not None
        assert state.after(hello).allowed().tolist() == slow.allowed().tolist()
