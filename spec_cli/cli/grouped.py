"""Options that belong together, as one argument of a command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with each parameter that is a dataclass of options replaced by these options.

    Whoever asks for its signature or type hints sees the options; `command` gets the dataclass.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}

    @wraps(command)
    def call(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        command(**values)

    parameters = list(_parameters(command, hints))
    call.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
    call.__dict__["__signature__"] = Signature(parameters)
    return call


def _parameters(command: Callable[..., None], hints: dict[str, Any]) -> Iterator[Parameter]:
    for parameter in signature(command).parameters.values():
        kind = hints[parameter.name]
        if not is_dataclass(kind):
            yield parameter.replace(annotation=kind)
            continue
        options = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            yield Parameter(
                field.name,
                Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=options[field.name],
            )
