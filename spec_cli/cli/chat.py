"""`spec-cli chat`: a conversation."""

from __future__ import annotations

import os
import secrets
from dataclasses import replace
from datetime import datetime
from functools import partial

import typer

from spec_cli.chat.conversation import Conversation
from spec_cli.chat.settings import ChatSettings
from spec_cli.chat.state import Chat
from spec_cli.cli import chat_options
from spec_cli.cli import options as opt
from spec_cli.cli import structure_options as structure_opt
from spec_cli.cli import text_options as text_opt
from spec_cli.cli.chat_commands import COMMANDS
from spec_cli.cli.chat_pairs import LoadedSpeakers
from spec_cli.cli.chat_speaker import Speaker
from spec_cli.cli.chat_talk import Begun, Speakers, Talk, Turns
from spec_cli.cli.chat_template import TemplateChoice
from spec_cli.cli.display_options import Color
from spec_cli.cli.editor import edited
from spec_cli.cli.grouped import grouped
from spec_cli.cli.log import show_log
from spec_cli.cli.option_groups import Drafting, Machine, Sampling, Structure, session_settings
from spec_cli.cli.pairs import LocalPair, choose_pair, fetch_pair
from spec_cli.cli.surroundings import state_store
from spec_cli.modelref import Pair
from spec_cli.places import state_dir
from spec_cli.prompt import check_text, read_template
from spec_cli.registry import Registry, load_registry
from spec_cli.render.choose import RenderOptions
from spec_cli.template_variables import parse_variables
from spec_cli.terminal import ColorMode, Terminal, detect


@grouped
def chat(
    message: chat_options.Message = None,
    *,
    system: opt.System = None,
    system_file: text_opt.SystemFile = None,
    chat_template: opt.ChatTemplate = None,
    template_var: text_opt.TemplateVar = None,
    think: text_opt.Think = None,
    drop_oldest: chat_options.DropOldest = False,
    model: opt.Model = None,
    draft_model: opt.DraftModel = None,
    offline: opt.Offline = False,
    drafting: Drafting,
    sampling: Sampling,
    seed: opt.Seed = None,
    ignore_eos: structure_opt.IgnoreEos = False,
    structure: Structure,
    max_tokens: opt.MaxTokens = None,
    stop: opt.Stop = None,
    hide_reasoning: text_opt.HideReasoning = False,
    quiet: opt.Quiet = False,
    show_origin: opt.ShowOrigin = False,
    no_tui: opt.NoTui = False,
    color: Color = ColorMode.AUTO,
    machine: Machine,
    verbose: opt.Verbose = False,
) -> None:
    """Talk with a model: messages from the terminal, or one a line from a pipe.

    \b
    Examples:
      spec-cli chat
      spec-cli chat -m qwen3-8b --system "Answer briefly."
      spec-cli chat "/load llamas.json"
      printf 'Name a llama.\\nAnother one.\\n' | spec-cli chat > answers.txt
    """
    terminal = detect(color)
    if verbose:
        show_log(terminal.stderr)
    template = TemplateChoice(
        None if chat_template is None else read_template(chat_template),
        parse_variables(template_var or ()),
    )
    system = text_opt.system_prompt(system, system_file)
    conversation = Conversation(None if system is None else check_text(system, "--system"))
    registry = load_registry()

    def choose(target: str | None, draft: str | None) -> Pair:
        pair = choose_pair(registry, target, draft, drafting.kind)
        return replace(pair, draft_tokens=drafting.length(pair.draft_tokens))

    pair = choose(model, draft_model)
    session = session_settings(drafting, machine, pair.draft_tokens)
    settings = ChatSettings(
        sampling=sampling.settings(),
        accept=drafting.accept,
        seed=seed,
        max_tokens=max_tokens,
        draft_tokens=pair.draft_tokens,
        stats=not quiet,
        reasoning=not (hide_reasoning or quiet),
        think=think,
        drop_oldest=drop_oldest,
        stop=tuple(stop or ()),
        grammar=structure.gbnf(),
        ignore_eos=ignore_eos,
    )
    render = RenderOptions(quiet, show_origin=show_origin, no_tui=no_tui, brief=True)
    fetch = partial(fetch_pair, terminal=terminal, offline=offline, quiet=quiet)
    state = state_store()

    def speaker(pair: Pair, files: LocalPair) -> Speaker:
        its = replace(session, draft_tokens=pair.draft_tokens)
        return Speaker(files, its, template, terminal, render, datetime.now(), state)

    with LoadedSpeakers(pair, choose=choose, fetch=fetch, make=speaker) as speakers:
        speakers.now.template(think=think)  # one that has no switch is told before anybody types
        turns = _turns(terminal, registry)
        turns = turns if message is None else Begun(message, turns)
        _talk(Chat(conversation, settings), speakers, terminal, turns, quiet=quiet)


def _talk(chat: Chat, speakers: Speakers, terminal: Terminal, turns: Turns, *, quiet: bool) -> None:
    """Talk until the user leaves. Raises typer.Exit where a turn of a pipe failed."""
    talk = Talk(chat, speakers, terminal, COMMANDS, draw_seed=lambda: secrets.randbits(32))
    if turns.is_interactive and not quiet:
        talk.say(f"{speakers.now.name}. `/help` lists the commands, Ctrl-D leaves.")
    if exit_code := talk.run(turns):
        raise typer.Exit(exit_code)


def _turns(terminal: Terminal, registry: Registry) -> Turns:
    """Messages from the terminal, its prompt on stderr if it can be, else from stdin's lines."""
    from spec_cli.cli.chat_input import PipedTurns, TypedTurns  # a library slow to import

    if not terminal.stdin_is_tty or not (terminal.stderr_is_tty or terminal.stdout_is_tty):
        return PipedTurns(terminal.stdin.buffer)
    screen = terminal.stderr if terminal.stderr_is_tty else terminal.stdout
    history = state_dir() / "chat-history"
    edit = partial(edited, environ=os.environ, terminal=terminal)
    return TypedTurns(screen, history, COMMANDS, registry.pairs, edit=edit)
