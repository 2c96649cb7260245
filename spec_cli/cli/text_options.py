"""The options about what goes before generated text, and where the text goes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from spec_cli.cli.inputs import PromptInput
from spec_cli.cli.option_values import refuse_both
from spec_cli.files import read_input
from spec_cli.prompt import decode_text, read_template
from spec_cli.template_variables import parse_variables

_PROMPT, _OUTPUT = "Prompt", "Output"

SystemFile = Annotated[
    Path | None,
    typer.Option(
        "--system-file",
        metavar="FILE",
        help="Read the system prompt from FILE.",
        rich_help_panel=_PROMPT,
    ),
]
Prefill = Annotated[
    str | None,
    typer.Option(
        "--prefill",
        metavar="TEXT",
        help="Begin the answer with TEXT; the model continues from there.",
        rich_help_panel=_PROMPT,
    ),
]
TemplateVar = Annotated[
    list[str] | None,
    typer.Option(
        "--template-var",
        metavar="NAME=VALUE",
        help="Set a variable of the chat template to VALUE, JSON or text; repeatable.",
        rich_help_panel=_PROMPT,
    ),
]
Think = Annotated[
    bool | None,
    typer.Option(
        "--think/--no-think",
        help="Make the model think before it answers, or not, if its template has a switch.",
        show_default="the template's",
        rich_help_panel=_PROMPT,
    ),
]
HideReasoning = Annotated[
    bool,
    typer.Option(
        "--hide-reasoning",
        help="Do not show on stderr what the model thinks before it answers.",
        rich_help_panel=_OUTPUT,
    ),
]
Echo = Annotated[
    bool,
    typer.Option(
        "--echo", help="Print the prompt first, as the model got it.", rich_help_panel=_OUTPUT
    ),
]
OutputPath = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write to FILE instead of stdout, whole or not at all; `-` means stdout. With "
        "`--input`, results are appended as they come, and a FILE that has some is continued.",
        rich_help_panel=_OUTPUT,
    ),
]
TracePath = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        help="Write every round to FILE as a line of JSON.",
        rich_help_panel=_OUTPUT,
    ),
]
PromptCache = Annotated[
    Path | None,
    typer.Option(
        "--prompt-cache",
        metavar="FILE",
        help="Keep the evaluated prompt in FILE, for later runs that begin the same way.",
        rich_help_panel=_PROMPT,
    ),
]


def system_prompt(system: str | None, file: Path | None) -> str | None:
    """The system prompt, given or in a file, if there is one. Raises UsageError."""
    refuse_both("--system", system is not None, "--system-file", file is not None)
    return system if file is None else _read(file)


def prompt_input(
    text: str,
    *,
    raw: bool,
    system: str | None,
    system_file: Path | None,
    chat_template: str | None,
    prefill: str | None,
    template_var: Sequence[str] | None,
    think: bool | None,
) -> PromptInput:
    """The prompt that the options ask for. Raises UsageError."""
    return PromptInput(
        text,
        system=system_prompt(system, system_file),
        raw=raw,
        chat_template=None if chat_template is None else read_template(chat_template),
        given=prefill or "",
        variables=parse_variables(template_var or ()),
        think=think,
    )


def _read(path: Path) -> str:
    what = f"the system prompt {path}"
    text = decode_text(read_input(path, what), what)
    return text.removesuffix("\n").removesuffix("\r")
