"""What all runs of a measurement have in common, as columns of its rows."""

from __future__ import annotations

from dataclasses import asdict

from spec_cli.bench.machine import Machine
from spec_cli.bench.matrix import Matrix
from spec_cli.bench.rows import Row
from spec_cli.download import LocalModel
from spec_cli.render.info import RunInfo


def setup_row(
    info: RunInfo,
    machine: Machine,
    matrix: Matrix,
    *,
    target: LocalModel,
    draft: LocalModel | None,
    n_gpu_layers: int | None,
) -> Row:
    """Everything that the figures of a run depend on besides its arm and prompt."""
    plan = info.plan
    return {
        **{name.replace("-", "_"): version for name, version in info.versions.items()},
        **asdict(machine),
        "backend": info.backend,
        "device": info.device,
        "n_threads": info.n_threads,
        "n_gpu_layers": n_gpu_layers,
        "n_ctx": info.n_ctx,
        **_model("target", target, info.target.quant),
        **_model("draft", draft, info.draft.quant if info.draft else None),
        "draft_copy": info.draft_copy,
        "exact": str(info.exact),
        "widths": None if plan.widths is None else list(plan.widths),
        "kernels": asdict(plan.kernels),
        "max_logit_difference": plan.max_difference,
        "seed": matrix.seed,
        "max_tokens": matrix.max_tokens,
        "sampling": {name: value for name, value in info.sampling.items() if name != "temp"},
    }


def _model(role: str, model: LocalModel | None, quant: str | None) -> Row:
    return {
        f"{role}_file": model.path.name if model else None,
        f"{role}_bytes": model.size_bytes if model else None,
        f"{role}_sha256": model.sha256 if model else None,
        f"{role}_quant": quant,
    }
