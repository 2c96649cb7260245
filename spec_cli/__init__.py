"""Run a language model locally, fast, without changing a word of what it says."""

__version__ = "0.1.0"
