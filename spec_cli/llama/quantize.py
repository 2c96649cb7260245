"""Requantising a model file: `python -m spec_cli.llama.quantize IN.gguf OUT.gguf q8_0 [pure]`."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from spec_cli.errors import ModelError, ResourceError, SpecError, UsageError
from spec_cli.gguf import Header, read_header
from spec_cli.llama.apart import run_apart
from spec_cli.llama.library import library

FILE_TYPES = {"f16": 1, "q4_0": 2, "q8_0": 7, "q4_k_m": 15, "bf16": 32}  # enum llama_ftype, llama.h
PARTIAL = ".incomplete"  # the end of the name of a file that is being written


def quantize(
    source: Path, destination: Path, file_type: str, *, n_threads: int, pure: bool = False
) -> None:
    """Write the model `source` with its matrices as `file_type`.

    `pure`: with every one of them, where the usual mixture keeps some at more bits. The file is
    checked against `source` and appears whole or not at all, readable by its owner alone.

    llama.cpp cannot be interrupted: a signal's Python handler waits for its next line of log,
    once a tensor, and what it raises there is lost. A process that is killed leaves a file named
    `destination.*.incomplete`; the header is written last, so it is no GGUF file.

    Raises UsageError for an unknown type, ResourceError when disk or memory is too small or
    nothing may be written there, and ModelError with llama.cpp's reason otherwise.
    """
    if file_type not in FILE_TYPES:
        raise UsageError(f"unknown type `{file_type}`", hint=f"use one of: {', '.join(FILE_TYPES)}")
    header = read_header(source)
    api = library().api
    params = api.llama_model_quantize_default_params()
    params.ftype, params.pure = FILE_TYPES[file_type], pure
    params.allow_requantize = True
    params.nthread = n_threads
    with _partial_file(destination) as partial:
        library().log.take_errors()
        if api.llama_model_quantize(
            os.fsencode(source), os.fsencode(partial), ctypes.byref(params)
        ):
            raise _error(source, destination, library().log.take_errors())
        _check(partial, header, destination)
        partial.replace(destination)


def quantize_apart(
    source: Path, destination: Path, file_type: str, *, cancelled: Callable[[], bool]
) -> None:
    """`quantize` with `pure`, in a process of its own, where it can be stopped and may crash.

    Raises Cancelled, or ResourceError with the reason that the process gave.
    """
    arguments = (str(source), str(destination), file_type, "pure")
    ended = run_apart("spec_cli.llama.quantize", *arguments, cancelled=cancelled)
    if ended.exit_code < 0:
        raise ResourceError(f"requantising {source.name} failed: {ended.reason}")
    if ended.exit_code > 0:
        raise ResourceError(ended.reason)


def same_model(one: Header, other: Header) -> bool:
    """Whether two files differ in nothing but the types of their weights."""
    return _contents(one) == _contents(other)


@contextmanager
def _partial_file(destination: Path) -> Iterator[Path]:
    """A new file beside `destination`, of a name nobody could have known; gone at the end."""
    try:
        descriptor, name = tempfile.mkstemp(PARTIAL, f"{destination.name}.", destination.parent)
        os.close(descriptor)
        try:
            yield Path(name)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        raise ResourceError(f"{destination} cannot be written: {error.strerror}") from error


def _check(partial: Path, source: Header, destination: Path) -> None:
    """Raise ResourceError when the file is not `source` in other types of weights."""
    try:
        made = read_header(partial)
    except ModelError as error:  # llama.cpp does not notice every failed write
        raise ResourceError(f"{destination} was not written whole: {error.message}") from error
    if not same_model(made, source):
        raise ResourceError(f"{destination} came out as another model than {source.path.name}")


def _contents(header: Header) -> tuple[object, ...]:
    shapes = {tensor.name: tensor.shape for tensor in header.tensors}
    return header.architecture, header.vocab, shapes


def _error(source: Path, destination: Path, log: list[str]) -> SpecError:
    reason = "; ".join(log).rpartition("failed to quantize: ")[2] or "llama.cpp gave no reason"
    if "iostream" in reason:
        return ResourceError(
            f"{destination} cannot be written: {reason}", hint="free some space on its disk"
        )
    if "alloc" in reason:
        return ResourceError(f"not enough memory to requantise {source.name}: {reason}")
    return ModelError(f"{source.name} cannot be requantised: {reason}")


def main() -> None:
    """Requantise as the arguments say; on failure say why on stderr."""
    from spec_cli.cpu import usable_cores

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's own handler would wait for llama.cpp
    source, destination, file_type, pure = _arguments(sys.argv[1:])
    try:
        quantize(source, destination, file_type, n_threads=usable_cores(), pure=pure)
    except SpecError as error:
        sys.exit(error.message)


def _arguments(arguments: list[str]) -> tuple[Path, Path, str, bool]:
    match arguments:
        case [source, destination, file_type, *rest] if rest in ([], ["pure"]):
            return Path(source), Path(destination), file_type, bool(rest)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
