"""From a JSON schema to a GBNF grammar whose every text is JSON that satisfies the schema.

A keyword that the grammar would not enforce is refused, by name and place. The grammar may be
narrower than the schema: properties come in the order in which they are written, others come
only where `additionalProperties` asks for them, and numbers have a bounded number of digits.
`oneOf` is read as `anyOf`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import ceil, floor, isfinite
from typing import Any, NoReturn

from spec_cli.errors import UsageError
from spec_cli.grammar.chars import literal
from spec_cli.grammar.gbnf import MAX_REPEAT
from spec_cli.grammar.integers import MAX_DIGITS, integers
from spec_cli.grammar.keywords import (
    BY_TYPE,
    Schema,
    are_same,
    is_of_type,
    keywords,
    refuse,
    types,
)
from spec_cli.grammar.pattern import pattern_to_gbnf
from spec_cli.grammar.references import merged, resolved
from spec_cli.grammar.rulebook import FORMATS, RuleBook, repeated, written

_MAX_VISITS = 50_000  # more than a grammar that is not too long can have rules


def schema_to_gbnf(text: str) -> str:
    """The grammar of a JSON schema. Raises UsageError, with the place in the schema."""
    try:
        schema = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise UsageError(f"the JSON schema is not JSON: {error.msg} at {where}") from None
    except ValueError:  # from Python, which reads no longer ones
        raise UsageError("the JSON schema has a number of too many digits") from None
    except RecursionError:
        raise UsageError("the JSON schema is nested too deeply") from None
    return _Converter(schema).grammar()


class _Converter:
    """Makes rules of schemas; `at` is always the JSON pointer of the schema at hand."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._book = RuleBook()
        self._references: dict[str, str] = {}
        self._n_visits = 0

    def grammar(self) -> str:
        try:
            root = self._visit(self._schema, "#")
        except RecursionError:
            raise UsageError("the JSON schema is nested too deeply") from None
        return self._book.gbnf(root)

    def _visit(self, schema: Any, at: str) -> str:
        """What stands for `schema` in a rule: one name, or one group."""
        self._n_visits += 1
        if self._n_visits > _MAX_VISITS:
            raise UsageError(f"the JSON schema expands to more than {_MAX_VISITS:,} schemas")
        if schema is True:
            return self._book.built_in("value")
        if not isinstance(schema, dict):
            refuse(at, f"{json.dumps(schema)} is not a schema that anything can satisfy")
        keys = keywords(schema, at)
        if "allOf" in keys:
            if keys == {"allOf"} and len(schema["allOf"]) == 1:
                return self._visit(schema["allOf"][0], at)
            return self._visit(merged(self._schema, schema, at), at)
        for key in ("$ref", "anyOf", "oneOf"):
            if key in keys:
                if keys != {key}:
                    refuse(at, f"`{key}` is not supported beside other keywords")
                if key == "$ref":
                    return self._reference(schema[key], at)
                return self._union(schema[key], f"{at}/{key}")
        if "const" in keys or "enum" in keys:
            return self._literals(schema, keys, at)
        return self._typed(schema, keys, at)

    def _typed(self, schema: Schema, keys: set[str], at: str) -> str:
        kind = schema.get("type")
        if isinstance(kind, list):
            return self._union([{**schema, "type": one} for one in kind], at)
        if kind is None:
            kind = next((name for name, own in BY_TYPE.items() if own & keys), "value")
        make = {
            "object": self._object,
            "array": self._array,
            "string": self._string,
            "number": self._number,
            "integer": self._integer,
        }.get(kind)
        own = BY_TYPE["number" if kind == "integer" else kind] if make else set()
        return make(schema, at) if make and own & keys else self._book.built_in(kind)

    def _union(self, schemas: Sequence[Any], at: str) -> str:
        if not schemas:
            refuse(at, "there is nothing to choose from")
        options = [self._visit(option, f"{at}/{i}") for i, option in enumerate(schemas)]
        return f"( {' | '.join(dict.fromkeys(options))} )"

    def _literals(self, schema: Schema, keys: set[str], at: str) -> str:
        if keys - {"const", "enum", "type"}:
            refuse(at, "`const` and `enum` are not supported beside other keywords")
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        if "const" in schema:
            values = [value for value in values if are_same(value, schema["const"])]
        if "type" in schema:
            values = [value for value in values if is_of_type(value, types(schema))]
        if not values:
            refuse(at, "there is no value to choose from")
        return f"( {' | '.join(literal(written(value)) for value in values)} )"

    def _reference(self, target: str, at: str) -> str:
        if target not in self._references:
            name = self._references[target] = self._book.reserve(target)
            self._book.say(name, self._visit(resolved(self._schema, target, at), target))
        return self._references[target]

    def _object(self, schema: Schema, at: str) -> str:
        properties = dict(schema.get("properties", {}))
        required = schema.get("required", [])
        additional = schema.get("additionalProperties", not properties)
        for name in required:
            if name not in properties:
                if additional is False:
                    refuse(at, f"`{name}` is required, but is not among the properties")
                properties[name] = additional
        members = [
            self._book.rule(f"{at}-{name}", self._member(name, value, f"{at}/properties/{name}"))
            for name, value in properties.items()
        ]
        other = self._other_member(list(properties), additional, at)
        return self._book.rule(
            at, self._book.members(members, [n in required for n in properties], other)
        )

    def _member(self, name: str, schema: Any, at: str) -> str:
        return f'{literal(written(name))} ":" {self._book.ws} {self._visit(schema, at)}'

    def _other_member(self, names: Sequence[str], additional: Any, at: str) -> str:
        """The rule of members that have none of the `names`; nothing where there may be none."""
        if additional is False:
            return ""
        value = self._visit(additional, f"{at}/additionalProperties")
        key = self._book.built_in("string")
        if names:
            key = self._book.rule(f"{at}-other-key", self._book.key_other_than(names))
        return self._book.rule(f"{at}-other", f'{key} ":" {self._book.ws} {value}')

    def _array(self, schema: Schema, at: str) -> str:
        first, items = schema.get("prefixItems", []), schema.get("items", True)
        if isinstance(items, list):
            if first:
                refuse(at, "a list of `items` is not supported beside `prefixItems`")
            first, items = items, False
        elif first and "items" not in schema:
            items = False
        low = max(self._count(schema, "minItems", at) or 0, len(first))
        high = self._count(schema, "maxItems", at)
        if items is False:
            high = len(first) if high is None else min(high, len(first))
        if high is not None and high < low:
            refuse(at, f"no array has at least {low} and at most {high} items here")
        values = [self._visit(item, f"{at}/prefixItems/{i}") for i, item in enumerate(first)]
        if high == 0:
            return self._book.rule(at, f'"[" {self._book.ws} "]"')
        if items is not False:
            item = self._visit(items, f"{at}/items")
            n = len(first)
            more = self._book.rule(f"{at}-more", f'"," {self._book.ws} {item}')
            if not first:
                values, n = [item], 1
            bounds = (max(0, low - n), None if high is None else high - n)
            values[-1] += " " + repeated(more, *bounds)
        within = f"{self._book.ws} " + f' "," {self._book.ws} '.join(values)
        return self._book.rule(at, '"[" ' + (within if low else f"( {within} )?") + ' ws "]"')

    def _string(self, schema: Schema, at: str) -> str:
        low = self._count(schema, "minLength", at) or 0
        high = self._count(schema, "maxLength", at)
        body = FORMATS.get(schema.get("format", ""), "")
        if "pattern" in schema:
            if body:
                refuse(at, f"`pattern` is not supported beside the format `{schema['format']}`")
            body = self._pattern(schema["pattern"], at)
        if body and (low or high is not None):
            refuse(at, "`pattern` and `format` are not supported beside a length")
        if high is not None and high < low:
            refuse(at, f"no string has at least {low} and at most {high} characters")
        if not body:
            if not low and high is None:
                return self._book.built_in("string")
            body = repeated(self._book.built_in("char"), low, high)
        return self._book.rule(at, f'"\\"" {body} "\\""')

    def _pattern(self, pattern: str, at: str) -> str:
        self._book.built_in("char")
        try:
            return pattern_to_gbnf(pattern)
        except UsageError as error:
            refuse(at, error.message)

    def _number(self, schema: Schema, at: str) -> str:
        bounds = {key: schema[key] for key in BY_TYPE["number"] & schema.keys()}
        if bounds != {"minimum": 0}:
            refuse(at, "of the bounds of a `number`, only `minimum` 0 is supported")
        return f"( {self._book.built_in('natural')} {self._book.built_in('fraction')} )"

    def _integer(self, schema: Schema, at: str) -> str:
        bounds = {key: schema[key] for key in BY_TYPE["number"] & schema.keys()}
        if not all(isinstance(b, int | float) and not isinstance(b, bool) for b in bounds.values()):
            refuse(at, "a bound is not a number")
        if any(abs(bound) >= 10**MAX_DIGITS for bound in bounds.values()):
            refuse(at, f"a bound has more than {MAX_DIGITS} digits")
        lows = [ceil(bounds["minimum"])] if "minimum" in bounds else []
        highs = [floor(bounds["maximum"])] if "maximum" in bounds else []
        if "exclusiveMinimum" in bounds:
            lows.append(floor(bounds["exclusiveMinimum"]) + 1)
        if "exclusiveMaximum" in bounds:
            highs.append(ceil(bounds["exclusiveMaximum"]) - 1)
        body = integers(max(lows, default=None), min(highs, default=None))
        if not body:
            refuse(at, "no integer is within the bounds")
        return self._book.rule(at, body)

    def _count(self, schema: Schema, key: str, at: str) -> int | None:
        if key not in schema:
            return None
        value = schema[key]
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_REPEAT:
            refuse(at, f"`{key}` is {json.dumps(value)}, but must be 0 to {MAX_REPEAT}")
        return value


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise UsageError(f"the JSON schema has the number {digits[:20]}, which is too large")
    return number


def _no_constant(name: str) -> NoReturn:
    raise UsageError(f"the JSON schema is not JSON: it has `{name}`")
