"""The options of `spec-cli verify` that no other command has, and how their lists are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spec_cli.cli.completion import complete_list, complete_pair
from spec_cli.cli.option_values import count, refuse_both
from spec_cli.errors import wrong_value, wrong_word
from spec_cli.settings import SessionSettings
from spec_cli.verify.matrix import ArmDrafter

_SAMPLING, _OUTPUT, _DRAFTING, _PROMPT = "Sampling", "Output", "Drafting", "Prompt"

PairName = Annotated[
    str | None,
    typer.Argument(
        metavar="PAIR",
        help="A pair from `spec-cli models`, `user/repo:QUANT`, `hf://user/repo/x.gguf`, or a "
        "path.",
        show_default="the default pair",
        autocompletion=complete_pair,
    ),
]
Prompts = Annotated[
    Path | None,
    typer.Option(
        "--prompts",
        metavar="FILE",
        help='Read prompts from FILE: JSON lines with `"prompt"`, or a `.txt` with one per line.',
        show_default="5 of 20 built-in ones",
        rich_help_panel=_PROMPT,
    ),
]
Full = Annotated[
    bool,
    typer.Option(
        "--full",
        help="Compare the whole matrix: 20 prompts, -n 256, -k 1,3,7,auto, --temp 0,0.8,1.2. "
        "Takes hours on a slow CPU. Other options still apply.",
        rich_help_panel=_OUTPUT,
    ),
]
Drafters = Annotated[
    str | None,
    typer.Option(
        "--drafter",
        metavar="LIST",
        help="Where guesses come from: `model`, `ngram`, `chain` (both), or `random` (the plain "
        "text with errors mixed in).",
        show_default="all",
        autocompletion=complete_list(ArmDrafter),
        rich_help_panel=_DRAFTING,
    ),
]
Lengths = Annotated[
    str | None,
    typer.Option(
        "--draft-tokens",
        "-k",
        metavar="LIST",
        help="Tokens to draft per round; `auto` drafts as many as pay off.",
        show_default="4",
        rich_help_panel=_DRAFTING,
    ),
]
Temps = Annotated[
    str | None,
    typer.Option(
        "--temp",
        metavar="LIST",
        help="Temperatures; 0 is greedy.",
        show_default="0,0.8",
        rich_help_panel=_SAMPLING,
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", help="Seed for everything random.", rich_help_panel=_SAMPLING)
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens",
        "-n",
        help="Compare at most N tokens of each text.",
        show_default="32",
        rich_help_panel=_OUTPUT,
    ),
]
Save = Annotated[
    Path | None,
    typer.Option(
        "--save",
        metavar="FILE",
        help="Save each comparison in FILE; a later run with FILE continues where this stopped.",
        rich_help_panel=_OUTPUT,
    ),
]


def one_name(pair: str | None, model: str | None) -> str | None:
    """The name given as an argument or by `--model`. Raises UsageError where both were."""
    refuse_both("PAIR", pair is not None, "--model", model is not None)
    return model if pair is None else pair


def drafter_of(flag: str, word: str) -> ArmDrafter:
    """The drafter of that name. Raises UsageError."""
    if word not in list(ArmDrafter):
        raise wrong_word(flag, word, ArmDrafter)
    return ArmDrafter(word)


def length_of(flag: str, word: str) -> int | None:
    """A draft length; None for `auto`. Raises UsageError."""
    return SessionSettings(draft_tokens=count(flag, word)).draft_tokens


def temp_of(flag: str, word: str) -> float:
    """A temperature. Raises UsageError."""
    try:
        return float(word)
    except ValueError:
        raise wrong_value(flag, word, "numbers like `0,0.8`") from None
