"""From a JSON schema to a GBNF grammar whose every text is JSON that satisfies the schema.

A keyword that the grammar would not enforce is refused, by name and place. The grammar may be
narrower than the schema: properties come in the order in which they are written, others come
only where `additionalProperties` asks for them, and numbers have a bounded number of digits.
`oneOf` is read as `anyOf`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import ceil, floor, isfinite
from typing import Any, NoReturn
from urllib.parse import unquote

from spec_cli.errors import UsageError
from spec_cli.grammar.chars import literal
from spec_cli.grammar.gbnf import MAX_REPEAT
from spec_cli.grammar.integers import integers
from spec_cli.grammar.pattern import pattern_to_gbnf
from spec_cli.grammar.rulebook import FORMATS, RuleBook, repeated, written

Schema = Mapping[str, Any]

_ANNOTATIONS = {
    "title", "description", "default", "examples", "example", "deprecated", "readOnly",
    "writeOnly", "$schema", "$id", "$comment", "$defs", "definitions", "contentMediaType",
}  # fmt: skip
_BY_TYPE = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "prefixItems", "minItems", "maxItems"},
    "string": {"minLength", "maxLength", "pattern", "format"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
}
_ELSEWHERE = {"type", "const", "enum", "anyOf", "oneOf", "allOf", "$ref"}
_KNOWN = _ELSEWHERE.union(*_BY_TYPE.values())
_KINDS: dict[str, type | tuple[type, ...]] = {
    "type": (str, list), "$ref": str, "pattern": str, "properties": dict, "required": list,
    "prefixItems": list, "enum": list, "anyOf": list, "oneOf": list, "allOf": list,
}  # fmt: skip
_OF_TYPE: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "number": (int, float),
    "integer": (int,), "boolean": (bool,), "null": (type(None),),
}  # fmt: skip


def schema_to_gbnf(text: str) -> str:
    """The grammar of a JSON schema. Raises UsageError, with the place in the schema."""
    try:
        schema = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise UsageError(f"the JSON schema is no JSON: {error.msg} at {where}") from None
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

    def grammar(self) -> str:
        try:
            root = self._visit(self._schema, "#")
        except RecursionError:
            raise UsageError("the JSON schema is nested too deeply") from None
        return self._book.gbnf(root)

    def _visit(self, schema: Any, at: str) -> str:
        """What stands for `schema` in a rule: one name, or one group."""
        if schema is True:
            return self._book.built_in("value")
        if not isinstance(schema, dict):
            self._refuse(at, f"{json.dumps(schema)} is no schema that anything satisfies")
        keys = {key for key in schema if key not in _ANNOTATIONS and not key.startswith("x-")}
        for key in keys - _KNOWN:
            self._refuse(at, f"`{key}` is not supported")
        for key, kinds in _KINDS.items():
            if key in keys and not isinstance(schema[key], kinds):
                self._refuse(at, f"`{key}` is {json.dumps(schema[key])}")
        if "allOf" in keys:
            is_one = keys == {"allOf"} and len(schema["allOf"]) == 1
            return self._visit(schema["allOf"][0] if is_one else self._merged(schema, at), at)
        for key in ("$ref", "anyOf", "oneOf"):
            if key in keys:
                if keys != {key}:
                    self._refuse(at, f"`{key}` is not supported beside other keywords")
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
            kind = next((name for name, own in _BY_TYPE.items() if own & keys), "value")
        elif kind not in _OF_TYPE:
            self._refuse(at, f"{json.dumps(kind)} is no type")
        make = {
            "object": self._object,
            "array": self._array,
            "string": self._string,
            "number": self._number,
            "integer": self._integer,
        }.get(kind)
        own = _BY_TYPE["number" if kind == "integer" else kind] if make else set()
        return make(schema, at) if make and own & keys else self._book.built_in(kind)

    def _union(self, schemas: Sequence[Any], at: str) -> str:
        if not schemas:
            self._refuse(at, "there is nothing to choose from")
        options = [self._visit(option, f"{at}/{i}") for i, option in enumerate(schemas)]
        return f"( {' | '.join(dict.fromkeys(options))} )"

    def _literals(self, schema: Schema, keys: set[str], at: str) -> str:
        if keys - {"const", "enum", "type"}:
            self._refuse(at, "`const` and `enum` are not supported beside other keywords")
        values = [schema["const"]] if "const" in schema else schema["enum"]
        if "type" in schema:
            values = [value for value in values if _is_of_type(value, schema["type"])]
        if not values:
            self._refuse(at, "there is no value of its type to choose from")
        return f"( {' | '.join(literal(written(value)) for value in values)} )"

    def _reference(self, target: str, at: str) -> str:
        if target not in self._references:
            name = self._references[target] = self._book.reserve(target)
            self._book.say(name, self._visit(self._resolved(target, at), target))
        return self._references[target]

    def _resolved(self, target: str, at: str) -> Any:
        """The schema at the JSON pointer `target`."""
        if target != "#" and not target.startswith("#/"):
            self._refuse(at, f"the reference {json.dumps(target)} leads out of the schema")
        found = self._schema
        for part in target.split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            elif isinstance(found, dict) and key in found:
                found = found[key]
            else:
                self._refuse(at, f"the reference {json.dumps(target)} leads nowhere")
        return found

    def _merged(self, schema: Schema, at: str) -> Schema:
        """`allOf` as one schema: all properties, all that is required."""
        merged: dict[str, Any] = {}
        for part in ({k: v for k, v in schema.items() if k != "allOf"}, *schema["allOf"]):
            if isinstance(part, dict) and "$ref" in part:
                part = self._resolved(str(part["$ref"]), at)
            if not isinstance(part, dict) or "$ref" in part:
                self._refuse(at, f"{json.dumps(part)} in `allOf` is not supported")
            for key, value in (self._merged(part, at) if "allOf" in part else part).items():
                if key in _ANNOTATIONS:
                    continue
                if key == "additionalProperties" and value is not True:
                    self._refuse(at, f"`{key}` is not supported beside `allOf`, or in it")
                if key in ("properties", "required") and key in merged:
                    merged[key] = _joined(merged[key], value)
                elif merged.setdefault(key, value) != value:
                    self._refuse(at, f"`{key}` differs between the parts of `allOf`")
        return merged

    def _object(self, schema: Schema, at: str) -> str:
        properties = dict(schema.get("properties", {}))
        required = schema.get("required", [])
        additional = schema.get("additionalProperties", not properties)
        for name in required:
            if not isinstance(name, str):
                self._refuse(at, f"`required` lists {json.dumps(name)}")
            if name not in properties:
                if additional is False:
                    self._refuse(at, f"`{name}` is required, but is not among the properties")
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
            first, items = items, False
        elif first and "items" not in schema:
            items = False
        low = max(self._count(schema, "minItems", at) or 0, len(first))
        high = self._count(schema, "maxItems", at)
        if items is False:
            high = len(first) if high is None else min(high, len(first))
        if high is not None and high < low:
            self._refuse(at, f"no array has at least {low} and at most {high} items here")
        written = [self._visit(item, f"{at}/prefixItems/{i}") for i, item in enumerate(first)]
        if high == 0:
            return self._book.rule(at, f'"[" {self._book.ws} "]"')
        if items is not False:
            item = self._visit(items, f"{at}/items")
            n = len(first)
            more = self._book.rule(f"{at}-more", f'"," {self._book.ws} {item}')
            if not first:
                written, n = [item], 1
            bounds = (max(0, low - n), None if high is None else high - n)
            written[-1] += " " + repeated(more, *bounds)
        within = f"{self._book.ws} " + f' "," {self._book.ws} '.join(written)
        return self._book.rule(at, '"[" ' + (within if low else f"( {within} )?") + ' ws "]"')

    def _string(self, schema: Schema, at: str) -> str:
        low = self._count(schema, "minLength", at) or 0
        high = self._count(schema, "maxLength", at)
        rest = {"pattern", "format"} & schema.keys()
        if "pattern" in rest:
            if low or high is not None:
                self._refuse(at, "`pattern` is not supported beside a length")
            try:
                body = pattern_to_gbnf(schema["pattern"])
            except UsageError as error:
                self._refuse(at, error.message)
        elif schema.get("format") in FORMATS and not low and high is None:
            body = FORMATS[schema["format"]]
        elif low or high is not None:
            if high is not None and high < low:
                self._refuse(at, f"no string has at least {low} and at most {high} characters")
            body = repeated(self._book.built_in("char"), low, high)
        else:
            return self._book.built_in("string")
        self._book.built_in("char")
        return self._book.rule(at, f'"\\"" {body} "\\""')

    def _number(self, schema: Schema, at: str) -> str:
        bounds = {key: schema[key] for key in _BY_TYPE["number"] & schema.keys()}
        if bounds != {"minimum": 0}:
            self._refuse(at, "bounds of a `number` are not supported but `minimum` 0")
        return f"( {self._book.built_in('natural')} {self._book.built_in('fraction')} )"

    def _integer(self, schema: Schema, at: str) -> str:
        bounds = {key: schema[key] for key in _BY_TYPE["number"] & schema.keys()}
        if not all(isinstance(b, int | float) and not isinstance(b, bool) for b in bounds.values()):
            self._refuse(at, "a bound is no number")
        lows = [ceil(bounds["minimum"])] if "minimum" in bounds else []
        highs = [floor(bounds["maximum"])] if "maximum" in bounds else []
        if "exclusiveMinimum" in bounds:
            lows.append(floor(bounds["exclusiveMinimum"]) + 1)
        if "exclusiveMaximum" in bounds:
            highs.append(ceil(bounds["exclusiveMaximum"]) - 1)
        body = integers(max(lows, default=None), min(highs, default=None))
        if not body:
            self._refuse(at, "no integer is within the bounds")
        return self._book.rule(at, body)

    def _count(self, schema: Schema, key: str, at: str) -> int | None:
        value = schema.get(key)
        if value is None:
            return None
        if not isinstance(value, int) or not 0 <= value <= MAX_REPEAT:
            self._refuse(at, f"`{key}` is {json.dumps(value)}, but must be 0 to {MAX_REPEAT}")
        return value

    def _refuse(self, at: str, why: str) -> NoReturn:
        raise UsageError(f"the JSON schema at {at}: {why}")


def _is_of_type(value: Any, kind: str | Sequence[str]) -> bool:
    kinds = [kind] if isinstance(kind, str) else kind
    if isinstance(value, bool):
        return "boolean" in kinds
    return any(isinstance(value, _OF_TYPE.get(one, ())) for one in kinds)


def _joined(first: Any, second: Any) -> Any:
    """Properties or required names of two schemas; a property of both must satisfy both."""
    if isinstance(first, dict):
        both = {name: {"allOf": [first[name], second[name]]} for name in first if name in second}
        return {**first, **second, **both}
    return list(dict.fromkeys([*first, *second]))


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise UsageError(f"the JSON schema has the number {digits[:20]}, which is too large")
    return number


def _no_constant(name: str) -> NoReturn:
    raise UsageError(f"the JSON schema is no JSON: {name}")
