"""`spec-cli chat`: a conversation."""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import datetime
from functools import partial

import typer
from platformdirs import user_state_path

from spec_cli.chat.conversation import Conversation
from spec_cli.chat.settings import ChatSettings
from spec_cli.chat.state import Chat
from spec_cli.cli import chat_options
from spec_cli.cli import options as opt
from spec_cli.cli.chat_commands import COMMANDS
from spec_cli.cli.chat_pairs import LoadedSpeakers
from spec_cli.cli.chat_speaker import Speaker
from spec_cli.cli.chat_talk import Speakers, Talk, Turns
from spec_cli.cli.display_options import Color
from spec_cli.cli.log import show_log
from spec_cli.cli.pairs import LocalPair, choose_pair, fetch_pair
from spec_cli.modelref import Pair
from spec_cli.prompt import check_text, read_template
from spec_cli.registry import Registry, load_registry
from spec_cli.render.choose import RenderOptions
from spec_cli.settings import ALL_LAYERS, DrafterKind, SessionSettings
from spec_cli.spec.acceptance import Accept
from spec_cli.spec.sampling import SamplingSettings
from spec_cli.terminal import ColorMode, Terminal, detect

_SAMPLING = SamplingSettings()
_SESSION = SessionSettings()


def chat(
    system: opt.System = None,
    chat_template: opt.ChatTemplate = None,
    drop_oldest: chat_options.DropOldest = False,
    model: opt.Model = None,
    draft_model: opt.DraftModel = None,
    offline: opt.Offline = False,
    drafter: opt.Drafter = _SESSION.drafter,
    draft_original: opt.DraftOriginal = False,
    index: opt.Index = _SESSION.index,
    no_draft: opt.NoDraft = False,
    draft_tokens: opt.DraftTokens = None,
    accept: opt.AcceptRule = Accept.COUPLED,
    exact: opt.ExactMode = _SESSION.exact,
    temp: opt.Temp = _SAMPLING.temp,
    top_k: opt.TopK = _SAMPLING.top_k,
    top_p: opt.TopP = _SAMPLING.top_p,
    min_p: opt.MinP = _SAMPLING.min_p,
    repeat_penalty: opt.RepeatPenalty = _SAMPLING.repeat_penalty,
    repeat_last_n: opt.RepeatLastN = _SAMPLING.repeat_last_n,
    presence_penalty: opt.PresencePenalty = _SAMPLING.presence_penalty,
    frequency_penalty: opt.FrequencyPenalty = _SAMPLING.frequency_penalty,
    seed: opt.Seed = None,
    max_tokens: opt.MaxTokens = None,
    stop: opt.Stop = None,
    quiet: opt.Quiet = False,
    show_origin: opt.ShowOrigin = False,
    no_tui: opt.NoTui = False,
    color: Color = ColorMode.AUTO,
    ctx_size: opt.CtxSize = None,
    threads: opt.Threads = None,
    gpu_layers: opt.GpuLayers = "auto",
    device: opt.Device = None,
    draft_device: opt.DraftDevice = None,
    batch_size: opt.BatchSize = _SESSION.n_batch,
    verbose: opt.Verbose = False,
) -> None:
    """Talk with a model: messages from the terminal, or one a line from a pipe.

    \b
    Examples:
      spec-cli chat
      spec-cli chat -m qwen3-8b --system "Answer briefly."
      printf 'Name a llama.\\nAnother one.\\n' | spec-cli chat > answers.txt
    """
    opt.require_one("--no-draft", no_draft, "--drafter", drafter is not _SESSION.drafter)
    drafter = DrafterKind.NONE if no_draft else drafter
    terminal = detect(color)
    if verbose:
        show_log(terminal.stderr)
    template = None if chat_template is None else read_template(chat_template)
    registry = load_registry()

    def choose(target: str | None, draft: str | None) -> Pair:
        pair = choose_pair(registry, target, draft, drafter)
        if draft_tokens is None:
            return pair
        return replace(pair, draft_tokens=opt.count("--draft-tokens", draft_tokens, auto=None))

    pair = choose(model, draft_model)
    session = SessionSettings(
        drafter=drafter,
        draft_tokens=pair.draft_tokens,
        n_ctx=ctx_size,
        n_batch=batch_size,
        n_threads=threads,
        n_gpu_layers=opt.count("--gpu-layers", gpu_layers, auto=None, all_=ALL_LAYERS),
        device=device,
        draft_device=draft_device,
        exact=exact,
        draft_copy=not draft_original,
        index=index,
    )
    settings = ChatSettings(
        sampling=SamplingSettings(
            temp=temp,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repeat_penalty=repeat_penalty,
            repeat_last_n=repeat_last_n,
            presence_penalty=presence_penalty,
            frequency_penalty=frequency_penalty,
        ),
        accept=accept,
        seed=seed,
        max_tokens=max_tokens,
        draft_tokens=pair.draft_tokens,
        stats=not quiet,
        drop_oldest=drop_oldest,
        stop=tuple(stop or ()),
    )
    conversation = Conversation(None if system is None else check_text(system, "--system"))
    render = RenderOptions(quiet, show_origin=show_origin, no_tui=no_tui, brief=True)
    fetch = partial(fetch_pair, terminal=terminal, offline=offline, quiet=quiet)

    def speaker(pair: Pair, files: LocalPair) -> Speaker:
        its = replace(session, draft_tokens=pair.draft_tokens)
        return Speaker(files, its, template, terminal, render, datetime.now())

    with LoadedSpeakers(pair, choose=choose, fetch=fetch, make=speaker) as speakers:
        _talk(Chat(conversation, settings), speakers, terminal, registry, quiet=quiet)


def _talk(
    chat: Chat, speakers: Speakers, terminal: Terminal, registry: Registry, *, quiet: bool
) -> None:
    """Talk until the user leaves. Raises typer.Exit where a turn of a pipe failed."""
    talk = Talk(chat, speakers, terminal, COMMANDS, draw_seed=lambda: secrets.randbits(32))
    turns = _turns(terminal, registry)
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
    history = user_state_path("spec-cli", appauthor=False) / "chat-history"
    return TypedTurns(screen, history, COMMANDS, registry.pairs)
