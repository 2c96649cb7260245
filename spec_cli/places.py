"""Where the program keeps what it has made."""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_cache_path, user_state_path


def state_dir() -> Path:
    """The directory of what was measured and learned here."""
    return user_state_path("spec-cli", appauthor=False)


def copies_dir() -> Path:
    """The directory of the copies of draft models."""
    return user_cache_path("spec-cli", appauthor=False) / "drafts"
