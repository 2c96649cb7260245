"""`spec-cli bench`: does drafting pay, on this machine, with this pair, for these prompts?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from spec_cli.bench.matrix import Matrix, make_arms
from spec_cli.cli import bench_options as bopt
from spec_cli.cli import options as opt
from spec_cli.cli import verify_options as vopt
from spec_cli.cli.display_options import Color
from spec_cli.cli.option_values import comma_list, count
from spec_cli.pairs import choose_pair
from spec_cli.registry import load_registry
from spec_cli.render.options import Format
from spec_cli.settings import ALL_LAYERS, SessionSettings
from spec_cli.terminal import ColorMode, detect

_SESSION = SessionSettings()


@dataclass(frozen=True, slots=True)
class _Size:
    """How much is measured unless an option says otherwise."""

    draft_tokens: str
    max_tokens: int
    n_rounds: int
    per_kind: int | None  # prompts of each kind; None: all


_QUICK = _Size("auto", max_tokens=64, n_rounds=1, per_kind=1)
_FULL = _Size("4,auto", max_tokens=128, n_rounds=2, per_kind=None)


def bench(
    pair: vopt.PairName = None,
    model: opt.Model = None,
    draft_model: opt.DraftModel = None,
    offline: opt.Offline = False,
    prompts: bopt.Prompts = None,
    kind: bopt.Kinds = None,
    per_kind: bopt.PerKind = None,
    drafter: bopt.Drafters = "auto",
    draft_tokens: bopt.Lengths = None,
    accept: bopt.Accepts = "coupled",
    exact: opt.ExactMode = _SESSION.exact,
    temp: bopt.Temps = "0",
    seed: vopt.Seed = 1,
    max_tokens: bopt.MaxTokens = None,
    rounds: bopt.Rounds = None,
    quick: bopt.Quick = False,
    export: bopt.Export = None,
    compare: bopt.Compare = None,
    plot: bopt.Plot = None,
    form: bopt.Form = Format.TEXT,
    synthetic: bopt.Synthetic = None,
    no_tui: opt.NoTui = False,
    color: Color = ColorMode.AUTO,
    ctx_size: opt.CtxSize = None,
    threads: opt.Threads = None,
    gpu_layers: opt.GpuLayers = "auto",
    device: opt.Device = None,
) -> None:
    """Measure drafting against plain decoding, and say which settings to use.

    Each prompt is answered with every setting, in random order, between two
    runs of plain decoding; the ratio of their times is the speed-up. Means are
    over prompts, with 95 % intervals. Where the two plain runs disagree, the
    machine was busy, and the group is measured again.

    Without options: 42 prompts of 7 kinds, 128 tokens, drafts of 4 tokens and
    `auto`, two rounds; an hour on a slow CPU. `--quick` takes minutes.

    \b
    Examples:
      spec-cli bench --quick
      spec-cli bench -k 2,4,8,auto --export runs.jsonl
      spec-cli bench --synthetic 0.8
    """
    name = vopt.one_name(pair, model)
    terminal = detect(color, animate=not no_tui)
    acceptance = bopt.acceptance_of(synthetic)
    size = _QUICK if quick else _FULL
    drafters = comma_list("--drafter", drafter, bopt.drafter_of)
    chosen = choose_pair(load_registry(), name, draft_model, bopt.kind_to_load(drafters))
    matrix = Matrix(
        prompts=bopt.chosen_prompts(prompts, kind, size.per_kind if per_kind is None else per_kind),
        temps=comma_list("--temp", temp, vopt.temp_of),
        arms=make_arms(
            bopt.distinct(drafters, has_draft=chosen.draft is not None),
            comma_list("--accept", accept, bopt.accept_of),
            comma_list("--draft-tokens", draft_tokens or size.draft_tokens, bopt.length_of),
        ),
        max_tokens=size.max_tokens if max_tokens is None else max_tokens,
        n_rounds=size.n_rounds if rounds is None else rounds,
        seed=seed,
    )
    settings = SessionSettings(
        drafter=bopt.kind_to_load(drafters),
        # A fixed length: the drafter is loaded and drafts also where it cannot pay.
        draft_tokens=max(arm.draft_tokens or 1 for arm in matrix.arms),
        n_ctx=ctx_size,
        n_threads=threads,
        n_gpu_layers=count("--gpu-layers", gpu_layers, all_=ALL_LAYERS),
        device=device,
        exact=exact,
    )

    from spec_cli.cli.bench_start import bench_on, open_output  # slow to import

    command = partial(bopt.run_command, name, draft_model, settings, matrix.temps)
    output = open_output(form, command, matrix, compare=compare, export=export, plot=plot)
    bench_on(chosen, matrix, settings, terminal, output, acceptance, offline=offline)
