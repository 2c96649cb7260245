"""A smaller copy of the draft model, for speed: the draft never decides a token.

On CPUs a pass reads every weight once, so a pure Q4_0 copy of a Q4_K_M, Q8_0 or F16 draft takes
less time a token. It guesses a little worse; `worth_it` weighs the two.
"""

from __future__ import annotations

import glob
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from spec_cli.errors import Cancelled, ModelError, ResourceError
from spec_cli.gguf import Header, read_header
from spec_cli.gguf_file import Tensor
from spec_cli.leftovers import Leftovers
from spec_cli.llama.quantize import PARTIAL, quantize_apart, same_model
from spec_cli.quant import split_parts
from spec_cli.spec.costs import CostTable, PassTimes
from spec_cli.state import StateStore, file_identity
from spec_cli.store import free_space

ORIGINAL_ACCEPTANCE = 0.85
COPY_ACCEPTANCE = 0.835

DIGESTS = "file-digests"
_MIN_SAVING = 0.1  # of the size: a smaller one is not worth a second file
_SPARE_BYTES = 256 << 20  # left free on the disk
_LOCK_POLL_S = 0.1
_PIECE_BYTES = 16 << 20  # hashed in some 10 ms
_BLOCK, _BLOCK_BYTES = 32, 18  # block_q4_0, ggml-common.h
_RECURRENT = re.compile(r"\.(ssm_|time_mix_|shortconv)")  # llama-arch.cpp


@dataclass(frozen=True, slots=True)
class Copy:
    """The copy at `path`, `made` just now or found."""

    path: Path
    made: bool


@dataclass(frozen=True, slots=True)
class NoCopy:
    """There is no copy: drafting goes on with the original."""

    reason: str


class DraftCopies:
    """Q4_0 copies of draft models in `directory`, each made once.

    A copy's name is bound to the SHA-256 of its source and to `build`, the version of llama.cpp.
    A source is hashed once: `state` remembers it by path, size and time of change. Processes that
    want the same copy wait for the one that makes it.
    """

    def __init__(
        self,
        directory: Path,
        *,
        build: str,
        state: StateStore,
        cancelled: Callable[[], bool],
        progress: Callable[[str, float | None], None],
    ) -> None:
        self._directory, self._build, self._state = directory, build, state
        self._cancelled, self._progress = cancelled, progress

    def copy_of(self, source: Header) -> Copy | NoCopy:
        """The copy of `source`, made if need be (some seconds).

        Raises Cancelled, and ModelError when the source has gone in the meantime.
        """
        if reason := objection(source):
            return NoCopy(reason)
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self._directory / self._name(source.path)
            if _is_copy(path, source):
                return Copy(path, made=False)
            with self._locked(path):
                return self._make(path, source)
        except ResourceError as error:
            return NoCopy(error.message)
        except (OSError, NotImplementedError) as error:  # the latter: no locks on this file system
            return NoCopy(f"no copy can be kept in {self._directory}: {error}")

    def _name(self, source: Path) -> str:
        content = json.dumps([self._sha256(source), self._build])
        key = hashlib.sha256(content.encode()).hexdigest()
        return f"{_stem(source)}{key[:24]}.gguf"

    def _sha256(self, path: Path) -> str:
        key = {"path": str(path.absolute()), **file_identity(path)}
        digest = self._state.load(DIGESTS, key)
        if digest is None:
            digest = _digest(path, self._cancelled)
            self._state.save(DIGESTS, key, digest)
        return str(digest)

    @contextmanager
    def _locked(self, path: Path) -> Iterator[None]:
        """Hold the lock of `path`; at the end, no partial file is left, by whomever it was."""
        from filelock import FileLock, Timeout  # slow to import

        lock = FileLock(path.with_suffix(".lock"), mode=0o600)
        while not lock.is_locked:
            try:
                lock.acquire(timeout=_LOCK_POLL_S)
            except Timeout:
                if self._cancelled():
                    raise Cancelled from None
        try:
            yield
        finally:
            for partial in path.parent.glob(f"{path.name}.*{PARTIAL}"):
                partial.unlink(missing_ok=True)
            lock.release()

    def _make(self, path: Path, source: Header) -> Copy | NoCopy:
        if _is_copy(path, source):  # another process was faster
            return Copy(path, made=False)
        needed, free = _copy_bytes(source) + _SPARE_BYTES, free_space(path.parent)
        if free < needed:
            return NoCopy(
                f"a copy needs {needed / 1e9:.2f} GB free in {path.parent}, and there are "
                f"{free / 1e9:.2f} GB"
            )
        self._progress("making a faster copy of the draft model (once)", None)
        quantize_apart(source.path, path, "q4_0", cancelled=self._cancelled)
        return Copy(path, made=True)


def copies_of(source: Header, directory: Path) -> list[Path]:
    """The copies of `source` in `directory`, by whatever version of llama.cpp, the newest first."""
    found = directory.glob(f"{_stem(source.path)}*.gguf")
    copies = [path for path in found if _is_copy(path, source)]
    return sorted(copies, key=lambda path: path.stat().st_mtime_ns, reverse=True)


def leftovers_of(copy: Path) -> Leftovers:
    """What the making of a copy left beside it."""
    lock = copy.with_suffix(".lock")
    found = copy.parent.glob(f"{glob.escape(copy.name)}.*{PARTIAL}")
    return Leftovers(
        tuple(path for path in found if path.is_file() and not path.is_symlink()),
        None if lock.is_symlink() else lock,
    )


def worth_it(
    target: PassTimes, *, original_token_s: float, copy_token_s: float, k_max: int
) -> bool:
    """Whether drafts of up to `k_max` tokens gain more with the copy than with the original.

    Each draft model at its own seconds a token, its own acceptance, and its best draft length.
    The acceptances are what the default pair keeps: Qwen2.5-Coder 1.5B and 0.5B at Q4_K_M, the
    draft against greedy text of the target: 0.849, and 0.835 with the draft at pure Q4_0.
    """
    original = CostTable(target, original_token_s).best(ORIGINAL_ACCEPTANCE, k_max)
    copy = CostTable(target, copy_token_s).best(COPY_ACCEPTANCE, k_max)
    return copy[1] > original[1]


def objection(source: Header) -> str | None:
    """Why no copy of this model is wanted."""
    name = source.path.name
    if len(split_parts(name)) > 1:
        return f"{name} is split into parts"
    names = [tensor.name for tensor in source.tensors]
    if any(map(_RECURRENT.search, names)) or not any(".attn_q" in name for name in names):
        return f"{name} is not made of attention layers alone"
    if _copy_bytes(source) > (1 - _MIN_SAVING) * source.n_bytes:
        return f"Q4_0 would hardly be smaller than {name}, {source.quant or 'of unknown type'}"
    return None


def _copy_bytes(source: Header) -> int:
    """The size of the copy."""
    saved = sum(tensor.n_bytes - copied_bytes(tensor) for tensor in source.tensors)
    return source.n_bytes - saved


def copied_bytes(tensor: Tensor) -> int:
    """The size of a tensor in the copy: vectors, and rows of no whole blocks, stay as they are."""
    if len(tensor.shape) < 2 or tensor.shape[0] % _BLOCK:
        return tensor.n_bytes
    return tensor.n_params // _BLOCK * _BLOCK_BYTES


def _digest(path: Path, cancelled: Callable[[], bool]) -> str:
    """The SHA-256 of a file, some seconds for a large one. Raises OSError and Cancelled."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            if cancelled():
                raise Cancelled
            digest.update(piece)
    return digest.hexdigest()


def _stem(source: Path) -> str:
    """How the names of its copies begin."""
    stem = re.sub(r"[^A-Za-z0-9._-]", "_", source.stem)
    return f"{stem[:100]}-draft-q4_0-"


def _is_copy(path: Path, source: Header) -> bool:
    """Whether `path` is a whole copy, and no link to something else."""
    try:
        return path.is_file() and not path.is_symlink() and same_model(read_header(path), source)
    except ModelError:
        return False
