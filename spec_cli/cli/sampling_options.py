"""The options for how a token is drawn, with llama.cpp's names."""

from __future__ import annotations

from typing import Annotated

import typer

_SAMPLING = "Sampling"

Temp = Annotated[
    float,
    typer.Option(
        "--temp", "--temperature", help="Temperature; 0 is greedy.", rich_help_panel=_SAMPLING
    ),
]
TopK = Annotated[
    int,
    typer.Option(
        "--top-k", help="Keep the N likeliest tokens; 0 keeps all.", rich_help_panel=_SAMPLING
    ),
]
TopP = Annotated[
    float,
    typer.Option(
        "--top-p",
        help="Keep the likeliest tokens until their probabilities add up to this.",
        rich_help_panel=_SAMPLING,
    ),
]
MinP = Annotated[
    float,
    typer.Option(
        "--min-p",
        help="Drop tokens less likely than this fraction of the likeliest one.",
        rich_help_panel=_SAMPLING,
    ),
]
RepeatPenalty = Annotated[
    float,
    typer.Option(
        "--repeat-penalty", help="Penalise repeated tokens; 1 is off.", rich_help_panel=_SAMPLING
    ),
]
RepeatLastN = Annotated[
    int,
    typer.Option(
        "--repeat-last-n",
        help="How many of the last tokens the penalties look at.",
        rich_help_panel=_SAMPLING,
    ),
]
PresencePenalty = Annotated[
    float,
    typer.Option(
        "--presence-penalty",
        help="Penalise tokens that have occurred; 0 is off.",
        rich_help_panel=_SAMPLING,
    ),
]
FrequencyPenalty = Annotated[
    float,
    typer.Option(
        "--frequency-penalty",
        help="Penalise tokens by how often they have occurred; 0 is off.",
        rich_help_panel=_SAMPLING,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        help="Seed for sampling; the same seed gives the same text.",
        show_default="random, reported",
        rich_help_panel=_SAMPLING,
    ),
]
