"""Schemas that stand elsewhere, and several that hold at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from spec_cli.grammar.keywords import Schema, are_same, keywords, refuse

_INDEX_DIGITS = 9  # Python refuses to read thousands of them


def resolved(root: Any, target: str, at: str) -> Any:
    """What the JSON pointer `target` leads to, from `root` on. Raises UsageError."""
    if target != "#" and not target.startswith("#/"):
        refuse(at, f"the reference {json.dumps(target)} points outside the schema")
    found = root
    for part in target.split("/")[1:]:
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and _is_index(key) and int(key) < len(found):
            found = found[int(key)]
        elif isinstance(found, dict) and key in found:
            found = found[key]
        else:
            refuse(at, f"the reference {json.dumps(target)} points to nothing")
    return found


def merged(root: Any, schema: Schema, at: str) -> Schema:
    """`schema` and those of its `allOf` as one: all properties, all that is required.

    Raises UsageError where they cannot be one.
    """
    found: dict[str, Any] = {}
    for part in _parts(root, schema, at, set()):
        for key, value in part.items():
            if key == "additionalProperties" and value is not True:
                refuse(at, f"`{key}` is not supported beside `allOf`, or in it")
            if key in ("properties", "required") and key in found:
                found[key] = _joined(found[key], value)
            elif not are_same(found.setdefault(key, value), value):
                refuse(at, f"`{key}` differs between the parts of `allOf`")
    return found


def _parts(root: Any, schema: Any, at: str, seen: set[int]) -> Iterator[Schema]:
    """The schemas without `allOf` and `$ref` that hold together where `schema` does, each once.

    `seen` are the identities of those that were met before: references may form a loop.
    """
    if not isinstance(schema, dict):
        refuse(at, f"{json.dumps(schema)} in `allOf` is not supported")
    if id(schema) in seen:
        return
    seen.add(id(schema))
    keys = keywords(schema, at) - {"allOf", "$ref"}
    yield {key: value for key, value in schema.items() if key in keys}
    if "$ref" in schema:
        yield from _parts(root, resolved(root, schema["$ref"], at), at, seen)
    for part in schema.get("allOf", []):
        yield from _parts(root, part, at, seen)


def _joined(first: Any, second: Any) -> Any:
    """Properties or required names of two schemas; a property of both must satisfy both."""
    if isinstance(first, dict):
        both = {name: {"allOf": [first[name], second[name]]} for name in first if name in second}
        return {**first, **second, **both}
    return list(dict.fromkeys([*first, *second]))


def _is_index(key: str) -> bool:
    return key.isascii() and key.isdecimal() and len(key) <= _INDEX_DIGITS
