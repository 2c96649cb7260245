"""Variables that the user sets in a chat template, such as whether the model is to think."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from spec_cli.errors import UsageError, wrong_value
from spec_cli.names import nearest
from spec_cli.prompt import ChatTemplate, check_text, variables_of

_SWITCHES = ("enable_thinking", "thinking")  # what templates call the switch for thinking
_NOT_THE_USERS = ("messages", "add_generation_prompt")


def parse_variables(options: Sequence[str]) -> dict[str, object]:
    """The variables that options of the form `NAME=VALUE` set; a VALUE that is not JSON is text.

    Raises UsageError for one of another form.
    """
    variables: dict[str, object] = {}
    for option in options:
        name, equals, value = check_text(option, "--template-var").partition("=")
        if not equals or not name.isidentifier():
            hint = "for example `--template-var enable_thinking=false`"
            raise wrong_value("--template-var", option, "NAME=VALUE", hint=hint)
        try:
            variables[name] = json.loads(value, parse_constant=str)
        except (ValueError, RecursionError):
            variables[name] = value
        _require_usable(name, variables[name])
    return variables


def with_variables(
    template: ChatTemplate, variables: Mapping[str, object], *, think: bool | None
) -> ChatTemplate:
    """`template` with these set, and its switch for thinking if `think` is not None.

    Raises UsageError when the template does not read one of them, or has no such switch.
    """
    if not variables and think is None:
        return template
    known = variables_of(template)
    for name, value in variables.items():
        _require_usable(name, value)
        if name not in known:
            raise UsageError(
                f"the chat template does not read the variable `{name}`", hint=_hint(name, known)
            )
    if think is None:
        return replace(template, variables=variables)
    switch = next((name for name in _SWITCHES if name in known), None)
    if switch is None:
        raise UsageError(
            "the chat template has no switch for thinking: it reads none of the variables "
            + " and ".join(f"`{name}`" for name in _SWITCHES),
            hint="leave out `--think` and `--no-think`, in a chat by `/set think template`; "
            "another variable is set by `--template-var NAME=VALUE`",
        )
    if switch in variables:
        option = "--think" if think else "--no-think"
        raise UsageError(
            f"{option} and --template-var {switch} exclude each other",
            hint="leave out one of them",
        )
    return replace(template, variables={**variables, switch: think})


def _require_usable(name: str, value: object) -> None:
    """Raises UsageError for a variable that is not the user's, or has half a surrogate pair."""
    if name in _NOT_THE_USERS:
        raise UsageError(
            f"--template-var cannot set `{name}`", hint="the prompt and its options do"
        )
    check_text(json.dumps(value, ensure_ascii=False), f"--template-var {name}")


def _hint(name: str, known: set[str]) -> str:
    close = nearest(name, known)
    if close:
        return f"did you mean `{close}`?"
    return f"it reads {', '.join(f'`{each}`' for each in sorted(known))}"
