"""`spec-cli run`: one answer."""

from __future__ import annotations

import secrets

from spec_cli.cli import options as opt
from spec_cli.cli.answer import answer
from spec_cli.cli.inputs import PromptInput, read_material
from spec_cli.cli.log import show_log
from spec_cli.cli.pairs import choose_pair, fetch_pair
from spec_cli.prompt import compose_prompt, read_template
from spec_cli.registry import load_registry
from spec_cli.render.choose import RenderOptions
from spec_cli.settings import ALL_LAYERS, DrafterKind, GenerationSettings, SessionSettings
from spec_cli.spec.acceptance import Accept
from spec_cli.spec.sampling import SamplingSettings
from spec_cli.terminal import detect

_SAMPLING = SamplingSettings()
_SESSION = SessionSettings()


def run(
    prompt: opt.Prompt = None,
    file: opt.File = None,
    system: opt.System = None,
    raw: opt.Raw = False,
    chat_template: opt.ChatTemplate = None,
    model: opt.Model = None,
    draft_model: opt.DraftModel = None,
    offline: opt.Offline = False,
    drafter: opt.Drafter = _SESSION.drafter,
    draft_original: opt.DraftOriginal = False,
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
    json: opt.Json = False,
    jsonl: opt.JsonLines = False,
    show_origin: opt.ShowOrigin = False,
    no_tui: opt.NoTui = False,
    ctx_size: opt.CtxSize = None,
    threads: opt.Threads = None,
    gpu_layers: opt.GpuLayers = "auto",
    device: opt.Device = None,
    draft_device: opt.DraftDevice = None,
    batch_size: opt.BatchSize = _SESSION.n_batch,
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
        ),
        accept=accept,
        max_tokens=max_tokens,
        stop=tuple(stop or ()),
    )
    terminal = detect()
    text = compose_prompt(prompt, read_material(terminal, file), raw=raw)
    if verbose:
        show_log(terminal.stderr)
    template = None if chat_template is None else read_template(chat_template)
    prompt_input = PromptInput(text, system=system, raw=raw, chat_template=template)
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
    )
    files = fetch_pair(pair, terminal, offline=offline, quiet=quiet)
    render = RenderOptions(quiet, json, jsonl, show_origin, no_tui)
    answer(files, prompt_input, settings, generation, terminal, render)
