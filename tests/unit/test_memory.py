"""Models are placed from the output end, target first, and what does not fit is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.footprint import Footprint, Part
from spec_cli.memory import HOST, Demand, MemoryPlan, Room, Share, largest_context, plan_memory
from spec_cli.render.memory import plan_lines

GB = 10**9
RESERVE = 512 << 20  # of a device


def model(n_layers: int = 4, packed: int = GB, plain: int = 0, cache: int = 0) -> Footprint:
    """Layers and an output of one size, and a small input."""
    part = Part(packed, plain, cache)
    return Footprint(Part(0, 7), (*(part for _ in range(n_layers)), part), 11, 13)


def ram(free: float = 100) -> Room:
    return Room(HOST, int(free * GB) + (128 << 20), 200 * GB)


def gpu(free: float, name: str = "GPU0", *, shares_host: bool = False) -> Room:
    return Room(name, int(free * GB) + RESERVE, 80 * GB, shares_host)


def demand(
    role: str = "target",
    footprint: Footprint | None = None,
    devices: Sequence[str] = ("GPU0",),
    n_gpu_layers: int | None = None,
) -> Demand:
    return Demand(role, f"{role}.gguf", 4096, footprint or model(), tuple(devices), n_gpu_layers)


def layers(plan: MemoryPlan) -> list[int]:
    return [placement.n_gpu_layers for placement in plan.placements]


def test_without_a_device_everything_is_in_ram() -> None:
    taken = model(plain=5, cache=3)
    plan = plan_memory([demand(footprint=taken, devices=())], [ram()])
    expected = Share(5 * GB, 7 + 5 * 5, 5 * 3, 11 + 13)
    assert plan.placements[0].shares == {HOST: expected}
    assert plan.needed(plan.rooms[0]) == expected
    assert plan.fits and plan.reread_bytes == 0


def test_the_name_of_a_file_does_not_steer_the_terminal_that_shows_the_plan() -> None:
    hostile = replace(demand(), file="\x1b]0;title\x07a\nb.gguf")
    lines = plan_lines(plan_memory([hostile], [ram(), gpu(9)]))
    assert lines[0] == "target  ␛]0;title␇a b.gguf, context 4,096 tokens"


@pytest.mark.parametrize(("free", "expected"), [(9.0, 5), (4.9, 4), (1.01, 1), (0.9, 0)])
def test_as_many_layers_as_fit_go_to_the_device(free: float, expected: int) -> None:
    plan = plan_memory([demand()], [ram(), gpu(free)])
    assert layers(plan) == [expected]
    assert plan.fits


@given(st.floats(0, 20), st.integers(1, 8), st.integers(1, 8))
def test_layers_left_to_the_plan_never_overfill_a_device(free: float, n: int, n_draft: int) -> None:
    pair = [demand(footprint=model(n)), demand("draft", model(n_draft, packed=GB // 3))]
    plan = plan_memory(pair, [ram(), gpu(free)])
    assert plan.fits
    on_device, usable = plan.needed(plan.rooms[1]).resident_bytes, plan.rooms[1].usable_bytes
    assert on_device <= usable
    if plan.placements[0].n_gpu_layers <= n:  # one layer more of the target did not fit
        alone = plan.placements[0].shares.get("GPU0", Share()).resident_bytes
        assert alone + GB + 11 > usable


def test_the_draft_gets_what_the_target_leaves() -> None:
    pair = [demand(), demand("draft", model(4, packed=GB // 2))]
    assert layers(plan_memory(pair, [ram(), gpu(20)])) == [5, 5]
    assert layers(plan_memory(pair, [ram(), gpu(6.1)])) == [5, 2]
    assert layers(plan_memory(pair, [ram(), gpu(3.2)])) == [3, 0]


def test_a_device_for_the_draft_alone_is_filled_by_it() -> None:
    pair = [demand(devices=()), demand("draft", devices=("GPU1",))]
    plan = plan_memory(pair, [ram(), gpu(9, "GPU1")])
    assert layers(plan) == [0, 5]
    assert plan.needed(plan.rooms[0]).weights_bytes == 5 * GB


def test_layers_that_were_asked_for_are_placed_though_they_do_not_fit() -> None:
    plan = plan_memory([demand(n_gpu_layers=-1)], [ram(), gpu(3)])
    assert layers(plan) == [5]
    assert [shortage.room.name for shortage in plan.shortages] == ["GPU0"]
    assert layers(plan_memory([demand(n_gpu_layers=99)], [ram(), gpu(30)])) == [5]
    assert layers(plan_memory([demand(n_gpu_layers=2)], [ram(), gpu(30)])) == [2]


def test_layers_are_dealt_out_in_proportion_to_free_memory() -> None:
    rooms = [ram(), gpu(9, "GPU0"), gpu(3, "GPU1")]
    plan = plan_memory([demand(footprint=model(7), devices=("GPU0", "GPU1"))], rooms)
    weights = {place: share.weights_bytes for place, share in plan.placements[0].shares.items()}
    assert weights == {HOST: 0, "GPU0": 6 * GB, "GPU1": 2 * GB}


def test_a_device_that_computes_in_ram_fills_it() -> None:
    rooms = [ram(3), gpu(50, shares_host=True)]
    plan = plan_memory([demand(footprint=model(4, packed=0, plain=GB))], rooms)
    assert layers(plan) == [2]  # its weights have to stay, those of the CPU do not
    asked = [demand(footprint=model(4, packed=0, plain=GB), n_gpu_layers=-1)]
    assert [s.room.name for s in plan_memory(asked, rooms).shortages] == [HOST]


def test_pages_of_the_file_may_be_dropped_and_are_then_read_again() -> None:
    taken = model(4, packed=0, plain=2 * GB)
    for free, missing in ((10.1, 0), (6, 4 * GB), (0.1, 9.9 * GB)):
        plan = plan_memory([demand(footprint=taken, devices=())], [ram(free)])
        assert plan.fits
        assert plan.reread_bytes == pytest.approx(missing, abs=100)


def test_what_has_to_stay_and_has_no_room_is_a_shortage() -> None:
    plan = plan_memory([demand(footprint=model(cache=GB), devices=())], [ram(9.9)])
    assert not plan.fits
    assert plan.shortages[0].needed.resident_bytes == 10 * GB + 24


@pytest.mark.parametrize(
    ("limit", "expected"), [(5000, 4864), (256, 256), (255, None), (10**9, 99_840)]
)
def test_the_largest_context_that_fits_is_a_multiple_of_256(
    limit: int, expected: int | None
) -> None:
    assert largest_context(lambda n_ctx: n_ctx <= limit, 100_000) == expected
