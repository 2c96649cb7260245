from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spec_cli.gguf import Header, read_header
from spec_cli.learned import LearnedAcceptance
from spec_cli.measured import Measurements
from spec_cli.prediction import (
    ACCEPTANCES,
    Basis,
    basis_of,
    bytes_per_token,
    measured_basis,
    predict,
    shown_by,
)
from spec_cli.spec.costs import TARGET_WIDTHS, CostTable, PassTimes
from spec_cli.spec.forecast import forecast_after
from spec_cli.spec.policy import K_MAX
from spec_cli.spec.survival import GREEDY, Tally, no_tally
from spec_cli.state import StateStore
from tests.tiny_gguf import write_tiny_model
from tests.unit.test_measured import save_draft, save_plan

Pair = tuple[Header, Header]


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    write_tiny_model(tmp_path / "target.gguf", n_layer=4)
    write_tiny_model(tmp_path / "draft.gguf", n_layer=1)
    return read_header(tmp_path / "target.gguf"), read_header(tmp_path / "draft.gguf")


@pytest.fixture
def state(tmp_path: Path) -> StateStore:
    return StateStore(tmp_path / "state")


def size_without(header: Header, *names: str) -> int:
    return sum(tensor.n_bytes for tensor in header.tensors if tensor.name not in names)


def stored(header: Header) -> int:
    return bytes_per_token(header, lambda tensor: tensor.n_bytes)


def test_embedding_is_not_read_where_there_is_an_output_matrix(pair: Pair) -> None:
    target, _ = pair
    assert stored(target) == size_without(target, "token_embd.weight")


def test_embedding_that_is_the_output_matrix_is_read(pair: Pair) -> None:
    target, _ = pair
    tied = replace(target, tensors=tuple(t for t in target.tensors if t.name != "output.weight"))
    assert stored(tied) == size_without(tied)


def test_experts_are_read_as_far_as_they_are_used(pair: Pair) -> None:
    target, _ = pair
    values = {**target.values, "llama.expert_count": 8, "llama.expert_used_count": 2}
    tensors = [replace(t, name=t.name.replace("ffn_up", "ffn_up_exps")) for t in target.tensors]
    experts = sum(tensor.n_bytes for tensor in tensors if "_exps." in tensor.name)
    assert experts > 0
    mixed = replace(target, tensors=tuple(tensors), values=values)
    assert stored(mixed) == stored(target) - round(0.75 * experts)


def test_costs_are_estimated_where_nothing_was_measured(
    pair: Pair, state: StateStore, tmp_path: Path
) -> None:
    basis = basis_of(*pair, Measurements(state), tmp_path / "copies", are_here=True)
    assert not basis.is_measured
    assert 0 < basis.draft_cost < 1
    assert basis.check_cost(K_MAX) == 1.0
    assert "estimated" in basis.source and "(costs estimated)" in predict(basis, {}).sentence


def test_checks_are_estimated_as_another_target_takes_them(
    pair: Pair, state: StateStore, tmp_path: Path
) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF")
    save_plan(state, other, 5.0)
    basis = basis_of(*pair, Measurements(state), tmp_path / "copies", are_here=True)
    assert basis.check_cost(15) == pytest.approx(2 / (1 + 1 / 16))
    assert "other.gguf" in basis.source


def test_a_target_whose_passes_have_one_row_tells_nothing_of_checks(
    pair: Pair, state: StateStore, tmp_path: Path
) -> None:
    for name, widths in (("older.gguf", TARGET_WIDTHS), ("narrow.gguf", (1,))):
        (tmp_path / name).write_bytes(b"GGUF")
        save_plan(state, tmp_path / name, 5.0, widths=widths)
    basis = basis_of(*pair, Measurements(state), tmp_path / "copies", are_here=True)
    assert "older.gguf" in basis.source and basis.k_max == K_MAX


def test_own_measurement_of_the_target_goes_before_that_of_another(
    pair: Pair, state: StateStore, tmp_path: Path
) -> None:
    save_plan(state, pair[0].path, 1.0)
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF")
    save_plan(state, other, 1.0)
    basis = basis_of(*pair, Measurements(state), tmp_path / "copies", are_here=True)
    assert "target.gguf" in basis.source


def test_measured_costs_are_used_where_both_have_them(
    pair: Pair, state: StateStore, tmp_path: Path
) -> None:
    save_plan(state, pair[0].path, 1.0)
    save_draft(state, pair[1].path, 0.25)
    basis = basis_of(*pair, Measurements(state), tmp_path / "copies", are_here=True)
    assert basis.is_measured
    assert basis.costs.draft_token_s == 0.25
    remote = basis_of(*pair, Measurements(state), tmp_path / "copies", are_here=False)
    assert not remote.is_measured


def test_times_of_another_set_up_are_not_mixed(pair: Pair, state: StateStore) -> None:
    save_plan(state, pair[0].path, 1.0)
    save_draft(state, pair[1].path, 0.25, n_threads=16)
    assert measured_basis(Measurements(state), pair[0].path, pair[1].path, []) is None


@pytest.mark.parametrize(("copy_s", "used_s"), [(0.1, 0.1), (0.5, 0.25)])
def test_copy_counts_where_it_is_faster(
    pair: Pair, state: StateStore, tmp_path: Path, copy_s: float, used_s: float
) -> None:
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(b"GGUF")
    save_plan(state, pair[0].path, 1.0)
    save_draft(state, pair[1].path, 0.25)
    save_draft(state, copy, copy_s)
    basis = measured_basis(Measurements(state), pair[0].path, pair[1].path, [copy])
    assert basis is not None and basis.costs.draft_token_s == used_s


def test_prediction_covers_the_acceptances_in_order() -> None:
    costs = CostTable(PassTimes((1, 16), (1.0, 2.0)), 0.2)
    prediction = predict(Basis(costs, 15, True, "measured on this machine"), {})
    assert [f.acceptance for f in prediction.forecasts] == list(ACCEPTANCES)
    low, high = prediction.forecasts[0].auto, prediction.forecasts[-1].auto
    assert f"{low:.2f}x to {high:.2f}x plain" in prediction.sentence
    assert "60 to 90 %" in prediction.sentence


def test_prediction_says_where_nothing_can_be_drafted() -> None:
    costs = CostTable(PassTimes((1,), (1.0,)), 0.1)
    sentence = predict(Basis(costs, 0, True, "measured on this machine"), {}).sentence
    assert sentence == (
        "nothing: passes of the target have one row here, so no draft can be checked"
    )


def test_prediction_says_where_even_perfect_guesses_lose() -> None:
    costs = CostTable(PassTimes((1, 16), (1.0, 16.0)), 1.0)
    sentence = predict(Basis(costs, 15, True, "measured on this machine"), {}).sentence
    assert "even perfect guesses would lose" in sentence


def tally(level: int, n_right: int, n_wrong: int) -> Tally:
    """Guesses of one level."""
    empty = no_tally()
    empty.judged[level] = n_right + n_wrong
    empty.accepted[level] = n_right
    empty.following[:, level] = n_right + n_wrong
    return empty


COSTS = Basis(CostTable(PassTimes((1, 16), (1.0, 2.0)), 0.1), 15, True, "measured on this machine")


def test_without_runs_of_the_pair_what_is_typical_is_expected() -> None:
    prediction = predict(COSTS, {})
    assert [known.rule for known in prediction.expected] == ["greedy", "coupled"]
    assert {known.source for known in prediction.expected} == {"typical for this kind of pair"}
    found, known = prediction.expected[0].forecast, forecast_after(COSTS.costs, GREEDY, 15)
    assert found.acceptance == pytest.approx(known.acceptance)
    assert (found.auto, found.k) == (pytest.approx(known.auto), known.k)


def test_what_the_pair_has_shown_is_expected_of_it() -> None:
    typical = predict(COSTS, {})
    good = predict(COSTS, {"greedy": tally(7, 2000, 0)})
    bad = predict(COSTS, {"greedy": tally(0, 0, 2000)})
    acceptances = [p.expected[0].forecast.acceptance for p in (bad, typical, good)]
    speedups = [p.expected[0].forecast.auto for p in (bad, typical, good)]
    assert acceptances[0] < 0.2 and acceptances[2] > 0.98
    assert speedups == sorted(speedups) and speedups[0] < speedups[1] < speedups[2]
    assert good.expected[0].source == "measured on 2,000 tokens of this pair"
    assert good.expected[1] == typical.expected[1]
    assert good.forecasts == typical.forecasts
    known = good.expected[0].forecast
    assert good.sentence == (
        f"{known.auto:.2f}x plain where {100 * known.acceptance:.0f} % of the guesses are right, "
        "measured on 2,000 tokens of this pair (costs measured here)"
    )


def test_the_file_of_the_draft_that_guessed_most_is_asked(
    pair: Pair, state: StateStore, tmp_path: Path
) -> None:
    target, draft = pair
    copy = tmp_path / "copies" / "draft-draft-q4_0-123.gguf"
    copy.parent.mkdir()
    copy.write_bytes(draft.path.read_bytes())
    for path, n in ((draft.path, 10), (copy, 30)):
        LearnedAcceptance(target.path, path, state=state).add(tally(7, n, 0), "greedy")
    found = shown_by(target, draft, Measurements(state), copy.parent)
    assert (found["greedy"].judged.sum(), found["coupled"].judged.sum()) == (30, 0)
