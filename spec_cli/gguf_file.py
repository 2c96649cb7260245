"""The GGUF format: from the first bytes of one file to its keys and tensor entries.

Reads versions 2 and 3, little-endian (specification: `docs/gguf.md` of the ggml project).
A header is data from strangers: every count and length is checked against the file's size, and
at most `MAX_HEADER_BYTES` are held. Arrays stay packed until someone asks for their elements.
"""

from __future__ import annotations

import codecs
import math
import stat
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

from spec_cli.errors import ModelError
from spec_cli.spec.counts import counted

MAX_HEADER_BYTES = 128 << 20  # the largest vocabularies known need 30 MB
MAX_KEYS = 1 << 16
MAX_TENSORS = 1 << 17
_FIRST_READ_BYTES = 8 << 20  # holds a vocabulary of 150,000 tokens
_STEP_BYTES = 2 << 20
_FETCH_AGAIN = "delete the file and download it again"

UINT32, INT32, STRING, _ARRAY = 4, 5, 8, 9
_NUMBERS = {
    kind: struct.Struct(f"<{code}")
    for kind, code in [*enumerate("BbHhIif?"), (10, "Q"), (11, "q"), (12, "d")]
}
_U32, _U64 = _NUMBERS[UINT32], _NUMBERS[10]

# ggml.c, type_traits: elements and bytes of one block, for the types a file can hold
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 16: (256, 66),
    17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
    23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56),
    30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17), 40: (64, 36), 41: (128, 18),
    42: (64, 18),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Array:
    """An array as stored: `n` elements of the GGUF type `kind`, still packed."""

    kind: int
    n: int
    packed: bytes

    def __len__(self) -> int:
        return self.n

    def strings(self) -> Iterator[bytes]:
        """The elements of an array of strings."""
        assert self.kind == STRING
        end = 0
        for _ in range(self.n):
            start = end + _U64.size
            end = start + _U64.unpack_from(self.packed, end)[0]
            yield self.packed[start:end]

    def numbers(self) -> tuple[int | float | bool, ...]:
        """The elements of an array of numbers or booleans."""
        return tuple(number for (number,) in _NUMBERS[self.kind].iter_unpack(self.packed))


Value = int | float | bool | str | Array


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor's entry; `offset` counts from the start of the file's data section."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int

    @property
    def n_params(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def n_bytes(self) -> int:
        """Stored size; 0 for a type that is newer than this program."""
        n_elements, n_bytes = _BLOCKS.get(self.kind, (1, 0))
        return self.n_params // n_elements * n_bytes


@dataclass(frozen=True, slots=True)
class GgufFile:
    """The header of one file, and the file's size."""

    values: Mapping[str, Value]
    tensors: tuple[Tensor, ...]
    n_bytes: int


class Reader(Protocol):
    """What is needed of an open file."""

    def seek(self, offset: int, /) -> object:
        """Go to `offset` from the start."""

    def read(self, n_bytes: int, /) -> bytes:
        """The next `n_bytes`; fewer only at the end."""


def read_gguf(path: Path) -> GgufFile:
    """Read the header of one file.

    Raises ModelError, each cause with a message of its own, when there is no readable, complete,
    little-endian GGUF file of a known version at `path`.
    """
    try:
        info = path.stat()
        if stat.S_ISDIR(info.st_mode):
            raise ModelError(f"{path} is a directory", hint="name a `.gguf` file inside it")
        if not stat.S_ISREG(info.st_mode):
            raise ModelError(f"{path} is not a regular file", hint="give the path of a file")
        with path.open("rb") as file:
            return parse_gguf(path, file, info.st_size, _FIRST_READ_BYTES)
    except FileNotFoundError:
        hint = "check the path, or give a model by its name"
        raise ModelError(f"no such file: {path}", hint=hint) from None
    except OSError as exc:
        hint = "check the path and its permissions"
        raise ModelError(f"cannot read {path}: {exc.strerror}", hint=hint) from exc


def parse_gguf(path: Path, file: Reader, n_bytes: int, n_first: int) -> GgufFile:
    """Read the header of a file of `n_bytes`; `path` is its name in messages.

    The first `n_first` bytes are tried, then ever more. Raises ModelError as `read_gguf` does.
    """
    _check_start(path, file.read(512))
    return _read_header(path, file, n_bytes, n_first)


def _check_start(path: Path, start: bytes) -> None:
    """Tell the files that are mistaken for a model apart by their first bytes."""
    if not start:
        raise ModelError(f"{path} is empty", hint=_FETCH_AGAIN)
    if not start.startswith(b"GGUF"):
        _refuse_other_format(path, start)
    if len(start) < 8:
        raise ModelError(
            f"{path} is truncated: it has {counted(len(start), 'byte')}", hint=_FETCH_AGAIN
        )
    (version,) = _U32.unpack_from(start, 4)
    if version not in (2, 3):
        if int.from_bytes(start[4:8], "big") in (1, 2, 3):
            raise ModelError(
                f"{path} is a big-endian GGUF file", hint="download a little-endian conversion"
            )
        raise ModelError(
            f"{path} is GGUF version {version}; versions 2 and 3 can be read",
            hint="download a newer conversion" if version < 2 else "upgrade `spec-cli`",
        )


def _refuse_other_format(path: Path, start: bytes) -> NoReturn:
    text = start.removeprefix(codecs.BOM_UTF8).lstrip().lower()
    if text.startswith((b"<!doctype html", b"<html")):
        raise ModelError(
            f"{path} is a web page, not a model",
            hint="the download led to a page; delete the file and download the model itself",
        )
    if start.startswith(b"version https://git-lfs"):
        raise ModelError(
            f"{path} is a Git LFS pointer, not the model itself",
            hint="run `git lfs pull` in its repository, or download the file",
        )
    raise ModelError(
        f"{path} is not a GGUF file: it starts with {start[:4]!r}",
        hint="give a `.gguf` file; other formats must be converted first",
    )


class _Damaged(Exception):
    """The header contradicts the format."""


class _TooShort(Exception):
    """The bytes at hand end before `end`, where the next value does."""

    def __init__(self, end: int) -> None:
        self.end = end


def _read_header(path: Path, file: Reader, n_bytes: int, n_read: int) -> GgufFile:
    while True:
        file.seek(0)
        data = file.read(n_read)
        try:
            return _parse(data, n_bytes)
        except _Damaged as exc:
            raise ModelError(f"{path} is damaged: {exc}", hint=_FETCH_AGAIN) from None
        except _TooShort as exc:
            end = exc.end
        if end > n_bytes or len(data) < n_read:
            raise ModelError(
                f"{path} is truncated: it has {n_bytes:,} of at least {counted(end, 'byte')}",
                hint=_FETCH_AGAIN,
            )
        if end > MAX_HEADER_BYTES:
            raise ModelError(
                f"{path} is damaged: its header claims {counted(end, 'byte')}", hint=_FETCH_AGAIN
            )
        n_read = min(max(n_read + max(n_read // 2, _STEP_BYTES), end), MAX_HEADER_BYTES)


def _parse(data: bytes, n_bytes: int) -> GgufFile:
    cursor = _Cursor(data, pos=8)
    n_tensors, n_keys = cursor.integer(_U64), cursor.integer(_U64)
    if n_tensors > MAX_TENSORS or n_keys > MAX_KEYS:
        raise _Damaged(f"it claims {counted(n_tensors, 'tensor')} and {counted(n_keys, 'key')}")
    values: dict[str, Value] = {}
    for _ in range(n_keys):
        key = cursor.string()
        if key in values:
            raise _Damaged("a key appears twice")
        values[key] = cursor.value()
    tensors = tuple(cursor.tensor() for _ in range(n_tensors))
    data_start = _align(cursor.pos, values.get("general.alignment", 32))
    end = data_start + max((tensor.offset + tensor.n_bytes for tensor in tensors), default=0)
    if tensors and end > n_bytes:
        raise _TooShort(end)
    return GgufFile(values, tensors, n_bytes)


def _align(pos: int, alignment: Value) -> int:
    if type(alignment) is not int or alignment <= 0 or alignment & (alignment - 1):
        raise _Damaged("its alignment is not a power of two")
    return -(-pos // alignment) * alignment


class _Cursor:
    """A position in the first bytes of a file. Every method may raise _TooShort or _Damaged."""

    def __init__(self, data: bytes, pos: int) -> None:
        self.data = data
        self.pos = pos

    def take(self, n_bytes: int) -> bytes:
        start, self.pos = self.pos, self.pos + n_bytes
        if self.pos > len(self.data):
            raise _TooShort(self.pos)
        return self.data[start : self.pos]

    def integer(self, kind: struct.Struct) -> int:
        number: int = kind.unpack(self.take(kind.size))[0]
        return number

    def string(self) -> str:
        return self.take(self.integer(_U64)).decode("utf-8", "replace")

    def value(self) -> Value:
        kind = self.integer(_U32)
        if kind == STRING:
            return self.string()
        if kind == _ARRAY:
            return self.array()
        number = _number(kind)
        value: int | float | bool = number.unpack(self.take(number.size))[0]
        return value

    def array(self) -> Array:
        """An array of numbers or strings. Nested arrays are refused, as llama.cpp refuses them."""
        kind, n = self.integer(_U32), self.integer(_U64)
        if kind == _ARRAY:
            raise _Damaged("an array holds arrays")
        if kind == STRING:
            return Array(kind, n, self.packed_strings(n))
        return Array(kind, n, self.take(n * _number(kind).size))

    def packed_strings(self, n: int) -> bytes:
        data, start = self.data, self.pos
        if start + n * _U64.size > len(data):
            raise _TooShort(start + n * _U64.size)
        pos, unpack_from = start, _U64.unpack_from  # 300,000 times for a common vocabulary
        try:
            for _ in range(n):
                pos += 8 + unpack_from(data, pos)[0]
        except (struct.error, OverflowError):
            raise _TooShort(pos + 8) from None
        return self.take(pos - start)

    def tensor(self) -> Tensor:
        name, n_dims = self.string(), self.integer(_U32)
        if n_dims > 4:
            raise _Damaged(f"a tensor has {counted(n_dims, 'dimension')}")
        shape = tuple(self.integer(_U64) for _ in range(n_dims))
        return Tensor(name, shape, kind=self.integer(_U32), offset=self.integer(_U64))


def _number(kind: int) -> struct.Struct:
    if kind not in _NUMBERS:
        raise _Damaged(f"a value has the unknown type {kind}")
    return _NUMBERS[kind]
