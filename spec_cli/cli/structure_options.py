"""The options that constrain an answer or look into it, and how they are read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import typer

from spec_cli.cli.option_values import refuse_both
from spec_cli.errors import UsageError, wrong_value
from spec_cli.files import read_input
from spec_cli.grammar.json_schema import schema_to_gbnf
from spec_cli.prompt import decode_text
from spec_cli.settings import MAX_LOGPROBS

_STRUCTURE, _SAMPLING, _OUTPUT = "Structure", "Sampling", "Output"
_BIAS = re.compile(r"(\d+)([+-])((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf)", re.IGNORECASE)

Grammar = Annotated[
    str | None,
    typer.Option(
        "--grammar",
        metavar="GBNF",
        help="Make the answer follow this grammar, in llama.cpp's GBNF.",
        rich_help_panel=_STRUCTURE,
    ),
]
GrammarFile = Annotated[
    str | None,
    typer.Option(
        "--grammar-file",
        metavar="FILE",
        help="Make the answer follow the GBNF grammar in FILE.",
        rich_help_panel=_STRUCTURE,
    ),
]
JsonSchema = Annotated[
    str | None,
    typer.Option(
        "--json-schema",
        metavar="FILE|JSON",
        help='Make the answer JSON that satisfies this schema; `{"type":"object"}`: any object.',
        rich_help_panel=_STRUCTURE,
    ),
]
LogitBias = Annotated[
    list[str] | None,
    typer.Option(
        "--logit-bias",
        metavar="ID(+|-)BIAS",
        help="Add BIAS to the logit of token ID; `-inf` forbids it. Repeatable.",
        rich_help_panel=_SAMPLING,
    ),
]
IgnoreEos = Annotated[
    bool,
    typer.Option(
        "--ignore-eos",
        help="Do not let the model end its answer; `-n`, `--stop` or a full context does.",
        rich_help_panel=_SAMPLING,
    ),
]
Logprobs = Annotated[
    int | None,
    typer.Option(
        "--logprobs",
        metavar="N",
        help=f"With `--json` or `--jsonl`: report the log-probability of each token, and of the "
        f"N likeliest in its place (0 to {MAX_LOGPROBS}).",
        rich_help_panel=_OUTPUT,
    ),
]


def grammar_of(grammar: str | None, file: str | None, schema: str | None) -> str | None:
    """The GBNF that the answer follows, from one of the three options. Raises UsageError."""
    given = {"--grammar": grammar, "--grammar-file": file, "--json-schema": schema}
    flags = [flag for flag, value in given.items() if value is not None]
    for other in flags[1:]:
        refuse_both(flags[0], True, other, True)
    if file is not None:
        return _read("the grammar", file)
    if schema is not None:
        is_text = schema.lstrip().startswith(("{", "[")) or schema.strip() in ("true", "false")
        return schema_to_gbnf(schema if is_text else _read("the JSON schema", schema))
    return grammar


def logit_bias(pairs: Sequence[str]) -> tuple[tuple[int, float], ...]:
    """Ids and what is added to their logits; several biases of one id add up."""
    found: dict[int, float] = {}
    for pair in pairs:
        match = _BIAS.fullmatch(pair.strip())
        if match is None:
            raise wrong_value(
                "--logit-bias",
                pair,
                "a token id, a sign and a number",
                hint="for example `--logit-bias 151645-inf` or `--logit-bias 15043+1.5`",
            )
        token = int(match[1])
        found[token] = found.get(token, 0.0) + float(match[2] + match[3])
    return tuple(found.items())


def require_json(n_logprobs: int | None, *, json: bool) -> int | None:
    """`n_logprobs`. Raises UsageError where they would be shown nowhere."""
    if n_logprobs is not None and not json:
        raise UsageError("--logprobs has no place in plain text", hint="add `--json` or `--jsonl`")
    return n_logprobs


def _read(what: str, file: str) -> str:
    return decode_text(read_input(file, f"{what} {file}"), f"{what} {file}")
