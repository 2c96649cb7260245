"""The options about what goes before generated text, and where the text goes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from spec_cli.cli.inputs import PromptInput
from spec_cli.cli.options import require_one
from spec_cli.errors import SpecError, UsageError
from spec_cli.files import read_input
from spec_cli.prompt import decode_text, read_template
from spec_cli.prompt_reuse import PromptReuse
from spec_cli.template_variables import parse_variables
from spec_cli.terminal import Terminal
from spec_cli.trace import TraceFile
from spec_cli.whole_file import WholeFile

_PROMPT, _OUTPUT = "Prompt", "Output"
_STDOUT = Path("-")

SystemFile = Annotated[
    Path | None,
    typer.Option(
        "--system-file",
        metavar="FILE",
        help="System prompt from FILE.",
        rich_help_panel=_PROMPT,
    ),
]
Prefill = Annotated[
    str | None,
    typer.Option(
        "--prefill",
        metavar="TEXT",
        help="Begin the answer with TEXT; the model goes on from there.",
        rich_help_panel=_PROMPT,
    ),
]
TemplateVar = Annotated[
    list[str] | None,
    typer.Option(
        "--template-var",
        metavar="NAME=VALUE",
        help="Set a variable of the chat template, JSON or text; repeatable.",
        rich_help_panel=_PROMPT,
    ),
]
Think = Annotated[
    bool | None,
    typer.Option(
        "--think/--no-think",
        help="Let the model think before it answers, or not, where its template has a switch.",
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
        "--echo", help="Show the prompt, as the model got it, first.", rich_help_panel=_OUTPUT
    ),
]
OutputPath = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write what goes to stdout to FILE, whole or not at all; `-` is stdout. Of `--input`, "
        "each result is added as it comes, and a FILE that has some is continued.",
        rich_help_panel=_OUTPUT,
    ),
]
TracePath = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        help="Write every round to FILE, as lines of JSON.",
        rich_help_panel=_OUTPUT,
    ),
]
PromptCache = Annotated[
    Path | None,
    typer.Option(
        "--prompt-cache",
        metavar="FILE",
        help="Keep in FILE what the models made of the prompt; go on from it in later runs.",
        rich_help_panel=_PROMPT,
    ),
]


def system_prompt(system: str | None, file: Path | None) -> str | None:
    """The system prompt, given or in a file, if there is one. Raises UsageError."""
    require_one("--system", system is not None, "--system-file", file is not None)
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


@dataclass(frozen=True, slots=True)
class Records:
    """Where a run is written to: `terminal` has the file of `--output` as its stdout.

    `output` is kept only where its `keep` is called.
    """

    terminal: Terminal
    output: WholeFile | None = None
    trace: TraceFile | None = None
    reuse: PromptReuse | None = None


@contextmanager
def records(
    terminal: Terminal, output: Path | None, trace: Path | None, prompt_cache: Path | None
) -> Iterator[Records]:
    """The files that the options ask for, open. Raises UsageError when one cannot be written.

    That of the trace comes last: it is emptied at once. Raises SpecError where `output` takes no
    more.
    """
    _require_different({"--output": output, "--trace": trace, "--prompt-cache": prompt_cache})
    with _named(output), ExitStack() as stack:
        reuse = stack.enter_context(PromptReuse(prompt_cache)) if prompt_cache is not None else None
        whole = None
        if output is not None and output != _STDOUT:
            whole = stack.enter_context(WholeFile(output))
            stdout = TextIOWrapper(whole.file, encoding="utf-8")
            stack.callback(stdout.detach)
            terminal = replace(terminal, stdout=stdout, stdout_is_tty=False)
        trace_file = stack.enter_context(TraceFile(trace)) if trace is not None else None
        yield Records(terminal, whole, trace_file, reuse)


@contextmanager
def _named(output: Path | None) -> Iterator[None]:
    """An error of a stream is one of the file in place of stdout: writing to stderr raises none."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if output in (None, _STDOUT) or error.filename is not None:
            raise
        raise SpecError(f"cannot write {output}: {error.strerror}") from None


def _require_different(paths: Mapping[str, Path | None]) -> None:
    """Raise UsageError when two options name one file: one would overwrite the other."""
    flags: dict[str, str] = {}
    for flag, path in paths.items():
        if path is not None and (other := flags.setdefault(os.path.realpath(path), flag)) != flag:
            raise UsageError(f"{other} and {flag} name the same file, {path}")


def _read(path: Path) -> str:
    what = f"the system prompt {path}"
    text = decode_text(read_input(path, what), what)
    return text.removesuffix("\n").removesuffix("\r")
