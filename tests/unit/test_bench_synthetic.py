"""What drafting could gain at a supposed acceptance, and the machine's description."""

from __future__ import annotations

from pathlib import Path

import pytest

from spec_cli.bench.machine import this_machine
from spec_cli.bench.synthetic import break_even, conclusion, outlook
from spec_cli.spec.costs import CostTable, PassTimes

FLAT = CostTable(PassTimes((1, 16), (1.0, 1.0)), draft_token_s=0.5)
HOPELESS = CostTable(PassTimes((1, 16), (1.0, 16.0)), draft_token_s=0.5)


def test_the_outlook_has_every_length_up_to_the_longest() -> None:
    found = outlook(FLAT, 0.8, 3)
    assert [o.k for o in found] == [1, 2, 3]
    assert found[0].speedup == pytest.approx(1.8 / 1.5)
    assert found[1].speedup == pytest.approx(2.44 / 2.0)


def test_drafting_wins_from_the_break_even_on() -> None:
    # 1 + a = 1.5;  1 + a + a^2 = 2
    assert break_even(FLAT, 1) == pytest.approx(0.5, abs=1e-3)
    assert break_even(FLAT, 2) == pytest.approx(0.618, abs=1e-3)
    assert break_even(HOPELESS, 1) is None


@pytest.mark.parametrize(
    ("costs", "acceptance", "sentence"),
    [
        (FLAT, 0.8, "at an acceptance of 80 % -k 2 is best, 1.22x plain; it takes 50 % to win"),
        (FLAT, 0.3, "at an acceptance of 30 % nothing wins, -k 1 comes closest with 0.87x plain"),
        (HOPELESS, 1.0, "no acceptance wins here: even perfect guesses lose"),
    ],
)
def test_the_conclusion_claims_what_the_numbers_say(
    costs: CostTable, acceptance: float, sentence: str
) -> None:
    lengths = outlook(costs, acceptance, 3)
    assert conclusion(lengths, acceptance).startswith(sentence)


def test_the_cpu_is_named(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: A  fast CPU @ 3 GHz\nmodel name\t: other\n")
    machine = this_machine(cpuinfo)
    assert machine.cpu == "A fast CPU @ 3 GHz" and machine.n_cores >= 1 and machine.os


def test_a_system_that_does_not_name_its_cpu_has_a_name_for_it(tmp_path: Path) -> None:
    nameless = tmp_path / "cpuinfo"
    nameless.write_text("processor\t: 0\n")
    assert this_machine(nameless).cpu
    assert this_machine(tmp_path / "nothing").cpu
