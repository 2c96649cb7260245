"""A file that holds what models made of a prompt, so that a later run need not read it again.

llama.cpp trusts the states it is given. So nothing of a file reaches it unless this user's own
key signs the file's header, and the header gives the size and the hash of everything else.

Layout: magic, length of the header (4 bytes), header (JSON), its MAC (32 bytes); then for each part
that the header lists the ids of its tokens (4 bytes each) and the state. All numbers little-endian.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from spec_cli.state import StateStore

_KIND = b"spec-cli prompt cache "  # of any version
_MAGIC = _KIND + b"1\n"
_MAX_HEADER_BYTES = 1 << 16
_MAC_BYTES = 32
_KEY = {"of": "prompt cache"}
# What a user calls what differs; other names of a binding are plain words.
_IN_WORDS = {
    "program": "version of `spec-cli`",
    "build": "build of llama.cpp",
    "devices": "device",
    "kernels": "choice of kernels",
    "n_gpu_layers": "`--gpu-layers`",
    "n_threads": "`--threads`",
    "n_batch": "`--batch-size`",
}

Buffer = bytes | bytearray | memoryview


class UnusableCacheError(Exception):
    """A file cannot be used; the text says why, as the end of a sentence about it."""


@dataclass(frozen=True, slots=True)
class Part:
    """The `state` of one model after it has evaluated `tokens`.

    `binding` is what both depend on: a state means nothing where anything of it differs.
    """

    binding: Mapping[str, Any]
    tokens: Sequence[int]
    state: Buffer


def user_key(store: StateStore) -> bytes:
    """The key that signs this user's files on this machine, made when it is first asked for."""
    try:
        key = bytes.fromhex(store.load("secret", _KEY) or "")
    except (TypeError, ValueError):
        key = b""
    if len(key) != _MAC_BYTES:
        key = secrets.token_bytes(_MAC_BYTES)
        store.save("secret", _KEY, key.hex())
    return key


def write_cache(file: BinaryIO, key: bytes, parts: Mapping[str, Part]) -> None:
    """Write `parts`, by name. Raises OSError."""
    described = {
        name: {
            "binding": dict(part.binding),
            "n_tokens": len(part.tokens),
            "n_bytes": len(part.state),
            "hash": _hash(_ids(part.tokens), part.state),
        }
        for name, part in parts.items()
    }
    header = json.dumps(described).encode()
    assert len(header) <= _MAX_HEADER_BYTES
    file.write(_MAGIC + len(header).to_bytes(4, "little") + header + _mac(key, header))
    for part in parts.values():
        file.write(_ids(part.tokens))
        file.write(part.state)


def is_of_another_kind(path: Path) -> bool:
    """Whether `path` is a file with something in it that is no prompt cache."""
    try:
        with _opened(path) as file:
            return file.read(len(_KIND)) not in (b"", _KIND, None)
    except OSError:
        return False


def read_cache(
    path: Path, key: bytes, bindings: Mapping[str, Mapping[str, Any]]
) -> dict[str, Part]:
    """The parts of a file whose bindings are these, by name; its first one is among them.

    Raises UnusableCacheError for any other file, FileNotFoundError where there is none.
    """
    try:
        with _opened(path) as file:
            return _read(file, key, bindings)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnusableCacheError(f"it cannot be read: {error.strerror}") from None


def _opened(path: Path) -> FileIO:
    """A pipe in the file's place would let a plain `open` wait for its writer."""
    return FileIO(os.open(path, os.O_RDONLY | os.O_NONBLOCK))


def _read(file: FileIO, key: bytes, bindings: Mapping[str, Mapping[str, Any]]) -> dict[str, Part]:
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise UnusableCacheError("it is not a regular file")
    described = _signed_header(file, key)
    sizes = {name: 4 * part["n_tokens"] + part["n_bytes"] for name, part in described.items()}
    if file.tell() + sum(sizes.values()) != status.st_size:
        raise UnusableCacheError("it is not whole")
    parts: dict[str, Part] = {}
    for name, part in described.items():
        differing = _differing(part["binding"], bindings.get(name, {}))
        if differing is None:
            parts[name] = _read_part(file, part)
        elif not parts:
            another = _IN_WORDS.get(differing, differing)
            raise UnusableCacheError(f"it was made with another {another}")
        else:
            file.seek(sizes[name], os.SEEK_CUR)
    return parts


def _signed_header(file: FileIO, key: bytes) -> dict[str, Any]:
    """The header, if this key has signed it: then everything in it is what we wrote."""
    start = bytes(_read_bytes(file, len(_MAGIC) + 4))
    n = int.from_bytes(start[len(_MAGIC) :], "little")
    if not start.startswith(_MAGIC) or n > _MAX_HEADER_BYTES:
        raise UnusableCacheError("it is no prompt cache")
    header, mac = bytes(_read_bytes(file, n)), _read_bytes(file, _MAC_BYTES)
    if not hmac.compare_digest(mac, _mac(key, header)):
        raise UnusableCacheError("it was not written by you on this machine")
    described: dict[str, Any] = json.loads(header)
    return described


def _read_part(file: FileIO, described: Mapping[str, Any]) -> Part:
    ids = _read_bytes(file, 4 * described["n_tokens"])
    state = _read_bytes(file, described["n_bytes"])
    if _hash(ids, state) != described["hash"]:
        raise UnusableCacheError("it is damaged")
    return Part(described["binding"], np.frombuffer(ids, "<i4").tolist(), state)


def _read_bytes(file: FileIO, n: int) -> bytearray:
    """`n` bytes, or as many as there are: their hash will tell."""
    data = bytearray(n)
    view, n_read = memoryview(data), 0
    while n_read < n and (got := file.readinto(view[n_read:])):
        n_read += got
    return data


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """The name of the first thing in which two bindings differ."""
    plain = json.loads(json.dumps(dict(other)))  # tuples have become lists in the file
    return next((name for name in {**one, **plain} if one.get(name) != plain.get(name)), None)


def _ids(tokens: Sequence[int]) -> bytes:
    return np.array(tokens, "<i4").tobytes()


def _mac(key: bytes, header: bytes) -> bytes:
    return blake2b(header, key=key, digest_size=_MAC_BYTES).digest()


def _hash(ids: Buffer, state: Buffer) -> str:
    digest = blake2b(ids, digest_size=_MAC_BYTES)
    digest.update(state)
    return digest.hexdigest()
