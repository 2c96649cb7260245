"""The models known by name: the packaged `models.toml` and the user's own files of that shape.

A later file adds pairs and files, or replaces those of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from platformdirs import user_config_path

from spec_cli.errors import ModelError, UsageError
from spec_cli.files import is_file
from spec_cli.modelref import ModelRef, Pair, RepoFile, parse_model
from spec_cli.names import nearest
from spec_cli.registry_file import PairEntry, RegistryFile, read_registry_file

Files = Mapping[str, RepoFile]
"""Known files by `repo:quant` in lower case."""


@dataclass(frozen=True, slots=True)
class Registry:
    """Pairs by name, the default pair, what is known about single files, and for each pair the
    registry file that names it.
    """

    pairs: Mapping[str, Pair]
    default: Pair
    files: Files
    origins: Mapping[str, Path] = field(default_factory=dict)

    def pair(self, text: str) -> Pair:
        """The pair of that name, or the model that `text` names, without a draft.

        Raises ModelError, with the nearest name, when it is neither.
        """
        return self.pairs.get(text) or Pair(name=text, target=self.model(text))

    def model(self, text: str) -> ModelRef:
        """The model that `text` names; a pair's name stands for its target.

        Raises ModelError, with the nearest name, when it names none.
        """
        if text in self.pairs:
            return self.pairs[text].target
        ref = _find_model(text, self.files, base=Path())
        if ref is None:
            raise ModelError(f"no model is called `{text}`", hint=self._name_hint(text))
        return ref

    def _name_hint(self, text: str) -> str:
        if near := nearest(text, [*self.pairs, *(known.name for known in self.files.values())]):
            return f"did you mean `{near}`? `spec-cli models` lists the models known by name"
        return "name a pair of `spec-cli models`, a file `./x.gguf`, or `user/repo:QUANT`"


def load_registry(paths: Iterable[Path] | None = None) -> Registry:
    """The registry made of the files `paths`, each one over those before it.

    Without `paths`: those of `registry_paths()`. Raises UsageError, naming file and key, when
    one of them cannot be used.
    """
    layers = [read_registry_file(path) for path in (registry_paths() if paths is None else paths)]
    files = {key.lower(): facts for layer in layers for key, facts in layer.files.items()}
    entries = {name: entry for layer in layers for name, entry in layer.pairs.items()}
    pairs = {name: _pair(name, entry, files) for name, entry in entries.items()}
    origins = {name: entry.path for name, entry in entries.items()}
    return Registry(pairs, _default(layers, pairs), files, origins)


def registry_paths(cwd: Path | None = None, config_dir: Path | None = None) -> list[Path]:
    """The registry files that exist, lowest rank first: packaged, the user's, the directory's."""
    packaged = _packaged_path()
    others = (user_registry_path(config_dir), (cwd or _working_directory()) / "models.toml")
    return [packaged, *(p for p in others if is_file(p) and not p.samefile(packaged))]


def user_registry_path(config_dir: Path | None = None) -> Path:
    """The user's own registry file, which need not exist."""
    return (config_dir or user_config_path("spec-cli", appauthor=False)) / "models.toml"


def origin(path: Path) -> str:
    """Which of the registry files `path` is, in a word or two."""
    if path == _packaged_path():
        return "built in"
    return "user" if path == user_registry_path() else "directory"


def _packaged_path() -> Path:
    here = Path(__file__).parent
    # Installed, the packaged file lies in the package; in a source checkout, above it.
    return next(p for p in (here / "models.toml", here.parent / "models.toml") if p.is_file())


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:  # it was removed
        return Path()


def _pair(name: str, entry: PairEntry, files: Files) -> Pair:
    def model(text: str) -> ModelRef:
        ref = _find_model(text, files, base=entry.path.parent)
        if ref is None:
            problem = f"{entry.path}: the pair `{name}` names `{text}`, which is not a model"
            hint = "write `user/repo:QUANT`, `hf://user/repo/x.gguf` or `./x.gguf`"
            raise UsageError(problem, hint=hint)
        return ref

    draft = None if entry.draft is None else model(entry.draft)
    return Pair(name, model(entry.target), draft, entry.draft_tokens, entry.notes)


def _find_model(text: str, files: Files, base: Path) -> ModelRef | None:
    """The model that `text` spells out, with what `files` knows about it; None when it is none."""
    ref = files.get(text.lower()) or parse_model(text, base)
    if not isinstance(ref, RepoFile):
        return ref
    if ref.quant is not None:
        return files.get(f"{ref.repo}:{ref.quant}".lower(), ref)
    for known in files.values():
        same_file = (known.repo, known.file) == (ref.repo, ref.file)
        if same_file and ref.revision in (None, known.revision):
            return replace(known, name=ref.name)
    return ref


def _default(layers: list[RegistryFile], pairs: Mapping[str, Pair]) -> Pair:
    named = [(layer.path, layer.default) for layer in layers if layer.default is not None]
    if not named:
        raise UsageError("no registry file names a default pair")
    path, name = named[-1]
    if name not in pairs:
        near = nearest(name, pairs)
        hint = f"did you mean `{near}`?" if near else None
        raise UsageError(f"{path}: `default` names the unknown pair `{name}`", hint=hint)
    return pairs[name]
