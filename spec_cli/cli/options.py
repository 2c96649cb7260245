"""The options of commands that generate text; their defaults are those of the settings."""

from __future__ import annotations

from typing import Annotated

import typer

from spec_cli.cli.completion import complete_draft, complete_pair
from spec_cli.settings import DrafterKind
from spec_cli.spec.settings import Accept, Exact

_MODEL, _DRAFTING = "Models", "Drafting"
_PROMPT, _OUTPUT, _MACHINE = "Prompt", "Output", "Machine"

Prompt = Annotated[
    str | None,
    typer.Argument(
        metavar="PROMPT",
        help="What to ask; text from stdin or `--file` goes before it.",
        show_default=False,
    ),
]
File = Annotated[
    str | None,
    typer.Option(
        "--file",
        "-f",
        metavar="FILE",
        help="Read text from FILE instead of stdin; `-` means stdin.",
        rich_help_panel=_PROMPT,
    ),
]
System = Annotated[
    str | None,
    typer.Option("--system", "-s", metavar="TEXT", help="System prompt.", rich_help_panel=_PROMPT),
]
Raw = Annotated[
    bool,
    typer.Option(
        "--raw",
        help="Continue the text as it is, without the chat template; control tokens in it take "
        "effect.",
        rich_help_panel=_PROMPT,
    ),
]
ChatTemplate = Annotated[
    str | None,
    typer.Option(
        "--chat-template",
        metavar="FILE",
        help="Use the Jinja chat template in FILE instead of the model's own.",
        rich_help_panel=_PROMPT,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        help="A pair from `spec-cli models`, `user/repo:QUANT`, `hf://user/repo/x.gguf`, or a "
        "path.",
        show_default="the default pair",
        autocompletion=complete_pair,
        rich_help_panel=_MODEL,
    ),
]
DraftModel = Annotated[
    str | None,
    typer.Option(
        "--draft-model",
        "-d",
        metavar="NAME",
        help="The draft model, named the same way; `none` for no draft model.",
        show_default="the pair's",
        autocompletion=complete_draft,
        rich_help_panel=_MODEL,
    ),
]
Offline = Annotated[
    bool,
    typer.Option(
        "--offline",
        help="Do not use the network; use only models that are already here.",
        rich_help_panel=_MODEL,
    ),
]
Drafter = Annotated[
    DrafterKind,
    typer.Option(
        "--drafter",
        help="Where guesses come from: the draft model (`model`), copies of earlier text "
        "(`ngram`), or both (`chain`). `auto`: both, or only copies without a draft model.",
        rich_help_panel=_DRAFTING,
    ),
]
DraftOriginal = Annotated[
    bool,
    typer.Option(
        "--draft-original",
        help="Draft with the draft model's own file instead of a faster Q4_0 copy of it.",
        rich_help_panel=_DRAFTING,
    ),
]
Index = Annotated[
    bool,
    typer.Option(
        "--index",
        help="Keep this answer on this machine, and copy guesses from answers kept earlier.",
        rich_help_panel=_DRAFTING,
    ),
]
NoDraft = Annotated[
    bool,
    typer.Option(
        "--no-draft",
        help="Decode plainly, without drafting; same as `--drafter none`.",
        rich_help_panel=_DRAFTING,
    ),
]
DraftTokens = Annotated[
    str | None,
    typer.Option(
        "--draft-tokens",
        "-k",
        metavar="N|auto",
        help="Tokens to draft per round. `auto` drafts as many as pay off, or none.",
        show_default="the pair's, or auto",
        rich_help_panel=_DRAFTING,
    ),
]
AcceptRule = Annotated[
    Accept,
    typer.Option(
        "--accept",
        help="How guesses are accepted. `coupled` gives the text of plain decoding for the same "
        "seed; `rejection` and `block` only its distribution.",
        rich_help_panel=_DRAFTING,
    ),
]
ExactMode = Annotated[
    Exact,
    typer.Option(
        "--exact",
        help="Compute the same bits with and without drafting: `auto` where that costs at most "
        "3 % of the speed, `on` always, `off` never.",
        rich_help_panel=_DRAFTING,
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens",
        "-n",
        help="Generate at most N tokens.",
        show_default="until the model stops",
        rich_help_panel=_OUTPUT,
    ),
]
Stop = Annotated[
    list[str] | None,
    typer.Option(
        "--stop",
        metavar="TEXT",
        help="Stop just before TEXT; repeatable.",
        rich_help_panel=_OUTPUT,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Print nothing on stderr but warnings and errors.",
        rich_help_panel=_OUTPUT,
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout.", rich_help_panel=_OUTPUT)
]
JsonLines = Annotated[
    bool,
    typer.Option(
        "--jsonl", help="Print JSON events on stdout, one per line.", rich_help_panel=_OUTPUT
    ),
]
ShowOrigin = Annotated[
    bool,
    typer.Option(
        "--show-origin",
        help="Colour each token by where it came from (on a terminal).",
        rich_help_panel=_OUTPUT,
    ),
]
NoTui = Annotated[
    bool, typer.Option("--no-tui", help="Show no live panel.", rich_help_panel=_OUTPUT)
]
CtxSize = Annotated[
    int | None,
    typer.Option(
        "--ctx-size",
        "-c",
        help="Context size in tokens.",
        show_default="as needed",
        rich_help_panel=_MACHINE,
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        "-t",
        help="CPU threads.",
        show_default="the physical cores",
        rich_help_panel=_MACHINE,
    ),
]
GpuLayers = Annotated[
    str,
    typer.Option(
        "--gpu-layers",
        metavar="N|all|auto",
        help="Layers to put on the GPU. `auto`: as many as fit, if there is one.",
        rich_help_panel=_MACHINE,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME",
        help="Device to run on, such as `CUDA0` or `cpu`.",
        show_default="every GPU",
        rich_help_panel=_MACHINE,
    ),
]
DraftDevice = Annotated[
    str | None,
    typer.Option(
        "--draft-device",
        metavar="NAME",
        help="Device for the draft model.",
        show_default="the target's",
        rich_help_panel=_MACHINE,
    ),
]
BatchSize = Annotated[
    int,
    typer.Option(
        "--batch-size",
        "-b",
        help="Evaluate at most N tokens at once, of the prompt or of a draft.",
        rich_help_panel=_MACHINE,
    ),
]
Estimate = Annotated[
    bool,
    typer.Option(
        "--estimate",
        help="Print how much memory the pair needs and whether it fits, without loading it.",
        rich_help_panel=_MACHINE,
    ),
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="Show llama.cpp's log on stderr.", rich_help_panel=_MACHINE
    ),
]
