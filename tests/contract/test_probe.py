"""The width probe: on machines made up for it, and on tiny models through llama.cpp."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import pytest

from spec_cli.errors import Cancelled, ResourceError
from spec_cli.exactness import Planner, TargetSetup, _probe_from_json
from spec_cli.llama.context import LlamaContext
from spec_cli.llama.model import LlamaModel, LoadSettings
from spec_cli.llama.native import KV_TYPES, ContextSettings
from spec_cli.llama.probe import Prober
from spec_cli.spec.costs import TARGET_WIDTHS
from spec_cli.spec.exactness import DEFAULT_KERNELS, Kernels, Rollback, WidthProbe
from spec_cli.spec.interfaces import Logits
from spec_cli.spec.settings import Exact
from spec_cli.state import StateStore

STEADY = Kernels(k_type="bf16")
N_VOCAB = 50


@dataclass(frozen=True)
class Pass:
    """What may decide how a row is computed, and how long its pass takes."""

    width: int
    index: int  # of the row
    n_cells: int
    k_type: str


@dataclass
class Machine:
    """A machine made up for a test, in place of a loaded model.

    `kernel` names what computes a row: rows of unlike names differ, and so does what they leave in
    the KV cache for later ones where `stores` names it unlike. `seconds` is the time of a pass.
    A recurrent memory cannot go back but to its last `keep`.
    """

    kernel: Callable[[Pass], int] = lambda _: 0
    stores: Callable[[Pass], int] = lambda _: 0
    seconds: Callable[[Pass], float] = lambda _: 1.0
    is_recurrent: bool = False
    n_vocab: int = N_VOCAB
    now: float = 0.0
    passes: list[Pass] = field(default_factory=list)
    n_open: int = 0

    def prober(self, cancelled: Callable[[], bool] = lambda: False) -> Prober:
        return Prober(
            cast(LlamaModel, self),
            TARGET_WIDTHS,
            n_threads=1,
            clock=lambda: self.now,
            cancelled=cancelled,
        )


class FakeContext:
    """A `LlamaContext` on a `Machine`: a row depends on all tokens and stored values before it."""

    def __init__(
        self, machine: Machine, settings: ContextSettings, *, cancelled: Callable[[], bool]
    ) -> None:
        self._machine, self._settings, self._cancelled = machine, settings, cancelled
        self._kv: list[tuple[int, int]] = []
        self._n_copied = 0
        self._kept: tuple[int, ...] = ()
        self.n_snapshots = 0
        machine.n_open += 1

    @property
    def n_past(self) -> int:
        return len(self._kv)

    def eval(self, tokens: Sequence[int], n_rows: int | None = None) -> Logits:
        if self._cancelled():
            raise Cancelled
        n_rows = len(tokens) if n_rows is None else n_rows
        settings = self._settings
        assert 0 < len(tokens) <= settings.n_batch and n_rows <= settings.n_rows
        n_cells = self._n_copied + len(self._kv) + len(tokens)
        assert n_cells <= settings.n_ctx
        rows = []
        for index, token in enumerate(tokens):
            how = Pass(len(tokens), index, n_cells, settings.k_type)
            self._kv.append((token, self._machine.stores(how)))
            seed = [
                self._n_copied,
                self._machine.kernel(how),
                *(n for cell in self._kv for n in cell),
            ]
            rows.append(np.random.default_rng(seed).normal(size=N_VOCAB).astype(np.float32))
        self._machine.passes.append(replace(how, index=0))
        self._machine.now += self._machine.seconds(replace(how, index=0))
        return np.array(rows[len(rows) - n_rows :])

    def rollback(self, n_past: int) -> None:
        assert not self._machine.is_recurrent and 0 <= n_past <= len(self._kv)
        del self._kv[n_past:]

    @property
    def evaluated(self) -> tuple[int, ...]:
        return tuple(token for token, _ in self._kv)

    def keep(self, tokens: Sequence[int]) -> int:
        assert self.evaluated[: len(tokens)] == tuple(tokens)
        assert not self._machine.is_recurrent or tokens in (self.evaluated, self._kept)
        self._kept = tuple(tokens)
        del self._kv[len(tokens) :]
        return len(self._kv)

    def repeat(self, n: int) -> None:
        assert self._settings.n_sequences > 1
        self._n_copied += n * len(self._kv)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._machine.n_open -= 1


@pytest.fixture
def fake_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spec_cli.llama.probe.LlamaContext", FakeContext)


made_up = pytest.mark.usefixtures("fake_context")


def splits_single_rows(how: Pass) -> int:
    """As llama.cpp's flash attention on a CPU: one row alone, over a long cache of f16."""
    return how.width == 1 and how.n_cells >= 512 and how.k_type == "f16"


@made_up
def test_where_no_kernel_depends_on_the_width_there_is_one_class() -> None:
    found = Machine().prober().probe(DEFAULT_KERNELS)
    assert found.classes == (TARGET_WIDTHS,)
    assert found.max_difference == 0
    assert found.kernels == DEFAULT_KERNELS


@made_up
def test_widths_fall_into_the_classes_of_the_kernels_that_compute_them() -> None:
    kernels = {1: 0, 2: 0, 3: 0, 8: 8, 12: 8, 16: 8}
    machine = Machine(kernel=lambda how: kernels.get(how.width, how.width))
    found = machine.prober().probe(DEFAULT_KERNELS)
    assert found.classes == ((8, 12, 16), (6,), (4,), (1, 2, 3))
    assert found.max_difference > 1
    assert machine.n_open == 0


@made_up
def test_a_difference_that_only_a_long_context_shows_is_found() -> None:
    machine = Machine(kernel=splits_single_rows)
    assert machine.prober().probe(DEFAULT_KERNELS).classes == (TARGET_WIDTHS[1:], (1,))
    assert machine.prober().probe(DEFAULT_KERNELS).max_difference > 0
    assert machine.prober().probe(STEADY).classes == (TARGET_WIDTHS,)


@made_up
def test_a_difference_that_only_a_short_context_shows_is_found() -> None:
    machine = Machine(kernel=lambda how: how.width >= 12 and how.n_cells < 512)
    found = machine.prober().probe(DEFAULT_KERNELS)
    assert found.classes == ((12, 16), (1, 2, 3, 4, 6, 8))
    assert found.max_difference > 0


@made_up
def test_a_difference_in_what_a_single_row_leaves_behind_is_found() -> None:
    """The row itself is right; the next one, that attends to it, is not."""
    machine = Machine(stores=lambda how: how.width == 1)
    assert machine.prober().probe(DEFAULT_KERNELS).classes == (TARGET_WIDTHS[1:], (1,))


@made_up
def test_a_width_whose_rows_depend_on_their_place_in_the_pass_is_in_no_class() -> None:
    """Six rows as four and two: the first four are right, so that 4 and 6 agree."""
    machine = Machine(kernel=lambda how: {4: 4, 6: 4 if how.index < 4 else 6}.get(how.width, 0))
    assert machine.prober().probe(DEFAULT_KERNELS).classes == ((1, 2, 3, 8, 12, 16), (4,))


@made_up
@pytest.mark.parametrize("is_long", [False, True])
def test_a_place_that_matters_at_one_length_of_the_context_only_is_found(is_long: bool) -> None:
    machine = Machine(
        kernel=lambda how: how.width == 16 and how.index >= 12 and (how.n_cells >= 512) == is_long
    )
    assert machine.prober().probe(DEFAULT_KERNELS).classes == (TARGET_WIDTHS[:-1],)


@made_up
def test_where_every_row_depends_on_its_place_width_1_is_left() -> None:
    found = Machine(kernel=lambda how: how.index).prober().probe(DEFAULT_KERNELS)
    assert found.classes == ((1,),)


@made_up
def test_pass_times_are_taken_at_a_short_and_at_a_long_context() -> None:
    machine = Machine(seconds=lambda how: how.width * (10.0 if how.n_cells >= 512 else 1.0))
    found = machine.prober().probe(DEFAULT_KERNELS)
    assert found.short.widths == found.long.widths == TARGET_WIDTHS
    assert found.short.seconds == tuple(map(float, TARGET_WIDTHS))
    assert found.long.seconds == tuple(10.0 * w for w in TARGET_WIDTHS)


@made_up
def test_of_the_two_plain_steps_the_faster_is_counted() -> None:
    def seconds(how: Pass) -> float:
        if how.width > 1:
            return 4.0
        is_second = how.n_cells % 16 == 2  # the prefix is a multiple of 16
        return (9.0 if is_second else 3.0) if how.n_cells >= 512 else (2.0 if is_second else 7.0)

    found = Machine(seconds=seconds).prober().probe(DEFAULT_KERNELS)
    assert (found.short(1), found.long(1)) == (2.0, 3.0)


@made_up
def test_the_steady_cache_alone_is_probed_where_it_agrees_at_no_cost() -> None:
    machine = Machine(kernel=splits_single_rows)
    found = machine.prober().survey(DEFAULT_KERNELS)
    assert [(f.kernels, f.classes, f.slowdown) for f in found] == [(STEADY, (TARGET_WIDTHS,), 0.0)]
    assert machine.n_open == 0


def slower_when_steady(factor: float) -> Callable[[Pass], float]:
    """One row takes `factor` as long with the steady cache at a long context."""
    return lambda how: (
        factor if how.k_type == "bf16" and how.width == 1 and how.n_cells >= 512 else 1.0
    )


@made_up
@pytest.mark.parametrize("factor", [1.02, 1.1])
def test_the_default_cache_is_probed_too_where_the_steady_one_costs_more(factor: float) -> None:
    machine = Machine(kernel=splits_single_rows, seconds=slower_when_steady(factor))
    found = machine.prober().survey(DEFAULT_KERNELS)
    expected = [DEFAULT_KERNELS, STEADY] if factor > 1.03 else [STEADY]
    assert [f.kernels for f in found] == expected
    assert found[-1].slowdown == pytest.approx(factor - 1)
    assert len(found) == 1 or found[0].slowdown == 0
    assert len(found) == 1 or found[0].classes == (TARGET_WIDTHS[1:], (1,))


def single_row_differs(row_s: float) -> Machine:
    """One row alone is computed in its own way; a pass takes a second and `row_s` for each row."""
    return Machine(kernel=lambda how: how.width == 1, seconds=lambda how: 1.0 + row_s * how.width)


@made_up
def test_the_default_cache_is_probed_too_where_padding_costs_more_with_the_steady_one() -> None:
    found = single_row_differs(0.1).prober().survey(DEFAULT_KERNELS)
    assert [f.kernels for f in found] == [DEFAULT_KERNELS, STEADY]
    assert {f.classes for f in found} == {(TARGET_WIDTHS[1:], (1,))}
    found = single_row_differs(0.01).prober().survey(DEFAULT_KERNELS)
    assert [f.kernels for f in found] == [STEADY]


@made_up
@pytest.mark.parametrize("n_noisy", [0, 3, 100])
def test_noise_in_a_padded_plain_step_is_measured_away(n_noisy: int) -> None:
    """Padding costs 1 %; the first passes of two rows take 8 % more than that."""
    noise = iter([1.08] * n_noisy)

    def seconds(how: Pass) -> float:
        return 1.01 * next(noise, 1.0) if how.width == 2 else 1.0 + 0.005 * how.width

    machine = Machine(kernel=lambda how: how.width == 1, seconds=seconds)
    found = machine.prober().survey(DEFAULT_KERNELS)
    assert [f.kernels for f in found] == ([STEADY] if n_noisy < 100 else [DEFAULT_KERNELS, STEADY])
    assert found[-1].short.widths == TARGET_WIDTHS


@made_up
def test_a_padded_plain_step_that_is_far_too_dear_is_not_timed_again() -> None:
    dear, cheap = single_row_differs(1.0), single_row_differs(0.01)
    for machine in (dear, cheap):
        machine.prober().probe(DEFAULT_KERNELS)
    assert len(dear.passes) == len(cheap.passes)


@made_up
def test_a_survey_keeps_the_way_the_model_was_loaded() -> None:
    bare = Kernels(repack=False, tiled=False)
    found = single_row_differs(0.1).prober().survey(bare)
    assert [f.kernels for f in found] == [bare, replace(bare, k_type="bf16")]


@made_up
def test_several_rows_that_are_slower_with_the_steady_cache_count_too() -> None:
    machine = Machine(
        seconds=lambda how: 1.5 if how.k_type == "bf16" and how.width > 1 else 1.0,
    )
    found = machine.prober().survey(DEFAULT_KERNELS)
    assert found[-1].slowdown == pytest.approx(0.5)


@made_up
@pytest.mark.parametrize("piece_s", [1.2, 5.0])
def test_a_prompt_that_is_slower_with_the_steady_cache_counts_by_its_share_of_a_run(
    piece_s: float,
) -> None:
    """A run is 256 steps and a prompt of 16 pieces; a piece has 32 tokens, more than any draft."""
    machine = Machine(
        seconds=lambda how: piece_s if how.k_type == "bf16" and how.width == 32 else 1.0,
    )
    found = machine.prober().survey(DEFAULT_KERNELS)
    assert found[-1].slowdown == pytest.approx(16 * (piece_s - 1) / (256 + 16))
    assert [f.kernels for f in found] == ([STEADY] if piece_s < 1.5 else [DEFAULT_KERNELS, STEADY])


@made_up
def test_the_piece_of_a_prompt_asks_for_no_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate, asked = FakeContext.eval, set()

    def watched(self: FakeContext, tokens: Sequence[int], n_rows: int | None = None) -> Logits:
        asked.add((len(tokens), n_rows))
        return evaluate(self, tokens, n_rows)

    monkeypatch.setattr(FakeContext, "eval", watched)
    Machine().prober().survey(DEFAULT_KERNELS)
    assert {n_rows for width, n_rows in asked if width == 32} == {0}


@made_up
@pytest.mark.parametrize("quiet_from", [0, 1, 3, 99])
def test_noise_is_measured_away_where_it_ends_in_time(quiet_from: int) -> None:
    """Until the default cache was measured `quiet_from` times the steady one is disturbed."""
    machine = Machine()

    def long_passes() -> list[str]:
        return [p.k_type for p in machine.passes if p.n_cells >= 512 and p.width == 8]

    def seconds(how: Pass) -> float:
        disturbed = how.k_type == "bf16" and long_passes().count("f16") < quiet_from
        return 2.0 if disturbed and how.n_cells >= 512 else 1.0

    machine.seconds = seconds
    found = machine.prober().survey(DEFAULT_KERNELS)
    n_rounds = min(quiet_from + 1, 10)
    assert found[-1].slowdown == (0.0 if quiet_from < 10 else 1.0)
    assert long_passes()[1 : 1 + 2 * n_rounds] == ["bf16", "f16"] * n_rounds  # in turns
    assert len(long_passes()) == 1 + 2 * n_rounds + (len(found) - 1)


@made_up
def test_noise_that_meets_one_kind_of_pass_at_a_time_is_measured_away_too() -> None:
    """A single row is disturbed in every other round, several rows in the others."""
    machine = Machine()

    def seconds(how: Pass) -> float:
        if how.n_cells < 512 or how.k_type != "bf16":
            return 1.0
        n_rounds = sum(p.k_type == "f16" and p.n_cells >= 512 for p in machine.passes) // 4
        return 2.0 if n_rounds % 2 == (how.width > 1) else 1.0

    machine.seconds = seconds
    (found,) = machine.prober().survey(DEFAULT_KERNELS)
    assert (found.kernels, found.slowdown) == (STEADY, 0.0)


@made_up
def test_a_memory_that_cannot_roll_back_is_asked_for_no_rollback() -> None:
    machine = Machine(is_recurrent=True)
    for found in (
        machine.prober().probe(DEFAULT_KERNELS),
        *machine.prober().survey(DEFAULT_KERNELS),
    ):
        assert (found.kernels, found.classes, found.max_difference) == (DEFAULT_KERNELS, ((1,),), 0)
        assert found.short == found.long and found.short.widths == (1,)
        assert found.rollback is Rollback.NONE
    assert sorted({p.width for p in machine.passes})[0] == 1
    assert len({p.width for p in machine.passes}) == 2  # the prefix and a step


@made_up
def test_a_survey_that_is_cancelled_leaves_no_context_open() -> None:
    whole = single_row_differs(0.1)
    assert len(whole.prober().survey(DEFAULT_KERNELS)) == 2
    for n in range(len(whole.passes)):
        machine = single_row_differs(0.1)
        prober = machine.prober(cancelled=lambda m=machine, n=n: len(m.passes) == n)  # type: ignore[misc]
        with pytest.raises(Cancelled):
            prober.survey(DEFAULT_KERNELS)
        assert machine.n_open == 0, f"cancelled in pass {n}"


@pytest.fixture(scope="module")
def loaded(tiny_target: Path) -> Iterator[LlamaModel]:
    with LlamaModel(tiny_target, LoadSettings()) as model:
        yield model


def probe(model: LlamaModel, kernels: Kernels = DEFAULT_KERNELS) -> WidthProbe:
    prober = Prober(
        model, TARGET_WIDTHS, n_threads=1, clock=time.perf_counter, cancelled=lambda: False
    )
    return prober.probe(kernels)


@pytest.mark.parametrize(("k_type", "v_type"), [("f16", "f16"), ("bf16", "f16"), ("q8_0", "q8_0")])
def test_the_classes_of_a_real_model_share_no_width(
    loaded: LlamaModel, k_type: str, v_type: str
) -> None:
    found = probe(loaded, Kernels(k_type=k_type, v_type=v_type))
    widths = [width for members in found.classes for width in members]
    assert len(set(widths)) == len(widths) and set(widths) <= set(TARGET_WIDTHS)
    assert 1 in widths  # plain decoding always remains
    assert all(list(members) == sorted(members) for members in found.classes)
    # Random weights of this size differ by rounding, if at all.
    assert 0 <= found.max_difference < 0.1
    assert (found.classes == (TARGET_WIDTHS,)) <= (found.max_difference == 0)
    assert min(found.short.seconds + found.long.seconds) > 0


@contextmanager
def context(
    model: LlamaModel, *, n_sequences: int = 1, kernels: Kernels = DEFAULT_KERNELS
) -> Iterator[LlamaContext]:
    settings = ContextSettings(
        n_ctx=256,
        n_threads=1,
        n_batch=32,
        n_rows=16,
        k_type=kernels.k_type,
        v_type=kernels.v_type,
        n_sequences=n_sequences,
    )
    with LlamaContext(model, settings) as made:
        yield made


def test_the_classes_of_a_real_model_hold_at_other_tokens_and_lengths(loaded: LlamaModel) -> None:
    """Around 256 cells too, where the part of the cache that is attended to grows."""
    tokens = [(31 * i + 7) % loaded.n_vocab for i in range(256)]
    with context(loaded) as made:
        for members in probe(loaded).classes:
            for n_past in (1, 77, 236):
                made.rollback(0)
                for start in range(0, n_past, 32):
                    made.eval(tokens[start : min(start + 32, n_past)], n_rows=0)
                rows = []
                for width in members:
                    rows.append(made.eval(tokens[n_past : n_past + width])[0].copy())
                    made.rollback(n_past)
                assert all(np.array_equal(row, rows[0]) for row in rows)


def test_a_context_of_copies_is_longer_for_attention_and_no_longer_in_positions(
    loaded: LlamaModel,
) -> None:
    with context(loaded, n_sequences=2) as made:
        made.eval([5, 6, 7])
        alone = made.eval([8])[0].copy()
        made.rollback(3)
        made.repeat(3)
        assert made.n_past == 3
        among_copies = made.eval([8])[0].copy()
        assert np.abs(among_copies - alone).max() > 0.05  # no rounding
        made.rollback(3)
        assert np.array_equal(made.eval([8])[0], among_copies)


def test_a_rollback_over_the_copies_leaves_no_trace_of_them(loaded: LlamaModel) -> None:
    with context(loaded, n_sequences=2) as made:
        made.eval([5, 6, 7])
        alone = made.eval([8, 9]).copy()
        made.rollback(3)
        made.repeat(3)
        made.eval([8, 9])
        made.rollback(0)
        made.eval([5, 6, 7])
        assert np.array_equal(made.eval([8, 9]), alone)


REPEAT_TOO_OFTEN = """
import sys
from pathlib import Path
from spec_cli.errors import ResourceError
from spec_cli.llama.context import LlamaContext
from spec_cli.llama.native import ContextSettings
from spec_cli.llama.model import LlamaModel, LoadSettings

settings = ContextSettings(n_ctx=1024, n_threads=1, n_sequences=int(sys.argv[2]))
with LlamaModel(Path(sys.argv[1]), LoadSettings()) as model:
    with LlamaContext(model, settings) as context:
        context.eval([5, 6, 7])
        try:
            context.repeat(int(sys.argv[3]))
        except (AssertionError, ResourceError) as error:
            sys.exit(f"refused: {error}")
"""


@pytest.mark.parametrize(("n_sequences", "n"), [(1, 1), (2, 1000)])
def test_copies_that_there_is_no_room_for_are_an_error_and_no_crash(
    tiny_target: Path, n_sequences: int, n: int
) -> None:
    found = subprocess.run(
        [sys.executable, "-c", REPEAT_TOO_OFTEN, tiny_target, str(n_sequences), str(n)],
        capture_output=True,
        text=True,
    )
    assert found.returncode == 1
    assert "refused: " in found.stderr


def test_a_cache_too_small_for_the_copies_is_an_error(loaded: LlamaModel) -> None:
    with context(loaded, n_sequences=2) as made:
        made.eval([1 + i for i in range(30)], n_rows=0)
        with pytest.raises(ResourceError, match="copied"):
            made.repeat(20)


@pytest.mark.parametrize("k_type", sorted(KV_TYPES))
def test_every_type_of_cache_gives_the_rows_of_the_default_but_for_rounding(
    loaded: LlamaModel, k_type: str
) -> None:
    tokens = [5, 6, 7, 8]
    with context(loaded) as made:
        expected = made.eval(tokens).copy()
    with context(loaded, kernels=Kernels(k_type=k_type)) as made:
        assert made.eval(tokens) == pytest.approx(expected, abs=0.2)  # logits of a spread of 3
    with context(loaded, kernels=Kernels(k_type="q8_0", v_type="q8_0")) as made:
        assert made.eval(tokens) == pytest.approx(expected, abs=0.2)


def test_a_real_model_whose_memory_is_recurrent_has_width_1_alone(tiny_mamba: Path) -> None:
    with LlamaModel(tiny_mamba, LoadSettings()) as model:
        for kernels in (DEFAULT_KERNELS, STEADY):
            found = probe(model, kernels)
            assert found.classes == ((1,),) and found.short.widths == (1,)
            assert found.kernels == kernels


def order(path: Path, kernels: Kernels = DEFAULT_KERNELS) -> str:
    return json.dumps(
        {
            "path": str(path),
            "n_threads": 1,
            "n_gpu_layers": 0,
            "devices": [],
            "kernels": asdict(kernels),
        }
    )


def trial(order: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "spec_cli.llama.trial", order], capture_output=True, text=True
    )


@pytest.mark.parametrize("repack", [True, False])
def test_a_trial_prints_what_the_planner_reads(tiny_target: Path, repack: bool) -> None:
    done = trial(order(tiny_target, Kernels(repack=repack)))
    assert done.returncode == 0
    found = [_probe_from_json(value) for value in json.loads(done.stdout)]
    assert found[-1].kernels == Kernels(k_type="bf16", repack=repack)
    for one in found:
        assert one.kernels.repack == repack and one.kernels.tiled
        assert one.short.widths == one.long.widths == TARGET_WIDTHS
        assert {w for members in one.classes for w in members} <= set(TARGET_WIDTHS)
        assert json.loads(json.dumps([asdict(one)])) in [[v] for v in json.loads(done.stdout)]
        hash(one)  # tuples throughout


def test_a_trial_of_a_recurrent_model_prints_its_one_width(tiny_mamba: Path) -> None:
    done = trial(order(tiny_mamba))
    (found,) = [_probe_from_json(value) for value in json.loads(done.stdout)]
    assert found.classes == ((1,),)


def test_a_trial_of_a_missing_file_says_so_in_one_line(tmp_path: Path) -> None:
    done = trial(order(tmp_path / "missing.gguf"))
    assert done.returncode != 0 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("missing.gguf cannot be loaded")


def test_a_trial_on_a_device_that_is_not_there_says_so_in_one_line(tiny_target: Path) -> None:
    told: dict[str, Any] = json.loads(order(tiny_target)) | {"devices": ["Quantum0"]}
    done = trial(json.dumps(told))
    assert done.returncode != 0
    assert done.stderr == "there is no device `Quantum0` here\n"


def planner(path: Path, directory: Path) -> Planner:
    return Planner(
        TargetSetup(path, 1, 0, (), {}),
        Exact.ON,
        state=StateStore(directory),
        clock=time.perf_counter,
        cancelled=lambda: False,
        progress=lambda what, fraction: None,
    )


def test_trying_kernels_really_ends_in_an_exact_plan(tiny_target: Path, tmp_path: Path) -> None:
    plan = planner(tiny_target, tmp_path).try_kernels()
    assert plan.is_exact and plan.times.widths == TARGET_WIDTHS
    assert planner(tiny_target, tmp_path).stored() == plan
    assert plan.widths is not None and set(plan.widths) <= set(TARGET_WIDTHS)


def test_a_trial_imports_nothing_from_where_the_user_works(
    tiny_target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python -m` would look there first: a stray json.py or gguf.py must not run."""
    for name in ("json", "numpy", "gguf"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('run by accident')")
    monkeypatch.chdir(tmp_path)
    assert planner(tiny_target, tmp_path).try_kernels().is_exact
