"""`spec-cli run`: one answer."""

from __future__ import annotations

import secrets

from spec_cli.cli import batch_options as many
from spec_cli.cli import options as opt
from spec_cli.cli import structure_options as structure_opt
from spec_cli.cli import text_options as text_opt
from spec_cli.cli.answer import answer
from spec_cli.cli.batch import Batch, answer_lines
from spec_cli.cli.display_options import Color
from spec_cli.cli.estimate import Estimate, print_estimate
from spec_cli.cli.inputs import read_material
from spec_cli.cli.log import show_log
from spec_cli.cli.pairs import choose_pair, fetch_pair
from spec_cli.prompt import compose_prompt
from spec_cli.registry import load_registry
from spec_cli.render.choose import RenderOptions
from spec_cli.settings import ALL_LAYERS, DrafterKind, GenerationSettings, SessionSettings
from spec_cli.spec.acceptance import Accept
from spec_cli.spec.sampling import SamplingSettings
from spec_cli.terminal import ColorMode, detect

_SAMPLING = SamplingSettings()
_SESSION = SessionSettings()


def run(
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
    logit_bias: structure_opt.LogitBias = None,
    ignore_eos: structure_opt.IgnoreEos = False,
    grammar: structure_opt.Grammar = None,
    grammar_file: structure_opt.GrammarFile = None,
    json_schema: structure_opt.JsonSchema = None,
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
    ctx_size: opt.CtxSize = None,
    threads: opt.Threads = None,
    gpu_layers: opt.GpuLayers = "auto",
    device: opt.Device = None,
    draft_device: opt.DraftDevice = None,
    batch_size: opt.BatchSize = _SESSION.n_batch,
    estimate: Estimate = False,
    verbose: opt.Verbose = False,
) -> None:
    """Answer one prompt: text on stdout, everything else on stderr.

    \b
    Examples:
      spec-cli run "Write a haiku about llamas"
      cat notes.txt | spec-cli run "Summarise this" > summary.txt
      echo "def add(a, b):" | spec-cli run --raw -n 64 --temp 0
    """
    opt.require_one("--json", json, "--jsonl", jsonl)
    opt.require_one("--estimate", estimate, "--jsonl", jsonl)
    opt.require_one("--no-draft", no_draft, "--drafter", drafter is not _SESSION.drafter)
    drafter = DrafterKind.NONE if no_draft else drafter
    generation = GenerationSettings(
        seed=secrets.randbits(32) if seed is None else seed,
        sampling=SamplingSettings(
            temp=temp,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repeat_penalty=repeat_penalty,
            repeat_last_n=repeat_last_n,
            presence_penalty=presence_penalty,
            frequency_penalty=frequency_penalty,
            logit_bias=structure_opt.logit_bias(logit_bias or ()),
        ),
        accept=accept,
        max_tokens=max_tokens,
        stop=tuple(stop or ()),
        grammar=structure_opt.grammar_of(grammar, grammar_file, json_schema),
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
    pair = choose_pair(load_registry(), model, draft_model, drafter)
    settings = SessionSettings(
        drafter=drafter,
        draft_tokens=pair.draft_tokens
        if draft_tokens is None
        else opt.count("--draft-tokens", draft_tokens, auto=None),
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
    if estimate:
        files = fetch_pair(pair, terminal, offline=offline, quiet=quiet)
        draft = files.draft.path if files.draft else None
        print_estimate(files.target.path, draft, settings, terminal, as_json=json)
        return
    if batch:
        files = fetch_pair(pair, terminal, offline=offline, quiet=quiet)
        answer_lines(Batch(files, prompt_input, settings, generation, batch), terminal)
        return
    render = RenderOptions(
        quiet, json, jsonl, show_origin, no_tui, hide_reasoning=hide_reasoning, echo=echo
    )
    with text_opt.records(terminal, output, trace, prompt_cache) as records:
        files = fetch_pair(pair, terminal, offline=offline, quiet=quiet)
        answer(files, prompt_input, settings, generation, records, render)
