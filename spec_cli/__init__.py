"""Run a language model locally, faster, without changing a word of what it says."""

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spec_cli.api import Answer, TextSession, TextStream, open_session
    from spec_cli.errors import SpecError
    from spec_cli.prompt import Message

__version__ = "0.1.0"
__all__ = ["Answer", "Message", "SpecError", "TextSession", "TextStream", "open_session"]

logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    """The Python API, loaded when it is first asked for: the command line does without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from spec_cli import api

    return getattr(api, name)
