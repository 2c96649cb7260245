"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("spec-cli", deadline=None)  # machines are busy: no test asserts a time
settings.load_profile("spec-cli")
