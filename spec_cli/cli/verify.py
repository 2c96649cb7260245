"""`spec-cli verify`: is speculative text plain text, on this machine, with this pair?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spec_cli.cli import options as opt
from spec_cli.cli import verify_options as vopt
from spec_cli.cli.display_options import Color
from spec_cli.cli.option_values import comma_list, count
from spec_cli.pairs import choose_pair
from spec_cli.prompts import NamedPrompt, built_in_prompts, first_of_each_kind, read_prompts
from spec_cli.registry import load_registry
from spec_cli.settings import ALL_LAYERS, DrafterKind, SessionSettings
from spec_cli.terminal import ColorMode, detect
from spec_cli.verify.matrix import ArmDrafter, Matrix

_SESSION = SessionSettings()


@dataclass(frozen=True, slots=True)
class _Size:
    """How much is verified unless an option says otherwise; all drafters are."""

    draft_tokens: str
    temps: str
    max_tokens: int
    n_rounds: int


_QUICK = _Size("4", "0,0.8", max_tokens=32, n_rounds=2000)
_FULL = _Size("1,3,7,auto", "0,0.8,1.2", max_tokens=256, n_rounds=20_000)


def verify(
    pair: vopt.PairName = None,
    model: opt.Model = None,
    draft_model: opt.DraftModel = None,
    offline: opt.Offline = False,
    prompts: vopt.Prompts = None,
    full: vopt.Full = False,
    drafter: vopt.Drafters = None,
    draft_tokens: vopt.Lengths = None,
    temp: vopt.Temps = None,
    max_tokens: vopt.MaxTokens = None,
    seed: vopt.Seed = 1,
    exact: opt.ExactMode = _SESSION.exact,
    json: opt.Json = False,
    save: vopt.Save = None,
    no_tui: opt.NoTui = False,
    color: Color = ColorMode.AUTO,
    ctx_size: opt.CtxSize = None,
    threads: opt.Threads = None,
    gpu_layers: opt.GpuLayers = "auto",
    device: opt.Device = None,
) -> None:
    """Check that drafting changes no token, by comparing plain and speculative texts.

    Each prompt is answered by plain decoding, then with each drafter and
    draft length. Token ids, text and ending must be equal; a difference is
    traced to its cause. The acceptance rules are tested on logits of the two
    models. Exit code 7 means a difference that rounding does not explain, or
    any difference in bit-exact mode.

    Without options: 5 prompts, temperatures 0 and 0.8, 32 tokens, drafts of
    4 tokens from every drafter; a few minutes on a slow CPU.

    \b
    Examples:
      spec-cli verify
      spec-cli verify ./target.gguf -d ./draft.gguf --exact on -k 3,7,auto
      spec-cli verify --full --save matrix.jsonl
    """
    name = vopt.one_name(pair, model)
    size = _FULL if full else _QUICK
    terminal = detect(color, animate=not no_tui)
    drafters = comma_list("--drafter", drafter or ",".join(ArmDrafter), vopt.drafter_of)
    chosen = choose_pair(load_registry(), name, draft_model, _kind(drafters))
    if chosen.draft is None and drafter is None:
        drafters = tuple(d for d in drafters if not d.kind.needs_model)
    matrix = Matrix(
        prompts=_prompts(prompts, full=full),
        temps=comma_list("--temp", temp or size.temps, vopt.temp_of),
        drafters=drafters,
        draft_tokens=comma_list(
            "--draft-tokens", draft_tokens or size.draft_tokens, vopt.length_of
        ),
        max_tokens=size.max_tokens if max_tokens is None else max_tokens,
        seed=seed,
    )
    settings = SessionSettings(
        drafter=_kind(drafters),
        # A fixed length: the drafter is loaded and drafts also where it cannot pay.
        draft_tokens=max((k for k in matrix.draft_tokens if k is not None), default=1),
        n_ctx=ctx_size,
        n_threads=threads,
        n_gpu_layers=count("--gpu-layers", gpu_layers, all_=ALL_LAYERS),
        device=device,
        exact=exact,
    )

    from spec_cli.cli.verify_start import verify_on  # slow to import: help does without

    verify_on(
        chosen,
        matrix,
        settings,
        terminal,
        offline=offline,
        save=save,
        n_rounds=size.n_rounds,
        as_json=json,
    )


def _kind(drafters: Sequence[ArmDrafter]) -> DrafterKind:
    """The drafter to load; the others need no loading."""
    needs_model = any(drafter.kind.needs_model for drafter in drafters)
    return DrafterKind.MODEL if needs_model else DrafterKind.NGRAM


def _prompts(file: Path | None, *, full: bool) -> tuple[NamedPrompt, ...]:
    """All prompts of the user's file; of the program's own all, or the first of each kind."""
    if file is not None:
        return read_prompts(file)
    return built_in_prompts() if full else first_of_each_kind(built_in_prompts())
