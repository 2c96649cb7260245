"""Load a pair, generate one answer, show it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

import typer

from spec_cli.cli.info import describe
from spec_cli.cli.inputs import PromptInput, encode_prompt
from spec_cli.cli.pairs import LocalPair
from spec_cli.cli.signals import Interrupts
from spec_cli.cli.surroundings import surroundings
from spec_cli.errors import Cancelled
from spec_cli.events import Finished, FinishReason, Notice
from spec_cli.render.base import Renderer
from spec_cli.render.choose import RenderOptions, choose_renderers
from spec_cli.render.status import Status
from spec_cli.session import Session
from spec_cli.settings import GenerationSettings, SessionSettings
from spec_cli.terminal import Terminal


def answer(
    pair: LocalPair,
    prompt: PromptInput,
    settings: SessionSettings,
    generation: GenerationSettings,
    terminal: Terminal,
    render: RenderOptions,
) -> None:
    """From the files of a pair to the last character of an answer.

    Raises typer.Exit with the signal's exit code when the user stopped it, and what Session raises.
    """
    notices: list[Notice] = []
    status = Status(terminal, quiet=render.quiet)
    with Interrupts() as interrupts:
        environment = surroundings(interrupts, notices, status)
        draft = pair.draft.path if pair.draft else None
        started = time.perf_counter()
        try:
            with status, Session(pair.target.path, draft, settings, environment) as session:
                tokens = _encode(session, prompt, interrupts)
                session.prepare(len(tokens), generation.max_tokens)
                load_s = time.perf_counter() - started
                status.close()
                info = describe(session, pair, generation, n_prompt=len(tokens), load_s=load_s)
                with choose_renderers(
                    terminal, render, info, plain_step_estimate_s=session.plain_step_s
                ) as renderer:
                    for notice in notices:
                        renderer.handle(notice)
                    reason = _show(session, tokens, generation, renderer)
        except Cancelled:
            reason = FinishReason.INTERRUPTED
        except OSError:
            if not interrupts():
                raise
            reason = FinishReason.INTERRUPTED  # a terminal that hung up takes no last words
    if reason is FinishReason.INTERRUPTED:
        raise typer.Exit(interrupts.exit_code)


def _encode(session: Session, prompt: PromptInput, cancelled: Interrupts) -> list[int]:
    template = session.target_header.chat_template
    return encode_prompt(session.model, template, prompt, datetime.now(), cancelled=cancelled)


def _show(
    session: Session, tokens: Sequence[int], generation: GenerationSettings, renderer: Renderer
) -> FinishReason:
    for event in session.generate(tokens, generation):
        renderer.handle(event)
        if isinstance(event, Finished):
            return event.reason
    raise AssertionError("a generation ends with Finished")
