"""The llama.cpp library of this process: loaded once, its log turned into Python logging.

Written for llama-cpp-python 0.3.36 (llama.cpp 0c1e57098); its ctypes structs fit no other.
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections import deque
from functools import cache
from importlib.metadata import version
from types import ModuleType
from typing import Any

from spec_cli.errors import ResourceError, SpecError
from spec_cli.llama.bindings import bindings

# OpenMP threads spin at barriers: a spin this short costs nothing on a quiet machine, and on a busy
# one keeps the step time (docs/performance.md). It has to be set before the library loads.
_SPIN_COUNT = "2000"

_TILED = "GGML_CPU_TILED_MM"  # read once, at the first matrix product (ggml-cpu/tiled)

_LEVELS = {1: logging.DEBUG, 2: logging.INFO, 3: logging.WARNING, 4: logging.ERROR}  # ggml.h


class NativeLog:
    """Receives llama.cpp's log lines, passes them to `logging`, and remembers the last errors."""

    def __init__(self) -> None:
        self._logger = logging.getLogger("spec_cli.llama")
        self._errors: deque[str] = deque(maxlen=8)
        self._line, self._level = "", logging.DEBUG

    def write(self, level: int, text: bytes, _user_data: object = None) -> None:
        """One call of ggml_log_callback; level 5 continues the line before."""
        self._level = _LEVELS.get(level, self._level)
        self._line += text.decode("utf-8", "replace")
        if not self._line.endswith("\n"):
            return
        line, self._line = self._line.strip(), ""
        self._logger.log(self._level, "%s", line)
        if self._level >= logging.ERROR and line:
            self._errors.append(line)

    def take_errors(self) -> list[str]:
        """The errors logged since the last call, oldest first."""
        errors = list(self._errors)
        self._errors.clear()
        return errors


class Library:
    """llama_cpp's low-level module as `api`, and its log. Get it from `library()`."""

    def __init__(self, api: ModuleType) -> None:
        self.api: Any = api
        self.log = NativeLog()
        self.tiled: bool | None = None  # settled by `use_tiled`; None: open
        # Kept: ctypes callbacks are freed with their last reference.
        self._log_callback = api.llama_log_callback(self.log.write)
        api.llama_log_set(self._log_callback, ctypes.c_void_p(0))
        api.llama_backend_init()

    def use_tiled(self, wanted: bool) -> None:
        """Settle, before the first pass, whether tiled CPU products may be used.

        llama.cpp asks once in the life of a process. Raises ResourceError when it was settled
        the other way.
        """
        if self.tiled not in (None, wanted):
            raise ResourceError(
                "this model needs other kernels than the model this process loaded before",
                hint="use a process for each",
            )
        self.tiled = wanted
        os.environ[_TILED] = str(int(wanted))

    @property
    def version(self) -> str:
        """The version of llama-cpp-python, which fixes the llama.cpp commit."""
        return version("llama-cpp-python")

    @property
    def system_info(self) -> str:
        """llama.cpp's own line about the instruction sets it was built for and found."""
        return str(self.api.llama_print_system_info().decode())


@cache
def library() -> Library:
    """Load llama.cpp on first use."""
    os.environ.setdefault("GOMP_SPINCOUNT", _SPIN_COUNT)
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")  # pages of a debugger's output on an abort
    try:
        api = bindings("llama_cpp")
    except (ImportError, RuntimeError, OSError) as error:
        raise SpecError(
            f"llama.cpp cannot be loaded: {error}",
            hint="reinstall it: `pip install --force-reinstall llama-cpp-python==0.3.36`",
        ) from error
    return Library(api)
