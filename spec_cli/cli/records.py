"""The files that a run is written to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from io import TextIOWrapper
from pathlib import Path

from spec_cli.errors import SpecError, UsageError
from spec_cli.prompt_reuse import PromptReuse
from spec_cli.terminal import Terminal
from spec_cli.trace import TraceFile
from spec_cli.whole_file import WholeFile

_STDOUT = Path("-")


@dataclass(frozen=True, slots=True)
class Records:
    """Where a run is written to: `terminal` has the file of `--output` as its stdout.

    `output` is kept only where its `keep` is called.
    """

    terminal: Terminal
    output: WholeFile | None = None
    trace: TraceFile | None = None
    reuse: PromptReuse | None = None

    def discard(self) -> None:
        """Leave no half-written file beside its place: for a process that ends at once."""
        for file in (self.output, self.reuse):
            if file is not None:
                file.discard()


@contextmanager
def open_records(
    terminal: Terminal, output: Path | None, trace: Path | None, prompt_cache: Path | None
) -> Iterator[Records]:
    """The files that the options ask for, open. Raises UsageError when one cannot be written.

    That of the trace comes last: it is emptied at once. Raises SpecError where `output` takes no
    more.
    """
    _require_different({"--output": output, "--trace": trace, "--prompt-cache": prompt_cache})
    with _named(output), ExitStack() as stack:
        reuse = stack.enter_context(PromptReuse(prompt_cache)) if prompt_cache is not None else None
        whole = None
        if output is not None and output != _STDOUT:
            whole = stack.enter_context(WholeFile(output))
            stdout = TextIOWrapper(whole.file, encoding="utf-8")
            stack.callback(stdout.detach)
            terminal = replace(terminal, stdout=stdout, stdout_is_tty=False)
        trace_file = stack.enter_context(TraceFile(trace)) if trace is not None else None
        yield Records(terminal, whole, trace_file, reuse)


@contextmanager
def _named(output: Path | None) -> Iterator[None]:
    """An error of a stream is one of the file in place of stdout: writing to stderr raises none."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if output in (None, _STDOUT) or error.filename is not None:
            raise
        raise SpecError(f"cannot write {output}: {error.strerror}") from None


def _require_different(paths: Mapping[str, Path | None]) -> None:
    """Raise UsageError when two options name one file: one would overwrite the other."""
    flags: dict[str, str] = {}
    for flag, path in paths.items():
        if path is not None and (other := flags.setdefault(os.path.realpath(path), flag)) != flag:
            raise UsageError(f"{other} and {flag} name the same file, {path}")
