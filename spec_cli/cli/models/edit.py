"""`spec-cli models add` and `forget`: the user's own pairs."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from spec_cli import download
from spec_cli.cli.completion import complete_own_pair
from spec_cli.cli.models.options import Draft, Target
from spec_cli.errors import ModelError, UsageError, wrong_value
from spec_cli.gguf import read_header
from spec_cli.modelref import LocalFile, ModelRef
from spec_cli.names import nearest
from spec_cli.pairing import check_pair
from spec_cli.registry import load_registry, registry_paths, user_registry_path
from spec_cli.registry_edit import add_pair, forget_pair
from spec_cli.registry_file import read_registry_file
from spec_cli.settings import MAX_DRAFT_TOKENS
from spec_cli.terminal import detect

_NAME = re.compile(r"\w[\w.+-]*")


def add(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The name of the pair: letters, digits, `.+-_`.")
    ],
    target: Target,
    draft: Draft = None,
    draft_tokens: Annotated[
        int | None,
        typer.Option(
            "--draft-tokens",
            "-k",
            metavar="N",
            help=f"Always draft N tokens with this pair, 1 to {MAX_DRAFT_TOKENS}.",
            show_default="as many as pay off",
        ),
    ] = None,
    notes: Annotated[
        str | None,
        typer.Option("--notes", metavar="TEXT", help="A note that `spec-cli models` shows."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing pair of that name.")
    ] = False,
) -> None:
    """Give a target and its draft a name, in the models.toml of your configuration directory.

    If both files are on this machine, it first checks that they fit.

    \b
    Example:
      spec-cli models add coder ./target.gguf ./draft.gguf
    """
    if draft_tokens is not None and not 1 <= draft_tokens <= MAX_DRAFT_TOKENS:
        raise wrong_value("--draft-tokens", draft_tokens, f"from 1 to {MAX_DRAFT_TOKENS}")
    registry, path = load_registry(), user_registry_path()
    _check_name(name)
    if name in registry.pairs and not force:
        raise UsageError(
            f"`{name}` is a pair of {registry.origins[name]}",
            hint="choose another name, or replace it with `--force`",
        )
    models = [registry.model(text) for text in (target, draft) if text is not None]
    _check_fit(models)
    fields: dict[str, str | int] = {"target": _spelled(models[0])}
    if len(models) > 1:
        fields["draft"] = _spelled(models[1])
    if draft_tokens is not None:
        fields["draft_tokens"] = draft_tokens
    if notes is not None:
        fields["notes"] = notes
    add_pair(path, name, fields)
    say = detect().stderr.write
    say(f"added to {path}; use it with `spec-cli run -m {name}`\n")
    winner = load_registry().origins[name]
    if winner != path:
        say(f"warning: in this directory {winner} goes before it\n")


def forget(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A pair that you added.", autocompletion=complete_own_pair
        ),
    ],
) -> None:
    """Remove a pair from the models.toml of your configuration directory; delete no files."""
    path = user_registry_path()
    layers = [read_registry_file(found) for found in registry_paths()]
    own = next((layer.pairs for layer in layers if layer.path == path), {})
    if name not in own:
        near = nearest(name, own)
        raise ModelError(
            f"{path} names no pair `{name}`", hint=f"did you mean `{near}`?" if near else None
        )
    defaults = [layer for layer in layers if layer.default is not None]
    elsewhere = any(name in layer.pairs for layer in layers if layer.path != path)
    if defaults[-1].default == name and not elsewhere:
        raise UsageError(
            f"`{name}` is the default pair", hint=f"change `default` in {defaults[-1].path} first"
        )
    forget_pair(path, name)
    detect().stderr.write(f"removed `{name}` from {path}\n")


def _check_name(name: str) -> None:
    """Raise UsageError for a name that looks like a model's, or needs quotes."""
    if not _NAME.fullmatch(name) or name.lower().endswith(".gguf"):
        raise UsageError(
            f"`{name}` cannot be the name of a pair", hint="use letters, digits, `.+-_`"
        )


def _check_fit(models: list[ModelRef]) -> None:
    """Raise PairError where they do not, ModelError for a file that is no usable model."""
    found = [download.cached(ref) for ref in models]
    headers = [read_header(model.path) for model in found if model is not None]
    if len(headers) == 2:
        check_pair(*headers)


def _spelled(ref: ModelRef) -> str:
    """How the registry names it, from whatever directory."""
    return str(ref.path.absolute()) if isinstance(ref, LocalFile) else ref.name
