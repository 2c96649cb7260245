"""A text in the user's editor."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from spec_cli.cli.signals import Interrupts
from spec_cli.errors import UsageError
from spec_cli.prompt import decode_text
from spec_cli.terminal import Terminal


def edited(text: str, environ: Mapping[str, str], terminal: Terminal) -> str:
    """`text` after the user's editor, which neither reads our messages nor writes to our answers.

    Raises UsageError when there is none that works, and Terminated when it has ended, if a signal
    asked for that meanwhile.
    """
    editor = environ.get("VISUAL") or environ.get("EDITOR") or "vi"
    with TemporaryDirectory() as directory:
        path = Path(directory) / "message.md"
        path.write_text(text, encoding="utf-8")
        try:
            with Interrupts(last=None) as interrupts:  # Ctrl-C is the editor's
                try:
                    subprocess.run(
                        [*shlex.split(editor), path],
                        stdin=None if terminal.stdin_is_tty else subprocess.DEVNULL,
                        stdout=None if terminal.stdout_is_tty else terminal.stderr,
                        check=True,
                    )
                finally:
                    interrupts.raise_terminated()
            data = path.read_bytes()
        except (OSError, ValueError) as error:
            hint = "set `EDITOR` to a command that works"
            raise UsageError(f"cannot edit with {editor}: {error}", hint=hint) from None
        except subprocess.CalledProcessError as error:
            raise UsageError(f"{editor} failed ({error.returncode}): nothing changed") from None
    return decode_text(data, "the message").rstrip("\n")
