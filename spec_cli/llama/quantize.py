"""Requantising a model file: `python -m spec_cli.llama.quantize IN.gguf OUT.gguf q8_0`."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from spec_cli.errors import ModelError, UsageError
from spec_cli.llama.library import library

FILE_TYPES = {"f16": 1, "q4_0": 2, "q8_0": 7, "q4_k_m": 15, "bf16": 32}  # enum llama_ftype, llama.h


def quantize(source: Path, destination: Path, file_type: str, *, n_threads: int) -> None:
    """Write `source` with all weights as `file_type`; the file appears whole or not at all.

    Raises UsageError for an unknown type and ModelError with llama.cpp's reason.
    """
    if file_type not in FILE_TYPES:
        raise UsageError(f"unknown type `{file_type}`", hint=f"use one of: {', '.join(FILE_TYPES)}")
    api = library().api
    params = api.llama_model_quantize_default_params()
    params.ftype = FILE_TYPES[file_type]
    params.nthread = n_threads
    params.allow_requantize = True
    partial = destination.with_name(destination.name + ".incomplete")
    library().log.take_errors()
    try:
        status = api.llama_model_quantize(
            os.fsencode(source), os.fsencode(partial), ctypes.byref(params)
        )
        if status != 0:
            reason = "; ".join(library().log.take_errors()) or "llama.cpp gave no reason"
            raise ModelError(f"{source.name} cannot be requantised: {reason}")
        partial.replace(destination)
    finally:
        partial.unlink(missing_ok=True)


if __name__ == "__main__":
    from spec_cli.cpu import usable_cores

    quantize(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], n_threads=usable_cores())
