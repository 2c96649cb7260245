"""The options of `spec-cli bench` that no other command has, and how their lists are read."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from spec_cli.bench.matrix import Arm
from spec_cli.cli.completion import complete_list
from spec_cli.cli.verify_options import length_of as fixed_length_of
from spec_cli.errors import UsageError, wrong_value, wrong_word
from spec_cli.names import nearest
from spec_cli.prompts import NamedPrompt, bench_prompts, first_of_each_kind, read_prompts
from spec_cli.render.options import Format
from spec_cli.settings import DrafterKind, SessionSettings
from spec_cli.spec.settings import Accept

_SAMPLING, _OUTPUT, _DRAFTING, _PROMPT = "Sampling", "Output", "Drafting", "Prompt"
_DRAFTERS = tuple(kind for kind in DrafterKind if kind is not DrafterKind.NONE)

Prompts = Annotated[
    Path | None,
    typer.Option(
        "--prompts",
        metavar="FILE",
        help='Read prompts from FILE: JSON lines with `"prompt"`, or a `.txt` with one per line.',
        show_default="built-in ones",
        rich_help_panel=_PROMPT,
    ),
]
Kinds = Annotated[
    str | None,
    typer.Option(
        "--kind",
        metavar="LIST",
        help="Use only prompts of these kinds, such as `code,prose`.",
        show_default="all",
        rich_help_panel=_PROMPT,
    ),
]
PerKind = Annotated[
    int | None,
    typer.Option(
        "--per-kind",
        metavar="N",
        help="Use only the first N prompts of each kind.",
        rich_help_panel=_PROMPT,
    ),
]
Drafters = Annotated[
    str,
    typer.Option(
        "--drafter",
        metavar="LIST",
        help="Where guesses come from: `auto` (as in `run`), `chain`, `model` or `ngram`.",
        autocompletion=complete_list(_DRAFTERS),
        rich_help_panel=_DRAFTING,
    ),
]
Lengths = Annotated[
    str | None,
    typer.Option(
        "--draft-tokens",
        "-k",
        metavar="LIST",
        help="Tokens to draft per round; `auto` drafts as many as pay off. Plain decoding (0) is "
        "always measured.",
        show_default="4,auto",
        rich_help_panel=_DRAFTING,
    ),
]
Accepts = Annotated[
    str,
    typer.Option(
        "--accept",
        metavar="LIST",
        help="Acceptance rules: `coupled`, `rejection`, `block`; all the same at --temp 0.",
        autocompletion=complete_list(Accept),
        rich_help_panel=_DRAFTING,
    ),
]
Temps = Annotated[
    str,
    typer.Option(
        "--temp", metavar="LIST", help="Temperatures; 0 is greedy.", rich_help_panel=_SAMPLING
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens",
        "-n",
        help="Generate at most N tokens in a run.",
        show_default="128",
        rich_help_panel=_OUTPUT,
    ),
]
Rounds = Annotated[
    int | None,
    typer.Option(
        "--rounds",
        help="Measure everything N times; the median counts.",
        show_default="2",
        rich_help_panel=_OUTPUT,
    ),
]
Quick = Annotated[
    bool,
    typer.Option(
        "--quick",
        help="Take a first look: the first prompt of each kind, -k auto, -n 64, one round. "
        "Other options still apply.",
        rich_help_panel=_OUTPUT,
    ),
]
Export = Annotated[
    Path | None,
    typer.Option(
        "--export",
        metavar="FILE",
        help="Append each finished row to FILE (JSON lines); a later run with FILE continues "
        "where this stopped.",
        rich_help_panel=_OUTPUT,
    ),
]
Compare = Annotated[
    Path | None,
    typer.Option(
        "--compare",
        metavar="OLD",
        help="Compare with an earlier measurement, in a file that `--export` wrote.",
        rich_help_panel=_OUTPUT,
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="Draw the results to FILE, an .svg or .png.",
        rich_help_panel=_OUTPUT,
    ),
]
Form = Annotated[
    Format,
    typer.Option(
        "--format",
        help="Output format. `csv`, `jsonl` and `sql` list every run with its full configuration.",
        rich_help_panel=_OUTPUT,
    ),
]
Synthetic = Annotated[
    float | None,
    typer.Option(
        "--synthetic",
        metavar="ACCEPTANCE",
        help="Generate nothing; compute what drafting could gain here if this share of the "
        "guesses, such as 0.8, were right.",
        rich_help_panel=_OUTPUT,
    ),
]


def drafter_of(flag: str, word: str) -> DrafterKind:
    """The drafter of that name. Raises UsageError."""
    if word not in _DRAFTERS:
        raise wrong_word(flag, word, _DRAFTERS)
    return DrafterKind(word)


def length_of(flag: str, word: str) -> int | None:
    """A draft length, 0 for none; None for `auto`. Raises UsageError."""
    return 0 if word == "0" else fixed_length_of(flag, word)


def accept_of(flag: str, word: str) -> Accept:
    """The acceptance rule of that name. Raises UsageError."""
    if word not in list(Accept):
        raise wrong_word(flag, word, Accept)
    return Accept(word)


def acceptance_of(value: float | None) -> float | None:
    """A supposed acceptance. Raises UsageError."""
    if value is not None and not 0 < value <= 1:
        raise wrong_value("--synthetic", value, "above 0 and at most 1", hint="e.g. 0.8")
    return value


def chosen_prompts(
    file: Path | None, kinds: str | None, per_kind: int | None
) -> tuple[NamedPrompt, ...]:
    """The prompts of the kinds asked for, of the user's file or the program's own.

    Of each kind the first `per_kind`, or all. Raises UsageError.
    """
    if per_kind is not None and per_kind < 1:
        raise wrong_value("--per-kind", per_kind, "1 or more")
    prompts = read_prompts(file) if file is not None else bench_prompts()
    prompts = _of_kinds(prompts, kinds)
    return prompts if per_kind is None else first_of_each_kind(prompts, per_kind)


def kind_to_load(drafters: Sequence[DrafterKind]) -> DrafterKind:
    """The drafter to load, one that all of them can draft with; n-grams need no loading."""
    if DrafterKind.AUTO in drafters:
        return DrafterKind.AUTO
    needing = [kind for kind in drafters if kind.needs_model]
    return needing[0] if needing else DrafterKind.NGRAM


def distinct(drafters: Sequence[DrafterKind], *, has_draft: bool) -> list[DrafterKind]:
    """The drafters less the one that `auto` stands for. Raises UsageError."""
    for kind in drafters:
        if kind.needs_model and not has_draft:
            raise UsageError(
                f"`--drafter {kind}` needs a draft model",
                hint="name one with `--draft-model`, or use `--drafter ngram`",
            )
    auto = DrafterKind.CHAIN if has_draft else DrafterKind.NGRAM
    return [kind for kind in drafters if kind is not auto or DrafterKind.AUTO not in drafters]


def run_command(
    pair: str | None,
    draft_model: str | None,
    settings: SessionSettings,
    temps: Sequence[float],
    arm: Arm,
) -> str:
    """The command line that runs `arm`, with what was set for all arms."""
    options = {
        "-m": pair,
        "-d": None if arm.is_plain else draft_model,
        "--exact": None if settings.exact is SessionSettings().exact else settings.exact,
        "--temp": f"{temps[0]:g}" if len(temps) == 1 else None,
        "-t": settings.n_threads,
        "--gpu-layers": settings.n_gpu_layers,
        "--device": settings.device,
    }
    given = [(flag, str(value)) for flag, value in options.items() if value is not None]
    words = ("spec-cli", "run", *(word for option in given for word in option))
    return f"{shlex.join(words)} {arm.options}"


def _of_kinds(prompts: tuple[NamedPrompt, ...], kinds: str | None) -> tuple[NamedPrompt, ...]:
    """The prompts of the `kinds` in a list; all when there is none. Raises UsageError."""
    if kinds is None:
        return prompts
    known = list(dict.fromkeys(prompt.kind for prompt in prompts))
    wanted = [kind.strip() for kind in kinds.split(",")]
    for kind in wanted:
        if kind not in known:
            meant = nearest(kind, known)
            raise UsageError(
                f"--kind names `{kind}`, but the prompts are of kind {_names(known)}",
                hint=f"did you mean `{meant}`?" if meant else None,
            )
    return tuple(prompt for prompt in prompts if prompt.kind in wanted)


def _names(words: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
