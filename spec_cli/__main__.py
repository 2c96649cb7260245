"""The `spec-cli` program; `python -m spec_cli` is the same."""

import os
import sys
import threading


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        from spec_cli.cli.app import app
        from spec_cli.cli.guard import exit_code_of
        from spec_cli.cli.signals import raise_on_termination
    except KeyboardInterrupt:  # while the imports take their time
        sys.exit(130)
    raise_on_termination()
    exit_code = exit_code_of(app)
    if threading.active_count() > 1:
        # A native call goes on that nothing can stop: its library must not be unloaded under it.
        os._exit(exit_code)
    sys.exit(exit_code)


if __name__ == "__main__":
    main()
