"""The planner: what it takes in each mode, what it keeps, and the processes it starts."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from spec_cli.errors import Cancelled, ResourceError
from spec_cli.exactness import Planner, TargetSetup
from spec_cli.llama.model import LlamaModel
from spec_cli.spec.costs import TARGET_WIDTHS, PassTimes
from spec_cli.spec.exactness import (
    DEFAULT_KERNELS,
    MAX_AUTO_PRICE,
    ExactnessPlan,
    Kernels,
    WidthProbe,
    Widths,
    price,
)
from spec_cli.spec.settings import Exact
from spec_cli.state import StateStore

STEADY = Kernels(k_type="bf16")
FACTS = {"build": "1", "devices": ["CPU of a kind"], "n_gpu_layers": -1, "n_threads": 2}
SPLIT: tuple[Widths, ...] = ((4, 6, 8, 12, 16), (1, 2, 3))
WHOLE: tuple[Widths, ...] = (TARGET_WIDTHS,)
TIMES = PassTimes(TARGET_WIDTHS, tuple(1 + 0.1 * width for width in TARGET_WIDTHS))


def probe(
    kernels: Kernels = DEFAULT_KERNELS,
    classes: tuple[Widths, ...] = SPLIT,
    *,
    times: float = 1.0,
    slowdown: float = 0.0,
    max_difference: float = 0.5,
) -> WidthProbe:
    """What was measured where each pass takes `times` as long as by default."""
    seconds = PassTimes(TIMES.widths, tuple(times * s for s in TIMES.seconds))
    return WidthProbe(kernels, seconds, seconds, classes, max_difference, slowdown)


@dataclass
class FakeProber:
    """Finds what it is told to, and remembers what it was asked."""

    surveyed: Sequence[WidthProbe] = ()
    asked: list[str] = field(default_factory=list)

    def __call__(self, model: object, widths: Sequence[int], **_settings: object) -> FakeProber:
        assert tuple(widths) == TARGET_WIDTHS
        return self

    def survey(self, kernels: Kernels) -> list[WidthProbe]:
        assert kernels == DEFAULT_KERNELS
        self.asked.append("survey")
        return list(self.surveyed)

    def probe(self, kernels: Kernels) -> WidthProbe:
        assert kernels == DEFAULT_KERNELS
        self.asked.append("probe")
        return probe(kernels, max_difference=0.125)


@pytest.fixture
def prober(monkeypatch: pytest.MonkeyPatch) -> FakeProber:
    fake = FakeProber()
    monkeypatch.setattr("spec_cli.exactness.Prober", fake)
    return fake


class Office:
    """A target on disk, a state directory, and planners that work there."""

    def __init__(self, directory: Path) -> None:
        self.target = directory / "target.gguf"
        self.target.write_bytes(b"weights")
        self.state = StateStore(directory / "state")
        self.progress: list[tuple[str, float | None]] = []
        self.cancelled: Callable[[], bool] = lambda: False

    def planner(
        self,
        exact: Exact = Exact.AUTO,
        *,
        devices: tuple[str, ...] = (),
        facts: Mapping[str, object] = FACTS,
        tiled: bool | None = None,
    ) -> Planner:
        return Planner(
            TargetSetup(self.target, 2, -1, devices, facts, tiled),
            exact,
            state=self.state,
            clock=lambda: 0.0,
            cancelled=lambda: self.cancelled(),
            progress=lambda what, fraction: self.progress.append((what, fraction)),
        )


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def find(planner: Planner) -> ExactnessPlan:
    """The plan by probing a loaded model, of which the fake prober knows nothing."""
    return planner.probe(cast(LlamaModel, None))


def test_auto_takes_a_class_that_is_affordable(office: Office, prober: FakeProber) -> None:
    prober.surveyed = [probe(STEADY, WHOLE, slowdown=0.01, max_difference=0.0)]
    plan = find(office.planner())
    assert (plan.kernels, plan.widths) == (STEADY, TARGET_WIDTHS)
    assert plan.price == pytest.approx(0.01)
    assert prober.asked == ["survey"]


def test_auto_takes_no_class_that_costs_more(office: Office, prober: FakeProber) -> None:
    for surveyed in ([probe(STEADY, WHOLE, slowdown=0.04)], [probe(), probe(STEADY)]):
        prober.surveyed = surveyed
        plan = find(office.planner())
        assert plan.widths is None and plan.price == 0
        assert plan.kernels == DEFAULT_KERNELS


def test_a_fast_plan_has_the_difference_that_the_default_kernels_make(
    office: Office, prober: FakeProber
) -> None:
    prober.surveyed = [
        probe(max_difference=0.75),
        probe(STEADY, WHOLE, slowdown=0.2, max_difference=0.0),
    ]
    assert find(office.planner()).max_difference == 0.75
    assert prober.asked == ["survey"]
    prober.surveyed = [probe(STEADY, SPLIT, max_difference=0.25)]  # the default was not probed
    assert find(office.planner()).max_difference == 0.125
    assert prober.asked == ["survey", "survey", "probe"]


def test_off_never_takes_a_class_however_cheap(office: Office, prober: FakeProber) -> None:
    prober.surveyed = [probe(classes=WHOLE)]
    plan = find(office.planner(Exact.OFF))
    assert plan.widths is None and plan.max_difference == 0.125
    assert prober.asked == ["probe"]


def test_a_plan_is_found_again_as_it_was(office: Office, prober: FakeProber) -> None:
    assert office.planner().stored() is None
    for surveyed in ([probe(STEADY, WHOLE)], [probe()]):
        prober.surveyed = surveyed
        plan = find(office.planner())
        assert office.planner().stored() == plan
        assert hash(office.planner().stored()) == hash(plan)  # tuples, not lists


def test_each_mode_keeps_its_own_plan(office: Office, prober: FakeProber) -> None:
    prober.surveyed = [probe(STEADY, WHOLE)]
    auto = find(office.planner(Exact.AUTO))
    assert office.planner(Exact.OFF).stored() is None
    assert office.planner(Exact.ON).stored() is None
    off = find(office.planner(Exact.OFF))
    assert office.planner(Exact.AUTO).stored() == auto != off
    assert office.planner(Exact.OFF).stored() == off


@pytest.mark.parametrize(
    "change",
    [
        {"build": "2"},
        {"devices": ["CPU of another kind"]},
        {"devices": ["CPU of a kind", "GPU"]},
        {"n_gpu_layers": 5},
        {"n_threads": 3},
    ],
)
def test_a_plan_is_not_found_where_it_was_not_made(
    office: Office, prober: FakeProber, change: Mapping[str, object]
) -> None:
    find(office.planner(Exact.OFF))
    assert office.planner(Exact.OFF, facts={**FACTS, **change}).stored() is None
    assert office.planner(Exact.OFF).stored() is not None


def test_a_plan_is_not_found_for_another_file(office: Office, prober: FakeProber) -> None:
    find(office.planner(Exact.OFF))
    before = office.target.stat()
    office.target.write_bytes(b"weight5")
    os.utime(office.target, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert office.planner(Exact.OFF).stored() is None
    os.utime(office.target, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert office.planner(Exact.OFF).stored() is not None
    office.target.write_bytes(b"more weights")
    os.utime(office.target, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert office.planner(Exact.OFF).stored() is None
    office.target = office.target.with_name("other.gguf")
    office.target.write_bytes(b"weights")
    os.utime(office.target, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert office.planner(Exact.OFF).stored() is None


GOOD: dict[str, Any] = asdict(
    ExactnessPlan(DEFAULT_KERNELS, (1, 2, 3), 0.0, 0.0, TIMES, long_times=TIMES)
)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param([], id="a list"),
        pytest.param("plan", id="a string"),
        pytest.param({}, id="nothing in it"),
        pytest.param({n: v for n, v in GOOD.items() if n != "price"}, id="no price"),
        pytest.param({n: v for n, v in GOOD.items() if n != "times"}, id="no times"),
        pytest.param({n: v for n, v in GOOD.items() if n != "long_times"}, id="no long times"),
        pytest.param({n: v for n, v in GOOD.items() if n != "rollback"}, id="no rollback"),
        pytest.param({**GOOD, "rollback": "somehow"}, id="an unknown rollback"),
        pytest.param({**GOOD, "kernels": None}, id="no kernels"),
        pytest.param({**GOOD, "kernels": {"of": "another version"}}, id="unknown kernels"),
        pytest.param({**GOOD, "widths": 3}, id="a number for widths"),
        pytest.param({**GOOD, "times": [[1, 2], [1.0, 1.0]]}, id="times of another shape"),
    ],
)
def test_a_stored_plan_that_makes_no_sense_is_as_good_as_none(office: Office, value: Any) -> None:
    planner = office.planner()
    key = planner._setup.key(Exact.AUTO)
    office.state.save("exactness-plans", key, GOOD)
    assert planner.stored() is not None
    office.state.save("exactness-plans", key, value)
    assert planner.stored() is None


class Children:
    """Stands in for the processes: a script that is run as the interpreter would be."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._log = directory / "orders.jsonl"
        self._script, self._python = directory / "python", sys.executable
        monkeypatch.setattr(sys, "executable", str(self._script))
        monkeypatch.delenv("GGML_CPU_TILED_MM", raising=False)
        self.processes: list[subprocess.Popen[str]] = []
        start = subprocess.Popen

        def recorded(*args: Any, **kwargs: Any) -> subprocess.Popen[str]:
            self.processes.append(start(*args, **kwargs))
            return self.processes[-1]

        monkeypatch.setattr("spec_cli.llama.apart.subprocess.Popen", recorded)

    def do(self, body: str) -> None:
        """Have each child run `body`, where `order` is what it was told."""
        self._script.write_text(
            f"#!{self._python} -IS\n"
            "import json, os, sys, time\n"
            "order = json.loads(sys.argv[-1])\n"
            f"with open({str(self._log)!r}, 'a') as log:\n"
            "    entry = [order, os.environ.get('GGML_CPU_TILED_MM')]\n"
            "    log.write(json.dumps(entry) + '\\n')\n"
            f"{body}\n"
        )
        self._script.chmod(stat.S_IRWXU)

    def find(self, found: Mapping[tuple[bool, bool], Sequence[WidthProbe]]) -> None:
        """Have the child that loads with (repack, tiled) print these probes."""
        printed = {f"{r} {t}": json.dumps([asdict(p) for p in ps]) for (r, t), ps in found.items()}
        self.do(
            f"printed = {printed!r}\n"
            "k = order['kernels']\n"
            "print(printed[f\"{k['repack']} {k['tiled']}\"])"
        )

    @property
    def orders(self) -> list[tuple[dict[str, Any], str | None]]:
        """What the children were told, and their environment's say on tiled products."""
        return [tuple(json.loads(line)) for line in self._log.read_text().splitlines()]

    @property
    def loads(self) -> list[tuple[bool, bool]]:
        """(repack, tiled) of every child."""
        return [(o["kernels"]["repack"], o["kernels"]["tiled"]) for o, _ in self.orders]


@pytest.fixture
def children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Children:
    return Children(tmp_path, monkeypatch)


UNPACKED = Kernels(repack=False)
BARE = Kernels(repack=False, tiled=False)


def test_trying_kernels_stops_where_the_default_way_to_load_is_affordable(
    office: Office, children: Children
) -> None:
    children.find({(True, True): [probe(STEADY, WHOLE, slowdown=0.02, max_difference=0.0)]})
    plan = office.planner(Exact.ON).try_kernels()
    assert (plan.kernels, plan.widths, plan.max_difference) == (STEADY, TARGET_WIDTHS, 0.0)
    assert children.loads == [(True, True)]
    assert office.planner(Exact.ON).stored() == plan
    assert office.planner(Exact.AUTO).stored() is None


def test_trying_kernels_stops_at_the_second_way_where_that_is_affordable(
    office: Office, children: Children
) -> None:
    children.find({(True, True): [probe()], (False, True): [probe(UNPACKED, WHOLE, times=1.02)]})
    plan = office.planner(Exact.ON).try_kernels()
    assert plan.kernels == UNPACKED and plan.price == pytest.approx(0.02)
    assert children.loads == [(True, True), (False, True)]


def test_all_ways_are_tried_where_none_is_affordable_and_the_cheapest_is_taken(
    office: Office, children: Children
) -> None:
    found = {
        (True, True): [probe()],
        (False, True): [probe(UNPACKED, WHOLE, times=1.2)],
        (False, False): [probe(BARE, WHOLE, times=1.1)],
    }
    children.find(found)
    plan = office.planner(Exact.ON).try_kernels()
    assert children.loads == [(True, True), (False, True), (False, False)]
    assert plan.kernels == BARE and plan.price == pytest.approx(0.1)
    assert plan.times == found[False, False][0].short
    assert [fraction for _, fraction in office.progress] == [0, 1 / 3, 2 / 3]
    children.find({**found, (False, False): [probe(BARE, WHOLE, times=1.3)]})
    assert office.planner(Exact.ON).try_kernels().kernels == UNPACKED


def test_on_takes_a_plan_whatever_it_costs(office: Office, children: Children) -> None:
    found = [probe(classes=((1,), (4,)))]
    children.find({(True, True): found, (False, True): found, (False, False): found})
    plan = office.planner(Exact.ON).try_kernels()
    assert plan.widths == (4,) and plan.price > MAX_AUTO_PRICE


def test_a_slowdown_is_against_the_first_way_to_load_and_no_later_one(
    office: Office, children: Children
) -> None:
    """Here the default way was not tried with an f16 cache, as bf16 costs nothing there."""
    children.find(
        {
            (True, True): [probe(STEADY)],
            (False, True): [probe(UNPACKED, times=4)],
            (False, False): [probe(BARE, WHOLE, times=5)],
        }
    )
    plan = office.planner(Exact.ON).try_kernels()
    expected = min(price(widths, TIMES) for widths in SPLIT)
    assert expected < 4  # five times the default's time is dearer
    assert plan.kernels == STEADY
    assert plan.price == pytest.approx(expected)


def test_a_slowdown_is_against_the_default_cache_in_the_default_way_to_load(
    office: Office, children: Children
) -> None:
    """bf16 costs 10 % where repacked and nothing where not, which itself costs 21 % with f16."""
    bare_steady = replace(BARE, k_type="bf16")
    children.find(
        {
            (True, True): [probe(), probe(STEADY, times=1.1, slowdown=0.1)],
            (False, True): [probe(UNPACKED, times=4)],
            (False, False): [probe(BARE, times=1.21), probe(bare_steady, WHOLE, times=1.21)],
        }
    )
    plan = office.planner(Exact.ON).try_kernels()
    assert (plan.kernels, plan.widths) == (bare_steady, TARGET_WIDTHS)
    assert plan.price == pytest.approx(0.21)


def test_on_a_device_there_is_one_way_to_load(office: Office, children: Children) -> None:
    children.find({(True, True): [probe()]})
    plan = office.planner(Exact.ON, devices=("CUDA0",)).try_kernels()
    assert plan.widths is not None
    ((order, _),) = children.orders
    assert order["devices"] == ["CUDA0"]


def test_a_child_is_told_all_that_decides_the_kernels(office: Office, children: Children) -> None:
    found = [probe()]
    children.find({(True, True): found, (False, True): found, (False, False): found})
    office.planner(Exact.ON).try_kernels()
    for order, _ in children.orders:
        assert order["path"] == str(office.target)
        assert (order["n_threads"], order["n_gpu_layers"], order["devices"]) == (2, -1, [])
        assert (order["kernels"]["k_type"], order["kernels"]["v_type"]) == ("f16", "f16")
    assert [o["kernels"]["tiled"] for o, _ in children.orders] == [True, True, False]


def test_a_child_that_fails_is_an_error_with_its_reason(office: Office, children: Children) -> None:
    children.do("sys.exit('target.gguf cannot be loaded: it is a poem')")
    with pytest.raises(ResourceError, match=r"tried: target.gguf cannot be loaded: it is a poem$"):
        office.planner(Exact.ON).try_kernels()
    assert office.planner(Exact.ON).stored() is None


def test_a_child_that_dies_in_silence_is_an_error_too(office: Office, children: Children) -> None:
    children.do("os.kill(os.getpid(), 9)")
    with pytest.raises(ResourceError, match=r"cannot be tried: the process was ended by signal 9$"):
        office.planner(Exact.ON).try_kernels()


@pytest.mark.parametrize(
    "death",
    ["raise OSError('disk full')", "print('GGML_ASSERT(no) failed\\n#0\\n#1', file=sys.stderr)"],
)
def test_a_child_that_dies_with_many_lines_gives_an_error_of_one(
    office: Office, children: Children, death: str
) -> None:
    children.do(f"{death}\nos.abort()")
    with pytest.raises(ResourceError, match="cannot be tried") as caught:
        office.planner(Exact.ON).try_kernels()
    assert "disk full" in caught.value.message or "GGML_ASSERT" in caught.value.message
    assert "\n" not in caught.value.message


def test_a_child_that_says_much_is_heard_out(office: Office, children: Children) -> None:
    """More than a pipe holds, on both streams."""
    printed = json.dumps([asdict(probe(classes=WHOLE))])
    children.do(f"sys.stderr.write('x' * 300_000)\nprint(' ' * 300_000, {printed!r})")
    asked = 0

    def give_up() -> bool:
        nonlocal asked
        asked += 1
        return asked > 200

    office.cancelled = give_up
    assert office.planner(Exact.ON).try_kernels().widths == TARGET_WIDTHS


def test_cancelling_kills_the_child(office: Office, children: Children) -> None:
    children.do("time.sleep(600)")
    asked: list[int | None] = []

    def cancelled() -> bool:
        asked.append(children.processes[-1].poll())
        return len(asked) == 3

    office.cancelled = cancelled
    with pytest.raises(Cancelled):
        office.planner(Exact.ON).try_kernels()
    (process,) = children.processes
    assert asked == [None, None, None]  # it was alive until then
    assert process.returncode == -9  # and is gone, and reaped
    assert office.planner(Exact.ON).stored() is None


def test_a_child_that_the_users_interrupt_reached_first_is_no_error(
    office: Office, children: Children
) -> None:
    """Ctrl-C goes to the whole process group: the child may be dead before we look."""
    children.do("time.sleep(0.1)\nraise KeyboardInterrupt")
    office.cancelled = lambda: children.processes[-1].poll() is not None
    with pytest.raises(Cancelled):
        office.planner(Exact.ON).try_kernels()


def test_a_process_that_has_settled_its_kernels_takes_no_plan_that_needs_others(
    office: Office, children: Children
) -> None:
    untiled = probe(Kernels(repack=False, tiled=False), classes=WHOLE)
    children.find({(True, True): [probe()], (False, True): [probe()], (False, False): [untiled]})
    assert not office.planner(Exact.ON).try_kernels().kernels.tiled
    settled = office.planner(Exact.ON, tiled=True)
    assert settled.stored() is None
    assert settled.try_kernels().kernels.tiled
    assert children.loads[3:] == [(True, True), (False, True)]
    kept = office.planner(Exact.ON, tiled=True).stored()
    assert kept is not None and kept.kernels.tiled
    other = office.planner(Exact.ON).stored()
    assert other is not None and not other.kernels.tiled


def test_a_process_that_has_settled_its_kernels_takes_a_plan_that_fits(
    office: Office, children: Children
) -> None:
    children.find({(True, True): [probe(classes=WHOLE)]})
    found = office.planner(Exact.ON).try_kernels()
    assert office.planner(Exact.ON, tiled=True).stored() == found
    assert office.planner(Exact.ON, tiled=False).stored() is None
