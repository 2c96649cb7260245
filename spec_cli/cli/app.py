"""The command line: which commands there are."""

from __future__ import annotations

from typing import Annotated

import typer

from spec_cli import __version__
from spec_cli.cli.late import Unloaded, group_of

HELP = """
Run a language model on this machine, faster, without changing a word of what it says.

A small draft model guesses the next tokens; the model you asked for checks them all in one pass.

\b
Examples:
  spec-cli run "Write a haiku about llamas"
  cat notes.txt | spec-cli run "Summarise this" > summary.txt
  spec-cli run -m ./target.gguf -d ./draft.gguf -k 4 "Why is the sky blue?"
"""

COMMANDS = {
    "run": Unloaded(
        "spec_cli.cli.run:run",
        "Answer one prompt: text on stdout, everything else on stderr.",
        takes_settings=True,
    ),
    "chat": Unloaded(
        "spec_cli.cli.chat:chat",
        "Chat with a model, on a terminal or line by line from a pipe.",
        takes_settings=True,
    ),
    "pull": Unloaded(
        "spec_cli.cli.models.pull:pull",
        "Download a model, or both models of a pair, into the Hugging Face cache.",
    ),
    "devices": Unloaded(
        "spec_cli.cli.devices:devices",
        "List the devices that a model can run on; `*` marks those used by default.",
    ),
    "doctor": Unloaded(
        "spec_cli.cli.doctor:doctor",
        "Check this machine and a pair, and say what to do about problems.",
    ),
    "verify": Unloaded(
        "spec_cli.cli.verify:verify",
        "Check that drafting changes no token, by comparing plain and speculative texts.",
        takes_settings=True,
    ),
    "bench": Unloaded(
        "spec_cli.cli.bench:bench",
        "Measure drafting against plain decoding, and say which settings to use.",
        takes_settings=True,
    ),
    "models": Unloaded(
        "spec_cli.cli.models.group:group",
        "List, inspect, download, delete and pair up models. Alone, it lists the pairs.",
    ),
    "config": Unloaded(
        "spec_cli.cli.config:app",
        "Show the settings in effect, and where each comes from.",
    ),
}

app = typer.Typer(
    name="spec-cli",
    cls=group_of(COMMANDS),
    help=HELP,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"spec-cli {__version__}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """See HELP, which `help` shows."""
