"""`spec-cli chat`: a conversation."""

from __future__ import annotations

from dataclasses import replace

from spec_cli.chat.conversation import Conversation
from spec_cli.chat.settings import ChatSettings
from spec_cli.chat.state import Chat
from spec_cli.cli import chat_options
from spec_cli.cli import options as opt
from spec_cli.cli import sampling_options as sampling_opt
from spec_cli.cli import structure_options as structure_opt
from spec_cli.cli import text_options as text_opt
from spec_cli.cli.chat_template import TemplateChoice
from spec_cli.cli.display_options import Color
from spec_cli.cli.grouped import grouped
from spec_cli.cli.log import show_log
from spec_cli.cli.option_groups import Drafting, Machine, Sampling, Structure, session_settings
from spec_cli.modelref import Pair
from spec_cli.pairs import choose_pair
from spec_cli.prompt import check_text, read_template
from spec_cli.registry import load_registry
from spec_cli.render.options import RenderOptions
from spec_cli.template_variables import parse_variables
from spec_cli.terminal import ColorMode, detect


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
    seed: sampling_opt.Seed = None,
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
    """Chat with a model, on a terminal or line by line from a pipe.

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

    from spec_cli.cli.chat_start import Loading, converse  # slow to import: help does without

    loading = Loading(choose, session, template, terminal, render, offline)
    converse(Chat(conversation, settings), pair, registry, loading, message)
