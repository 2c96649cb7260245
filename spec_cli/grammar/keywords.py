"""The keywords of JSON schemas: which are known, and what may stand in them.

`at` is the JSON pointer of a schema, for errors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from spec_cli.errors import UsageError

Schema = Mapping[str, Any]

BY_TYPE = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "prefixItems", "minItems", "maxItems"},
    "string": {"minLength", "maxLength", "pattern", "format"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
}
_ANNOTATIONS = {
    "title", "description", "default", "examples", "example", "deprecated", "readOnly",
    "writeOnly", "$schema", "$id", "$comment", "$defs", "definitions", "contentMediaType",
}  # fmt: skip
_ELSEWHERE = {"type", "const", "enum", "anyOf", "oneOf", "allOf", "$ref"}
_KNOWN = _ELSEWHERE.union(*BY_TYPE.values())
_KINDS: dict[str, type | tuple[type, ...]] = {
    "type": (str, list), "$ref": str, "pattern": str, "format": str, "properties": dict,
    "required": list, "prefixItems": list, "enum": list, "anyOf": list, "oneOf": list,
    "allOf": list,
}  # fmt: skip
_OF_TYPE: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "number": (int, float),
    "integer": (int,), "boolean": (bool,), "null": (type(None),),
}  # fmt: skip


def refuse(at: str, why: str) -> NoReturn:
    """Raises UsageError: the schema at `at` cannot be used."""
    raise UsageError(f"the JSON schema at {at}: {why}")


def keywords(schema: Schema, at: str) -> set[str]:
    """The keywords of `schema` but for annotations. Raises UsageError for what is not known."""
    found = {key for key in schema if key not in _ANNOTATIONS and not key.startswith("x-")}
    for key in sorted(found - _KNOWN):
        refuse(at, f"`{key}` is not supported")
    for key, kinds in _KINDS.items():
        if key in found and not isinstance(schema[key], kinds):
            refuse(at, f"`{key}` is {json.dumps(schema[key])}")
    for kind in types(schema):
        if not isinstance(kind, str) or kind not in _OF_TYPE:
            refuse(at, f"{json.dumps(kind)} is not a type")
    for name in schema.get("required", []):
        if not isinstance(name, str):
            refuse(at, f"`required` lists {json.dumps(name)}")
    return found


def types(schema: Schema) -> Sequence[str]:
    """The types that `schema` names: none, one or several."""
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else kinds


def is_of_type(value: Any, kinds: Sequence[str]) -> bool:
    """Whether `value` is of one of these types."""
    if isinstance(value, bool):
        return "boolean" in kinds
    return any(isinstance(value, _OF_TYPE[kind]) for kind in kinds)


def are_same(first: Any, second: Any) -> bool:
    """Whether two values are written alike in JSON, where `1` is neither `true` nor `1.0`."""
    return json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)
