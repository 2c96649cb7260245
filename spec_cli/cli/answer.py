"""Load a pair, generate one answer, show it."""

from __future__ import annotations

import time
from datetime import datetime

import typer

from spec_cli.cli.encode import encode
from spec_cli.cli.info import describe, trace_header
from spec_cli.cli.inputs import PromptInput
from spec_cli.cli.records import Records
from spec_cli.cli.signals import Interrupts
from spec_cli.cli.surroundings import surroundings
from spec_cli.encoding import EncodedPrompt
from spec_cli.errors import Cancelled
from spec_cli.events import Finished, FinishReason, Notice, PromptText
from spec_cli.pairs import LocalPair
from spec_cli.render.base import Renderer, Tee
from spec_cli.render.choose import choose_renderers
from spec_cli.render.info import RunInfo
from spec_cli.render.options import RenderOptions
from spec_cli.render.status import Status
from spec_cli.session import Session
from spec_cli.settings import GenerationSettings, SessionSettings
from spec_cli.trace import Trace


def answer(
    pair: LocalPair,
    prompt: PromptInput,
    settings: SessionSettings,
    generation: GenerationSettings,
    records: Records,
    render: RenderOptions,
) -> None:
    """From the files of a pair to the last character of an answer.

    Raises typer.Exit with the signal's exit code when the user stopped it, and what Session raises.
    """
    notices: list[Notice] = []
    finished = None
    status = Status(records.terminal, quiet=render.quiet)
    with Interrupts(leaving=records.discard) as interrupts:
        environment = surroundings(interrupts, notices, status, learns=True)
        draft = pair.draft.path if pair.draft else None
        started = time.perf_counter()
        try:
            with status, Session(pair.target.path, draft, settings, environment) as session:
                encoded = _encode(session, prompt, interrupts)
                tokens = encoded.tokens
                session.prepare(len(tokens), generation.max_tokens)
                if records.reuse:
                    notices += records.reuse.restore(session, environment.state, tokens)
                load_s = time.perf_counter() - started
                status.close()
                info = describe(
                    session,
                    pair,
                    generation,
                    n_prompt=len(tokens),
                    load_s=load_s,
                    prompt=encoded.text if render.echo else None,
                    prefill=encoded.opening.given or None,
                )
                with _renderers(session, encoded, generation, records, render, info) as renderer:
                    for notice in notices:
                        renderer.handle(notice)
                    if info.prompt is not None:
                        renderer.handle(PromptText(info.prompt))
                    finished = _show(session, encoded, generation, renderer)
                if records.output and (finished.tokens or not _is_interrupted(finished)):
                    records.output.keep()
                if records.reuse:
                    records.reuse.save(session, tokens)
        except Cancelled:
            pass
        except OSError:
            if not interrupts():
                raise  # a terminal that hung up takes no last words
    if finished is None or _is_interrupted(finished):
        raise typer.Exit(interrupts.exit_code)


def _is_interrupted(finished: Finished) -> bool:
    return finished.reason is FinishReason.INTERRUPTED


def _encode(session: Session, prompt: PromptInput, cancelled: Interrupts) -> EncodedPrompt:
    template = session.target_header.chat_template
    return encode(session.model, template, prompt, datetime.now(), cancelled=cancelled)


def _renderers(
    session: Session,
    prompt: EncodedPrompt,
    generation: GenerationSettings,
    records: Records,
    render: RenderOptions,
    info: RunInfo,
) -> Renderer:
    """What shows the run, and its trace if there is one."""
    shown = choose_renderers(records.terminal, render, info)
    if records.trace is None:
        return shown
    header = trace_header(session, info, generation, prompt.tokens)
    return Tee([shown, Trace(records.trace, header, session.plan.padded)])


def _show(
    session: Session, prompt: EncodedPrompt, generation: GenerationSettings, renderer: Renderer
) -> Finished:
    for event in session.generate(prompt.tokens, generation, opening=prompt.opening):
        renderer.handle(event)
        if isinstance(event, Finished):
            return event
    raise AssertionError("a generation ends with Finished")
