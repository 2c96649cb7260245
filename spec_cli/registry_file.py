"""Reading one `models.toml`. Its format is described at the top of the packaged file.

Every problem is a UsageError that names the file, the table and the key.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spec_cli.errors import UsageError, wrong_value
from spec_cli.modelref import Mirror, RepoFile, is_relative_path
from spec_cli.names import nearest
from spec_cli.settings import MAX_DRAFT_TOKENS

_Schema = Mapping[str, type]
_FILE: _Schema = {"default": str, "pairs": dict, "files": dict}
_PAIR: _Schema = {"target": str, "draft": str, "draft_tokens": int, "notes": str}
_FACTS: _Schema = {
    "file": str,
    "revision": str,
    "size_bytes": int,
    "sha256": str,
    "license": str,
    "mirror": dict,
}
_MIRROR: _Schema = {"package": str, "version": str, "member": str, "parts": int}
_TYPE_NAMES = {str: "a string", int: "an integer", dict: "a table"}
# Names and versions of an index alone: pip would also take a path, an address or an option of its
# own, and what it finds there may run code.
_PACKAGE = r"[A-Za-z0-9](?:[A-Za-z0-9._-]|\{n(?::02)?\})*"
_VERSION = r"[0-9]+(?:\.[0-9]+)*(?:(?:a|b|rc|\.post|\.dev)[0-9]+)*"
_FACTS_KEY = re.compile(r"(?P<repo>[\w.-]+(?:/[\w.-]+)?):(?P<quant>[\w.-]+)")


@dataclass(frozen=True, slots=True)
class PairEntry:
    """A pair as it is written in `path`: its models are still text."""

    path: Path
    target: str
    draft: str | None = None
    draft_tokens: int | None = None
    notes: str | None = None


@dataclass(frozen=True, slots=True)
class RegistryFile:
    """What one file says: pairs by name, known files by `repo:QUANT`."""

    path: Path
    default: str | None
    pairs: Mapping[str, PairEntry]
    files: Mapping[str, RepoFile]


def read_registry_file(path: Path) -> RegistryFile:
    """The content of `path`. Raises UsageError when it cannot be read or breaks the format."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    top = _Table(path, (), table)
    top.check(_FILE)
    return RegistryFile(
        path=path,
        default=table.get("default"),
        pairs={pair.name: _pair(pair) for pair in top.tables("pairs")},
        files={facts.name: _facts(facts) for facts in top.tables("files")},
    )


@dataclass(frozen=True, slots=True)
class _Table:
    """A TOML table, with the file and the keys that lead to it."""

    path: Path
    keys: tuple[str, ...]
    values: Any

    @property
    def name(self) -> str:
        return self.keys[-1]

    def tables(self, key: str) -> list[_Table]:
        below = self.values.get(key, {})
        return [_Table(self.path, (*self.keys, key, name), below[name]) for name in below]

    def check(self, schema: _Schema, required: Iterable[str] = ()) -> None:
        if type(self.values) is not dict:
            raise self.problem("must be a table")
        for key, value in self.values.items():
            if key not in schema:
                raise self.problem(f"unknown key `{key}`", hint=_did_you_mean(key, schema))
            if type(value) is not schema[key]:
                raise self.wrong(key, _TYPE_NAMES[schema[key]])
        for key in required:
            if key not in self.values:
                raise self.problem(f"`{key}` is missing")

    def require(self, key: str, holds: bool, rule: str) -> None:
        if not holds:
            raise self.wrong(key, rule)

    def wrong(self, key: str, wanted: str) -> UsageError:
        return self.problem(wrong_value(f"`{key}`", self.values[key], wanted).message)

    def problem(self, what: str, hint: str | None = None) -> UsageError:
        keys = ".".join(key if re.fullmatch(r"[\w-]+", key) else f'"{key}"' for key in self.keys)
        return UsageError(f"{self.path}: {f'[{keys}]: ' if keys else ''}{what}", hint=hint)


def _pair(table: _Table) -> PairEntry:
    table.check(_PAIR, required=("target",))
    entry = PairEntry(path=table.path, **table.values)
    allowed = entry.draft_tokens is None or 1 <= entry.draft_tokens <= MAX_DRAFT_TOKENS
    table.require("draft_tokens", allowed, f"from 1 to {MAX_DRAFT_TOKENS}")
    return entry


def _facts(table: _Table) -> RepoFile:
    table.check(_FACTS)
    key = _FACTS_KEY.fullmatch(table.name)
    if key is None:
        raise table.problem('the name must be "user/repo:QUANT"')
    facts = {**table.values, "mirror": _mirror(table)}
    known = RepoFile(name=table.name, repo=key["repo"], quant=key["quant"], **facts)
    inside = known.file is None or is_relative_path(known.file)
    table.require("file", inside, "a path in the repository")
    table.require("revision", _matches(r"\w[\w.+-]*", known.revision), "a commit or a version")
    positive = known.size_bytes is None or known.size_bytes > 0
    table.require("size_bytes", positive, "positive")
    table.require("sha256", _matches(r"[0-9a-f]{64}", known.sha256), "64 lower-case hex digits")
    complete = known.file and known.revision and known.size_bytes and known.sha256
    if known.mirror and not complete:
        raise table.problem("a mirror needs file, revision, size_bytes and sha256")
    if not known.on_hub and not known.mirror:
        raise table.problem("a file of no hub repository needs a mirror")
    return known


def _mirror(facts: _Table) -> Mirror | None:
    if "mirror" not in facts.values:
        return None
    table = _Table(facts.path, (*facts.keys, "mirror"), facts.values["mirror"])
    table.check(_MIRROR, required=("package", "version", "member"))
    mirror = Mirror(**table.values)
    table.require("package", _matches(_PACKAGE, mirror.package), "the name of a package")
    table.require("version", _matches(_VERSION, mirror.version), "a version such as `1.2.0`")
    table.require("parts", mirror.parts > 0, "positive")
    return mirror


def _matches(pattern: str, value: str | None) -> bool:
    return value is None or re.fullmatch(pattern, value) is not None


def _did_you_mean(key: str, schema: _Schema) -> str:
    near = nearest(key, schema)
    return f"did you mean `{near}`?" if near else f"known are {', '.join(schema)}"
