"""The `spec-cli` program; `python -m spec_cli` is the same."""

import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        from spec_cli.cli.app import app
        from spec_cli.cli.guard import exit_code_of
        from spec_cli.cli.signals import raise_on_termination
    except KeyboardInterrupt:  # while the imports take their quarter of a second
        sys.exit(130)
    raise_on_termination()
    sys.exit(exit_code_of(app))


if __name__ == "__main__":
    main()
