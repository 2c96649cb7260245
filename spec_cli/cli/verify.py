"""`spec-cli verify`: is speculative text plain text, on this machine, with this pair?"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer

from spec_cli.cli import options as opt
from spec_cli.cli import verify_options as vopt
from spec_cli.cli.display_options import Color
from spec_cli.cli.info import describe
from spec_cli.cli.inputs import encode_measured
from spec_cli.cli.pairs import LocalPair, choose_pair, fetch_pair
from spec_cli.cli.signals import Interrupts
from spec_cli.cli.surroundings import surroundings
from spec_cli.errors import Cancelled, CheckError, UsageError
from spec_cli.events import Notice
from spec_cli.prompts import NamedPrompt, built_in_prompts, first_of_each_kind, read_prompts
from spec_cli.registry import load_registry
from spec_cli.render.info import RunInfo
from spec_cli.render.notices import Notices
from spec_cli.render.status import Status
from spec_cli.render.verify import print_report
from spec_cli.render.verify_json import print_json
from spec_cli.session import Session
from spec_cli.settings import ALL_LAYERS, DrafterKind, SessionSettings
from spec_cli.terminal import ColorMode, Terminal, detect
from spec_cli.verify.archive import Archive
from spec_cli.verify.matrix import ArmDrafter, Matrix
from spec_cli.verify.run import verify_pair

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
    """Check that drafting changes no token: plain and speculative texts side by side.

    Each prompt is answered by plain decoding, then with each drafter and
    draft length; token ids, text and end must be equal, and a difference is
    traced to its cause. The acceptance rules are checked on rows of the two
    models. Exit code 7: a difference that rounding does not explain, or in
    bit-exact mode, any.

    Without options: 5 prompts, temperatures 0 and 0.8, 32 tokens, drafts of
    4 tokens by all drafters; a few minutes on a slow CPU.

    \b
    Examples:
      spec-cli verify
      spec-cli verify ./target.gguf -d ./draft.gguf --exact on -k 3,7,auto
      spec-cli verify --full --save matrix.jsonl
    """
    name = vopt.one_name(pair, model)
    size = _FULL if full else _QUICK
    terminal = detect(color, animate=not no_tui)
    drafters = vopt.comma_list("--drafter", drafter or ",".join(ArmDrafter), vopt.drafter_of)
    chosen = choose_pair(load_registry(), name, draft_model, _kind(drafters))
    if chosen.draft is None and drafter is None:
        drafters = tuple(d for d in drafters if not d.kind.needs_model)
    matrix = Matrix(
        prompts=_prompts(prompts, full=full),
        temps=vopt.comma_list("--temp", temp or size.temps, vopt.temp_of),
        drafters=drafters,
        draft_tokens=vopt.comma_list(
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
        n_gpu_layers=opt.count("--gpu-layers", gpu_layers, auto=None, all_=ALL_LAYERS),
        device=device,
        exact=exact,
    )
    files = fetch_pair(chosen, terminal, offline=offline, quiet=False)
    _verify(files, matrix, settings, terminal, save=save, n_rounds=size.n_rounds, as_json=json)


def _verify(
    files: LocalPair,
    matrix: Matrix,
    settings: SessionSettings,
    terminal: Terminal,
    *,
    save: Path | None,
    n_rounds: int,
    as_json: bool,
) -> None:
    """Load the pair, verify, and print what was found. Raises CheckError when it failed."""
    notices: list[Notice] = []
    status = Status(terminal, quiet=False)
    with Interrupts() as interrupts:
        environment = surroundings(interrupts, notices, status)
        draft = files.draft.path if files.draft else None
        started = time.perf_counter()
        try:
            with status, Session(files.target.path, draft, settings, environment) as session:
                tokens = encode_measured(session, matrix.prompts, cancelled=interrupts)
                n_longest = max(map(len, tokens.values()))
                session.prepare(n_longest, matrix.max_tokens)
                matrix = _drafted(matrix, session)
                info = describe(
                    session,
                    files,
                    matrix.generation(matrix.temps[0]),
                    n_prompt=n_longest,
                    load_s=time.perf_counter() - started,
                )
                report = verify_pair(
                    session,
                    matrix,
                    tokens,
                    Archive(save, _configuration(files, matrix, settings, info)),
                    n_rounds=n_rounds,
                    cancelled=interrupts,
                    progress=status.show,
                )
                status.close()
                with Notices(terminal.stderr, quiet=False, beside_text=False) as shown:
                    for notice in notices:
                        shown.handle(notice)
                show = print_json if as_json else print_report
                show(terminal, report, matrix, info, _speller(session))
        except Cancelled:
            raise typer.Exit(interrupts.exit_code) from None
        if interrupts():
            raise typer.Exit(interrupts.exit_code)
    if report.failure:
        raise CheckError(report.failure)


def _kind(drafters: Sequence[ArmDrafter]) -> DrafterKind:
    """The drafter to load; the others need no loading."""
    needs_model = any(drafter.kind.needs_model for drafter in drafters)
    return DrafterKind.MODEL if needs_model else DrafterKind.NGRAM


def _drafted(matrix: Matrix, session: Session) -> Matrix:
    """The part of `matrix` that differs here. Raises UsageError when nothing would be drafted."""
    if session.drafting_off is not None:
        by_width = session.model.can_roll_back and session.plan.max_width == 1
        raise UsageError(
            f"there is nothing to verify: {session.drafting_off}",
            hint="use `--exact off`" if by_width else None,
        )
    return matrix if session.plan.max_width is None else matrix.limited(session.k_max)


def _speller(session: Session) -> Callable[[int], str]:
    model = session.model
    return lambda token: model.piece(token).decode("utf-8", "replace") or model.token_text(token)


def _configuration(
    files: LocalPair, matrix: Matrix, settings: SessionSettings, info: RunInfo
) -> dict[str, Any]:
    """All that a text depends on besides prompt, temperature and who drafts."""
    plan = info.plan
    models = {"target": files.target, "draft": files.draft}
    return {
        **{
            role: {"file": model.path.name, "size_bytes": model.size_bytes} if model else None
            for role, model in models.items()
        },
        "plan": {
            "kernels": asdict(plan.kernels),
            "widths": plan.widths,
            "max_difference": plan.max_difference,
        },
        "seed": matrix.seed,
        "max_tokens": matrix.max_tokens,
        "sampling": {k: v for k, v in info.sampling.items() if k != "temp"},
        "n_ctx": info.n_ctx,
        "n_threads": info.n_threads,
        "n_gpu_layers": settings.n_gpu_layers,
        "device": info.device,
        "versions": dict(info.versions),
    }


def _prompts(file: Path | None, *, full: bool) -> tuple[NamedPrompt, ...]:
    """All prompts of the user's file; of the program's own all, or the first of each kind."""
    if file is not None:
        return read_prompts(file)
    return built_in_prompts() if full else first_of_each_kind(built_in_prompts())
