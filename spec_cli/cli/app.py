"""The command line: which commands there are."""

from __future__ import annotations

from typing import Annotated

import typer

from spec_cli import __version__
from spec_cli.cli import bench, chat, config, devices, doctor, models, run, verify
from spec_cli.cli.config_command import ConfiguredCommand
from spec_cli.cli.guard import guarded

EXAMPLES = """
Run a language model on this machine, fast, without changing a word of what it says.

\b
Examples:
  spec-cli run "Write a haiku about llamas"
  cat notes.txt | spec-cli run "Summarise this" > summary.txt
  spec-cli run -m ./target.gguf -d ./draft.gguf -k 4 "Why is the sky blue?"
"""

app = typer.Typer(
    name="spec-cli",
    help=EXAMPLES,
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
    """See EXAMPLES, which `help` shows."""


app.command("run", cls=ConfiguredCommand)(run.run)
app.command("chat", cls=ConfiguredCommand)(chat.chat)
app.command("pull")(guarded(models.pull))
app.add_typer(models.group, name="models")
app.command("devices")(guarded(devices.devices))
app.command("doctor")(guarded(doctor.doctor))
app.command("verify", cls=ConfiguredCommand)(verify.verify)
app.command("bench", cls=ConfiguredCommand)(bench.bench)
app.add_typer(config.app, name="config")
