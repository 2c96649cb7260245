"""The process that renders chat templates: `python -m spec_cli.template_renderer`.

It answers requests, one a line, with little time and memory for each.
"""

from __future__ import annotations

import json
import math
import resource
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import meta, nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from spec_cli.spec.counts import counted
from spec_cli.template import MAX_CPU_S, MAX_MEMORY_BYTES, BrokenError, RefusedError


class GenerationTag(Extension):
    """`{% generation %}`, by which templates mark what a model is trained on: it gives its body."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        """What stands between the tags."""
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), True), lineno=line)


def render(source: str, names: Mapping[str, object], now: str, n_max: int) -> str:
    """The text that the template gives with `names`, of at most `n_max` characters.

    `now`, in ISO format, is the time that the template may tell the model.
    Raises RefusedError or BrokenError.
    """
    environment = _environment()
    environment.filters["tojson"] = _to_json
    environment.globals.update(
        raise_exception=_refuse, strftime_now=datetime.fromisoformat(now).strftime
    )
    with _explained():
        rendered = _join(environment.from_string(source).generate(dict(names)), n_max)
        rendered.encode()  # a template can spell half of a surrogate pair
    return rendered


def variables(source: str) -> list[str]:
    """The names of the variables that the template reads. Raises BrokenError."""
    with _explained():
        return sorted(meta.find_undeclared_variables(_environment().parse(source)))


def _environment() -> ImmutableSandboxedEnvironment:
    """Jinja as chat templates expect it, in a sandbox."""
    return ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", GenerationTag]
    )


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except RefusedError:
        raise
    except TemplateSyntaxError as exc:
        raise BrokenError(f"{exc.message} in line {exc.lineno}") from None
    except Exception as exc:  # a template is a program: it can raise anything
        raise BrokenError(f"{type(exc).__name__}: {exc}") from None


def _refuse(message: object) -> NoReturn:
    raise RefusedError(message)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """The filter `tojson` as `transformers` has it, in the order of its parameters, too."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _join(pieces: Iterable[str], n_max: int) -> str:
    n_chars = 0
    kept = []
    for piece in pieces:
        n_chars += len(piece)
        if n_chars > n_max:
            raise OverflowError(f"more than {counted(n_max, 'character')}")
        kept.append(piece)
    return "".join(kept)


def main() -> None:
    """Answer requests until there are no more; one that takes too long ends the process."""
    _limit(resource.RLIMIT_CORE, 0)
    if sys.platform == "linux":  # others do not keep to it
        _limit(resource.RLIMIT_AS, MAX_MEMORY_BYTES)
    for line in sys.stdin:
        _limit(resource.RLIMIT_CPU, math.ceil(time.process_time()) + MAX_CPU_S)
        sys.stdout.write(json.dumps(_answer(json.loads(line))) + "\n")
        sys.stdout.flush()


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        if "variables" in request:
            return {"result": variables(**request["variables"])}
        return {"result": render(**request["render"])}
    except RefusedError as exc:
        return {"refused": _one_line(exc)}
    except BrokenError as exc:
        return {"broken": _one_line(exc)}


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _limit(kind: int, most: int) -> None:
    """Allow `most` of it, or what was allowed to us if that is less."""
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


if __name__ == "__main__":
    main()
