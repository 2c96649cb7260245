"""Run a language model locally, fast, without changing a word of what it says."""

import logging

__version__ = "0.1.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())
