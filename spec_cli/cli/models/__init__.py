"""`spec-cli models` and `spec-cli pull`: what is known, what is here, what fits together."""

from spec_cli.cli.models.group import group
from spec_cli.cli.models.pull import pull

__all__ = ["group", "pull"]
