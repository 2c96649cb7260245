"""`python -m spec_cli` is `spec-cli`."""

from spec_cli.cli.app import main

main()
