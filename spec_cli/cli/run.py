"""`spec-cli run`: one answer."""

from __future__ import annotations

import secrets

from spec_cli.cli import batch_options as many
from spec_cli.cli import options as opt
from spec_cli.cli import sampling_options as sampling_opt
from spec_cli.cli import structure_options as structure_opt
from spec_cli.cli import text_options as text_opt
from spec_cli.cli.display_options import Color
from spec_cli.cli.grouped import grouped
from spec_cli.cli.inputs import read_material
from spec_cli.cli.log import show_log
from spec_cli.cli.option_groups import Drafting, Machine, Sampling, Structure, session_settings
from spec_cli.cli.option_values import refuse_both
from spec_cli.pairs import choose_pair
from spec_cli.prompt import compose_prompt
from spec_cli.registry import load_registry
from spec_cli.render.options import RenderOptions
from spec_cli.settings import GenerationSettings
from spec_cli.terminal import ColorMode, detect


@grouped
def run(
    *,
    prompt: opt.Prompt = None,
    file: opt.File = None,
    system: opt.System = None,
    system_file: text_opt.SystemFile = None,
    prefill: text_opt.Prefill = None,
    raw: opt.Raw = False,
    chat_template: opt.ChatTemplate = None,
    template_var: text_opt.TemplateVar = None,
    think: text_opt.Think = None,
    lines: many.Input = None,
    parallel: many.Parallel = 1,
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
    output: text_opt.OutputPath = None,
    echo: text_opt.Echo = False,
    hide_reasoning: text_opt.HideReasoning = False,
    trace: text_opt.TracePath = None,
    prompt_cache: text_opt.PromptCache = None,
    quiet: opt.Quiet = False,
    json: opt.Json = False,
    jsonl: opt.JsonLines = False,
    logprobs: structure_opt.Logprobs = None,
    show_origin: opt.ShowOrigin = False,
    no_tui: opt.NoTui = False,
    color: Color = ColorMode.AUTO,
    machine: Machine,
    estimate: opt.Estimate = False,
    verbose: opt.Verbose = False,
) -> None:
    """Answer one prompt: text on stdout, everything else on stderr.

    \b
    Examples:
      spec-cli run "Write a haiku about llamas"
      cat notes.txt | spec-cli run "Summarise this" > summary.txt
      echo "def add(a, b):" | spec-cli run --raw -n 64 --temp 0
    """
    refuse_both("--json", json, "--jsonl", jsonl)
    for name, is_given in {
        "--jsonl": jsonl,
        "--output": output is not None,
        "--trace": trace is not None,
        "--prompt-cache": prompt_cache is not None,
    }.items():
        refuse_both("--estimate", estimate, name, is_given)
    generation = GenerationSettings(
        seed=secrets.randbits(32) if seed is None else seed,
        sampling=sampling.settings(),
        accept=drafting.accept,
        max_tokens=max_tokens,
        stop=tuple(stop or ()),
        grammar=structure.gbnf(),
        ignore_eos=ignore_eos,
        n_logprobs=structure_opt.require_json(logprobs, json=json or jsonl),
    )
    batch = many.batch_options(
        lines,
        output,
        parallel,
        has_seed=seed is not None,
        quiet=quiet,
        no_tui=no_tui,
        others={
            "PROMPT": prompt is not None,
            "--file": file is not None,
            "--json": json,
            "--jsonl": jsonl,
            "--show-origin": show_origin,
            "--estimate": estimate,
            "--echo": echo,
            "--logprobs": logprobs is not None,
            "--trace": trace is not None,
            "--prompt-cache": prompt_cache is not None,
        },
    )
    terminal = detect(color)
    is_one = not (estimate or batch)
    text = compose_prompt(prompt, read_material(terminal, file), raw=raw) if is_one else ""
    if verbose:
        show_log(terminal.stderr)
    prompt_input = text_opt.prompt_input(
        text,
        raw=raw,
        system=system,
        system_file=system_file,
        chat_template=chat_template,
        prefill=prefill,
        template_var=template_var,
        think=think,
    )
    pair = choose_pair(load_registry(), model, draft_model, drafting.kind)
    settings = session_settings(drafting, machine, drafting.length(pair.draft_tokens))
    render = RenderOptions(
        quiet,
        json,
        jsonl,
        show_origin,
        no_tui,
        hide_reasoning=hide_reasoning or quiet,
        echo=echo,
    )

    from spec_cli.cli.run_start import Run  # slow to import: help does without

    wanted = Run(pair, prompt_input, settings, generation, terminal, render, offline)
    if estimate:
        wanted.estimate()
    elif batch:
        wanted.answer_lines(batch)
    else:
        wanted.answer(output, trace, prompt_cache)
