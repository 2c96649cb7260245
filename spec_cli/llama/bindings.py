"""llama_cpp's bindings of the C API, without the rest of that package."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType

_PACKAGE = "llama_cpp"


def bindings(name: str) -> ModuleType:
    """The module `llama_cpp.NAME`, alone: the package's own `__init__` imports four times as much.

    A program that has imported the package, or does later, has all of it.
    Raises ImportError, and what loading the shared library raises.
    """
    if _PACKAGE in sys.modules:
        return import_module(f"{_PACKAGE}.{name}")
    spec = find_spec(_PACKAGE)
    if spec is None:
        raise ImportError(f"no module named {_PACKAGE}")
    sys.modules[_PACKAGE] = module_from_spec(spec)  # not executed
    try:
        return import_module(f"{_PACKAGE}.{name}")
    finally:
        for loaded in [m for m in sys.modules if m.partition(".")[0] == _PACKAGE]:
            del sys.modules[loaded]
