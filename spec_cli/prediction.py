"""How much drafting with a pair is expected to gain here, before it is tried.

Where both models were measured on this machine, their costs are used. Else they are estimated:
decoding is bound by reading weights, so a token of the draft takes the share of a plain step that
its weights have of the target's; what a wider pass takes is that of another target measured here.
How often guesses are right is what runs of the pair have shown, else what is typical.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spec_cli.draft_copy import copied_bytes, copies_of, objection, worth_it
from spec_cli.gguf import Header
from spec_cli.gguf_file import Tensor
from spec_cli.learned import GREEDY_RULE
from spec_cli.measured import MeasuredTarget, Measurements
from spec_cli.spec.costs import TARGET_WIDTHS, CostTable, PassTimes
from spec_cli.spec.forecast import Forecast, forecast, forecast_after
from spec_cli.spec.policy import K_MAX
from spec_cli.spec.settings import Accept
from spec_cli.spec.survival import GREEDY, SAMPLED, Tally, no_tally

ACCEPTANCES = (0.6, 0.7, 0.8, 0.9)

# By the rules of `--temp 0` and of sampling as it is by default.
_PRIORS = {GREEDY_RULE: GREEDY, str(Accept.COUPLED): SAMPLED}
_FLAT = PassTimes(TARGET_WIDTHS, (1.0,) * len(TARGET_WIDTHS))


@dataclass(frozen=True, slots=True)
class Basis:
    """The costs that a prediction rests on, and where they come from.

    Of `is_measured` costs, times are seconds; of estimated ones, plain steps.
    """

    costs: CostTable
    k_max: int
    is_measured: bool
    source: str

    @property
    def draft_cost(self) -> float:
        """What a guess takes, in plain steps."""
        return self.costs.draft_token_s / self.costs.target(1)

    def check_cost(self, n_tokens: int) -> float:
        """What checking `n_tokens` guesses in one pass takes, in plain steps."""
        return self.costs.target(n_tokens + 1) / self.costs.target(1)


@dataclass(frozen=True, slots=True)
class Expectation:
    """The forecast for a way to choose tokens, an acceptance rule as `LearnedAcceptance` names it.

    It rests on `n_tokens` guesses of the pair; 0: on those of others like it.
    """

    rule: str
    n_tokens: int
    forecast: Forecast

    @property
    def source(self) -> str:
        """Where it comes from."""
        if not self.n_tokens:
            return "typical for this kind of pair"
        return f"measured on {self.n_tokens:,} tokens of this pair"


@dataclass(frozen=True, slots=True)
class Prediction:
    """`basis`, what is expected, and the forecast for each of `ACCEPTANCES`."""

    basis: Basis
    expected: tuple[Expectation, ...]
    forecasts: tuple[Forecast, ...]

    @property
    def sentence(self) -> str:
        """What the pair has shown, else the range, in words."""
        if not self.basis.k_max:
            return "nothing: passes of the target have one row here, so no draft can be checked"
        costs = "measured here" if self.basis.is_measured else "estimated"
        if verdict := self.basis.costs.verdict(self.basis.k_max):
            return f"{verdict} (costs {costs})"
        best = max(self.expected, key=lambda expectation: expectation.n_tokens)
        if best.n_tokens:
            of = best.forecast
            right = f"{100 * of.acceptance:.0f} % of the guesses are right"
            return f"{of.auto:.2f}x plain where {right}, {best.source} (costs {costs})"
        low, high = self.forecasts[0], self.forecasts[-1]
        return (
            f"{low.auto:.2f}x to {high.auto:.2f}x plain where {100 * low.acceptance:.0f} to "
            f"{100 * high.acceptance:.0f} % of the guesses are right (costs {costs})"
        )


def predict(basis: Basis, shown: Mapping[str, Tally]) -> Prediction:
    """The prediction at these costs, for a pair that has `shown` so much, by rule."""
    costs, k_max = basis.costs, basis.k_max
    expected = []
    for rule, prior in _PRIORS.items():
        tally = shown.get(rule, no_tally())
        known = forecast_after(costs, prior.after(tally), k_max)
        expected.append(Expectation(rule, round(tally.judged.sum()), known))
    forecasts = tuple(forecast(costs, a, k_max) for a in ACCEPTANCES)
    return Prediction(basis, tuple(expected), forecasts)


def shown_by(
    target: Header, draft: Header, measurements: Measurements, copies: Path
) -> dict[str, Tally]:
    """What runs of a pair have shown here, by rule: those of the draft's file that guessed most."""
    files = (draft.path, *copies_of(draft, copies))
    return {
        rule: max(
            (measurements.shown(target.path, file, rule) for file in files),
            key=lambda tally: float(tally.judged.sum()),
        )
        for rule in _PRIORS
    }


def basis_of(
    target: Header, draft: Header, measurements: Measurements, copies: Path, *, are_here: bool
) -> Basis:
    """The best costs there are for a pair.

    `copies` is the directory of draft copies; `are_here`: the headers are those of files on this
    machine.
    """
    known = None
    if are_here:
        found = copies_of(draft, copies)
        if basis := measured_basis(measurements, target.path, draft.path, found):
            return basis
        known = measurements.target(target.path)
    return estimated_basis(target, draft, known or measurements.any_drafted_for())


def measured_basis(
    measurements: Measurements, target: Path, draft: Path, copies: Sequence[Path]
) -> Basis | None:
    """The costs measured of a pair, of the draft's copy where that drafts; None: there are none."""
    found = measurements.target(target)
    if found is None:
        return None
    times = found.plan.padded_times()
    original = measurements.draft_times(draft, found.setup)
    if original is None:
        return None
    token_s, k_max = original(1), _k_max(found)
    for path in copies:
        copy = measurements.draft_times(path, found.setup)
        if copy and worth_it(
            times, original_token_s=original(1), copy_token_s=copy(1), k_max=k_max
        ):
            token_s = copy(1)
            break
    return Basis(CostTable(times, token_s), k_max, True, "measured on this machine")


def estimated_basis(target: Header, draft: Header, other: MeasuredTarget | None) -> Basis:
    """Costs from the headers; what wider passes take as for `other`, a target measured here."""
    draft_size = _stored_bytes if objection(draft) else copied_bytes
    share = bytes_per_token(draft, draft_size) / bytes_per_token(target, _stored_bytes)
    how = f"estimated: a guess by the bytes it reads, {100 * share:.0f} % of the target's"
    if other is None:
        source = f"{how}; a check as a plain step, which on a CPU it exceeds"
        return Basis(CostTable(_FLAT, share), K_MAX, False, source)
    times = other.plan.padded_times()
    shape = PassTimes(times.widths, tuple(seconds / times(1) for seconds in times.seconds))
    source = f"{how}; a check as {other.file} takes it here"
    return Basis(CostTable(shape, share), _k_max(other), False, source)


def bytes_per_token(header: Header, size: Callable[[Tensor], int]) -> int:
    """The weights that are read to decode one token.

    Of an embedding one row is read, unless it is the output matrix, too; of the experts as many as
    a token is sent to. `size` gives the stored size of a tensor.
    """
    has_output = any(tensor.name == "output.weight" for tensor in header.tensors)
    share = _expert_share(header)
    n_bytes = sum(
        size(tensor) * (share if "_exps." in tensor.name else 1.0)
        for tensor in header.tensors
        if not (has_output and tensor.name == "token_embd.weight")
    )
    return max(1, round(n_bytes))


def _stored_bytes(tensor: Tensor) -> int:
    return tensor.n_bytes


def _expert_share(header: Header) -> float:
    """The share of the experts that a token is sent to."""
    n_used = header.values.get(f"{header.architecture}.expert_used_count")
    n_experts = header.values.get(f"{header.architecture}.expert_count")
    if isinstance(n_used, int) and isinstance(n_experts, int) and 0 < n_used <= n_experts:
        return n_used / n_experts
    return 1.0


def _k_max(target: MeasuredTarget) -> int:
    """The longest draft that a pass of the target may verify."""
    widest = target.plan.max_width
    return K_MAX if widest is None else min(K_MAX, widest - 1)
