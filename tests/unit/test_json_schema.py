"""What a JSON schema is refused for; what its grammar allows is tested with llama.cpp's engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.errors import UsageError
from spec_cli.grammar.gbnf import parse_gbnf
from spec_cli.grammar.integers import MAX_DIGITS
from spec_cli.grammar.json_schema import schema_to_gbnf

DIGITS = "9" * 5000  # more than Python reads
LARGE = 10**MAX_DIGITS - 1

REFUSED: list[tuple[object, str]] = [
    (False, "at #: false is not a schema that anything can satisfy"),
    ({"items": None}, "at #/items: null is not a schema"),
    ({"minProperties": 1, "maxProperties": 2}, "at #: `maxProperties` is not supported"),
    ({"type": "strin"}, '"strin" is not a type'),
    ({"type": "strin", "enum": ["a"]}, '"strin" is not a type'),
    ({"type": [{}], "enum": [1]}, "{} is not a type"),
    ({"type": []}, "nothing to choose from"),
    ({"type": "string", "enum": [1]}, "no value to choose from"),
    ({"const": 1, "enum": [2]}, "no value to choose from"),
    ({"const": 1, "enum": [True, 1.0]}, "no value to choose from"),
    ({"const": 1, "minimum": 0}, "`const` and `enum` are not supported beside other keywords"),
    ({"anyOf": [True], "type": "object"}, "`anyOf` is not supported beside other keywords"),
    ({"anyOf": []}, "at #/anyOf: there is nothing to choose from"),
    ({"properties": [1]}, "`properties` is [1]"),
    ({"required": 5}, "`required` is 5"),
    ({"required": [[]]}, "`required` lists []"),
    ({"properties": {"a": True}, "required": ["b"]}, "`b` is required, but is not among"),
    ({"properties": {"a": {"type": 1}}}, "at #/properties/a: `type` is 1"),
    ({"format": ["date"]}, "`format` is"),
    ({"format": "date", "maxLength": 10}, "not supported beside a length"),
    ({"pattern": "a", "minLength": 1}, "not supported beside a length"),
    ({"pattern": "a", "format": "date"}, "`pattern` is not supported beside the format `date`"),
    ({"minLength": True}, "`minLength` is true, but must be 0 to 2000"),
    ({"minLength": None}, "`minLength` is null, but must be 0 to 2000"),
    ({"maxItems": 2001}, "`maxItems` is 2001, but must be 0 to 2000"),
    ({"minLength": 3, "maxLength": 2}, "no string has at least 3 and at most 2 characters"),
    ({"prefixItems": [True, True], "maxItems": 1}, "no array has at least 2 and at most 1 items"),
    ({"prefixItems": [True], "items": [True]}, "a list of `items` is not supported beside"),
    ({"type": "number", "maximum": 1}, "only `minimum` 0 is supported"),
    ({"type": "integer", "minimum": "1"}, "a bound is not a number"),
    ({"type": "integer", "minimum": 1, "maximum": 0}, "no integer is within the bounds"),
    ({"type": "integer", "exclusiveMinimum": LARGE + 1}, "a bound has more than 64 digits"),
    ({"type": "integer", "maximum": -1e300}, "a bound has more than 64 digits"),
    ({"$ref": "other.json"}, 'the reference "other.json" points outside the schema'),
    ({"$ref": "#/$defs/a"}, 'the reference "#/$defs/a" points to nothing'),
    ({"anyOf": [{"$ref": f"#/anyOf/{DIGITS}"}]}, "points to nothing"),
    ({"allOf": [{"allOf": 5}, {}]}, "`allOf` is 5"),
    ({"allOf": [{"required": 5}, {"required": ["a"]}]}, "`required` is 5"),
    ({"allOf": [{"properties": {}}, {"properties": [1]}]}, "`properties` is [1]"),
    ({"allOf": [True, {}]}, "true in `allOf` is not supported"),
    ({"allOf": [{"const": 1}, {"const": True}]}, "`const` differs between the parts"),
    ({"allOf": [{"minimum": 0}, {"minimum": 1}]}, "`minimum` differs between the parts"),
    ({"allOf": [{"additionalProperties": False}, {}]}, "not supported beside `allOf`, or in it"),
]  # fmt: skip

PATTERNS = [
    ("a(?=b)", "look-around and named groups are not supported"),
    ("(a", "`)` is missing"),
    ("(a$)", "`$` is not supported here"),
    ("a)", "`)` is not supported here"),
    ("a^b", "`^` is not supported here"),
    ("*", "`*` is not supported here"),
    ("[a", "`]` is missing"),
    ("[]", "no character that JSON can write"),
    ("\x00", "no character that JSON can write"),
    ("\ud83d", "no character that JSON can write"),
    ("[z-a]", "a range of characters is not valid"),
    ("\\1", "`\\1` is not supported"),
    ("\\bword", "`\\b` is not supported"),
    ("\\ud83d\\ude00", "`\\ud83d` is not a character"),
    ("\\u{110000}", "`\\u{110000}` is not a character"),
    ("a{2001}", "`{2001}` is not supported"),
    (f"a{{{DIGITS}}}", "is not supported"),
    ("(" * 5000, "nested too deeply"),
]


@pytest.mark.parametrize(("schema", "message"), REFUSED, ids=lambda value: json.dumps(value)[:50])
def test_what_a_grammar_would_not_enforce_is_refused_with_its_place(
    schema: object, message: str
) -> None:
    with pytest.raises(UsageError) as raised:
        schema_to_gbnf(json.dumps(schema))
    assert message in raised.value.message
    assert raised.value.message.startswith("the JSON schema ")


@pytest.mark.parametrize(("pattern", "message"), PATTERNS, ids=[p[:20] for p, _ in PATTERNS])
def test_a_pattern_that_a_grammar_cannot_say_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        schema_to_gbnf(json.dumps({"type": "string", "pattern": pattern}))
    assert message in raised.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the JSON schema is not JSON: "),
        ("NaN", "the JSON schema is not JSON: it has `NaN`"),
        ("1e999", "the number 1e999, which is too large"),
        (DIGITS, "a number of too many digits"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_text_that_is_no_json_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        schema_to_gbnf(text)
    assert message in raised.value.message


@given(bounds=st.lists(st.integers(-LARGE, LARGE), min_size=2, max_size=2).map(sorted))
def test_bounds_of_many_digits_make_a_grammar_that_can_be_used(bounds: list[int]) -> None:
    low, high = bounds
    parse_gbnf(schema_to_gbnf(json.dumps({"type": "integer", "minimum": low, "maximum": high})))


def ladder(step: Callable[[dict[str, str]], object]) -> str:
    """A schema of 60 steps, each made of two references to the next."""
    steps = {f"s{n}": step({"$ref": f"#/$defs/s{n + 1}"}) for n in range(60)}
    return json.dumps({"$ref": "#/$defs/s0", "$defs": {**steps, "s60": {"type": "integer"}}})


def test_a_schema_that_repeats_itself_does_not_grow_without_end() -> None:
    parse_gbnf(schema_to_gbnf(ladder(lambda below: {"allOf": [below, dict(below)]})))
    parse_gbnf(schema_to_gbnf(ladder(lambda below: {"properties": {"a": below, "b": below}})))
    with pytest.raises(UsageError, match="expands to more than 50,000 schemas"):
        schema_to_gbnf(
            ladder(lambda below: {"properties": {name: {"allOf": [below, {}]} for name in "ab"}})
        )


def test_a_schema_that_must_satisfy_itself_and_more_must_satisfy_more() -> None:
    loop = {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"const": 1}]}}, "$ref": "#/$defs/a"}
    assert 'a ::= ( "1" )' in schema_to_gbnf(json.dumps(loop))


WORDS = ["a", "type", "string", "integer", "object", "#", "#/$defs/a", "date", "^a$", "x-a"]
KEYS = [
    "type", "enum", "const", "anyOf", "allOf", "$ref", "$defs", "properties", "required", "items",
    "additionalProperties", "prefixItems", "minItems", "maxLength", "pattern", "format", "minimum",
    "exclusiveMaximum", "title", "x-a", "a",
]  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS), inner, min_size=1, max_size=4)
    ),
    max_leaves=12,
)


@given(schema=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4))
def test_whatever_stands_in_a_schema_makes_a_grammar_or_one_error(schema: dict[str, Any]) -> None:
    try:
        parse_gbnf(schema_to_gbnf(json.dumps(schema)))
    except UsageError as error:
        assert "\n" not in error.message
