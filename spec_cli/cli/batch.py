"""`spec-cli run --input`: one load, and a result for each line."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import typer

from spec_cli.batch.answer import Outcome, answer
from spec_cli.batch.intake import read_requests
from spec_cli.batch.lines import LineReader
from spec_cli.batch.request import Failure, Request
from spec_cli.batch.results import ResultFile, Row, Stored, dump
from spec_cli.batch.tally import Tally
from spec_cli.batch.together import Together, parallel_plan
from spec_cli.cli.batch_options import STREAM, BatchOptions
from spec_cli.cli.encode import encode
from spec_cli.cli.inputs import PromptInput
from spec_cli.cli.signals import Interrupts
from spec_cli.cli.surroundings import surroundings
from spec_cli.errors import Cancelled, CheckError, UsageError
from spec_cli.pairs import LocalPair
from spec_cli.render.batch import BatchProgress
from spec_cli.render.batch_rows import row_of
from spec_cli.render.status import Status
from spec_cli.render.stdout import Stdout
from spec_cli.session import Session
from spec_cli.settings import GenerationSettings, SessionSettings
from spec_cli.spec.settings import Accept
from spec_cli.terminal import Terminal
from spec_cli.text import Opening


class Results(Protocol):
    """Where results go, and those that were there before."""

    stored: list[Stored]

    def write(self, row: Row) -> None:
        """Add a result, whole and at once."""


class StdoutResults:
    """Results on standard output."""

    def __init__(self, stdout: Stdout) -> None:
        self.stored: list[Stored] = []
        self._stdout = stdout

    def write(self, row: Row) -> None:
        """Write a line. Raises BrokenPipeError."""
        self._stdout.write(f"{dump(row)}\n")


@dataclass(frozen=True, slots=True)
class Batch:
    """What all lines have in common; the text of `prompt` is not used."""

    pair: LocalPair
    prompt: PromptInput
    settings: SessionSettings
    generation: GenerationSettings
    options: BatchOptions

    def facts(self) -> dict[str, Any]:
        """What a result depends on besides its line. Who drafts matters to two rules only."""
        target, draft = self.pair.target, self.pair.draft
        generation = asdict(self.generation)
        if not self.options.has_seed:
            generation["seed"] = None
        facts: dict[str, Any] = {
            "target": [target.path.name, target.size_bytes, target.sha256],
            "prompt": asdict(self.prompt),
            "generation": generation,
            "n_ctx": self.settings.n_ctx,
            "exact": self.settings.exact,
        }
        if self.generation.accept is not Accept.COUPLED:
            names = [draft and draft.path.name, self.settings.drafter]
            facts["drafts"] = [*names, self.settings.draft_tokens, self.options.parallel]
        return facts


def answer_lines(batch: Batch, terminal: Terminal) -> None:
    """From the files of a pair to a result for each line of the input.

    Raises CheckError at the end where lines failed, typer.Exit with the signal's exit code when
    the user stopped it, UsageError when input or output cannot be used, and what Session raises.
    """
    options = batch.options
    with (
        _source(options.source, terminal) as (source, n_lines),
        _results(options.output, terminal) as results,
        Interrupts() as interrupts,
    ):
        tally, lines = Tally.of(results.stored), LineReader(source, interrupts)
        requests = read_requests(
            lines,
            results.stored,
            batch.generation,
            batch.facts(),
            keeps_seed=not options.has_seed,
        )
        progress = _progress(terminal, tally, n_lines, options)
        outcomes = _outcomes(batch, requests, lines, interrupts, terminal, progress)
        try:
            with progress, closing(outcomes):
                for outcome in outcomes:
                    results.write(row_of(outcome))
                    tally.add(outcome)
                    progress.show()
        except Cancelled:
            progress.summarise()
            raise typer.Exit(interrupts.exit_code) from None
    progress.summarise()
    if tally.n_failed:
        raise CheckError(
            f"{tally.n_failed:,} of {tally.n_done:,} lines have no answer",
            hint="the results say why, under `error`",
        )


def _outcomes(
    batch: Batch,
    requests: Iterator[Request | Failure],
    lines: LineReader,
    interrupts: Interrupts,
    terminal: Terminal,
    progress: BatchProgress,
) -> Generator[Outcome]:
    """What becomes of each request. The models are loaded if there is one."""
    first = next(requests, None)
    if first is None:
        return
    environment = replace(
        surroundings(interrupts, [], Status(terminal, quiet=True), learns=True),
        notify=progress.handle,
        progress=progress.doing,
    )
    draft = batch.pair.draft.path if batch.pair.draft else None
    n_texts = batch.options.parallel
    with Session(batch.pair.target.path, draft, batch.settings, environment) as session:
        progress.exactness = session.plan.describe()
        to_tokens = partial(_encode, session, batch.prompt)
        plan = parallel_plan(session, n_texts, progress.handle) if n_texts > 1 else None
        if plan is not None:
            together = Together(
                session,
                plan,
                n_texts,
                to_tokens,
                is_ready=lambda: lines.is_ready,
                cancelled=interrupts,
                watch=progress.count,
            )
            progress.show()
            yield from together.answers(chain([first], requests))
            return
        for request in chain([first], requests):
            if isinstance(request, Failure):
                yield request
            else:
                yield answer(session, request, to_tokens, progress.handle)


def _encode(session: Session, shared: PromptInput, request: Request) -> tuple[list[int], Opening]:
    own = replace(
        shared,
        text=request.prompt or "",
        messages=request.messages,
        system=shared.system if request.system is None else request.system,
    )
    template = session.target_header.chat_template
    encoded = encode(session.model, template, own, datetime.now())
    return encoded.tokens, encoded.opening


def _progress(
    terminal: Terminal, tally: Tally, n_lines: int | None, options: BatchOptions
) -> BatchProgress:
    # Lines of results would run into a display on the same terminal.
    is_beside = options.output == STREAM and terminal.stdout_is_tty
    return BatchProgress(
        terminal,
        tally,
        n_lines=n_lines,
        quiet=options.quiet,
        animate=terminal.animate and not (options.no_tui or is_beside),
        clock=time.perf_counter,
    )


@contextmanager
def _source(name: str, terminal: Terminal) -> Iterator[tuple[int, int | None]]:
    """A descriptor to read the input from and, where it can be known, its number of lines."""
    if name == STREAM:
        yield terminal.stdin.fileno(), None
        return
    path = Path(name)
    try:
        file = path.open("rb")
        n_lines = _n_lines(path) if path.is_file() else None
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from None
    with file:
        yield file.fileno(), n_lines


def _n_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(bool(line.strip()) for line in file)


@contextmanager
def _results(name: str, terminal: Terminal) -> Iterator[Results]:
    """Where results go."""
    if name == STREAM:
        yield StdoutResults(Stdout(terminal.stdout))
        return
    with ResultFile(Path(name)) as results:
        yield results
