"""The report: its verdict, its text in a pipe and on a terminal, and its JSON."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spec_cli.prompts import NamedPrompt
from spec_cli.render.blocks import aligned
from spec_cli.render.verify import PLAIN, UNICODE, print_report, results
from spec_cli.render.verify_json import print_json, report_object
from spec_cli.spec.settings import Accept
from spec_cli.terminal import Terminal
from spec_cli.verify.chisquare import ChiSquare
from spec_cli.verify.comparison import Comparison
from spec_cli.verify.difference import Difference
from spec_cli.verify.matrix import ArmDrafter, Cell, Matrix
from spec_cli.verify.report import Report
from spec_cli.verify.rules import RuleCheck
from tests.cli.scripted_run import INFO

DOCS = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
FREE_FORM = ("system.versions", "model.target", "model.draft", "exactness")

PROMPTS = (NamedPrompt("code-one", "code", "a"), NamedPrompt("prose-two", "prose", "b"))
MATRIX = Matrix(PROMPTS, (0.0, 0.8), tuple(ArmDrafter), (3, None), max_tokens=64, seed=1)
NEAR_TIE = Difference(17, 4, 5, 0.0123, 0.25, True, "the rows differ a little")
WRONG = Difference(3, 6, None, None, None, False, "one text has ended")
FAST = replace(INFO.plan, widths=None)
RULES = tuple(
    RuleCheck(accept, "default", "code-one", at, 2000, 4000, 3000, ChiSquare(3.0, 2, 0.22))
    for accept in Accept
    for at in (1, 2)
)


def compared(cell: Cell, difference: Difference | None = None) -> Comparison:
    return Comparison(cell, 64, 30, 90, 45, 4, difference)


def report(*differences: Difference, n: int = 32, plan: Any = INFO.plan) -> Report:
    """`n` comparisons, the last ones with `differences`."""
    cells = MATRIX.cells()
    padded = [*[None] * (n - len(differences)), *differences]
    made = [compared(cell, d) for cell, d in zip(cells[:n], padded, strict=True)]
    return Report(tuple(cells), tuple(made), plan, RULES)


def spell(token: int) -> str:
    return {4: " ja", 5: "\x1b[1m\n界", 6: "\x9bx"}[token]


def shown(
    found: Report, *, columns: int | None = None, as_json: bool = False, anywhere: bool = False
) -> str:
    raw = io.BytesIO()
    stdout = io.TextIOWrapper(raw, encoding="ascii")
    terminal = Terminal(
        stdout, stdout, stdout, False, columns is not None, False, True, False, anywhere
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns or 20))
        patch.setenv("TERM", "xterm")
        show = print_json if as_json else print_report
        show(terminal, found, MATRIX, INFO, spell)
    return raw.getvalue().decode()


def test_equal_texts_and_right_rules_pass() -> None:
    found = report()
    assert found.failure is None
    assert found.conclusion == (
        "all 32 speculative texts equal plain decoding, token for token (2,048 tokens); "
        "bit-exact: widths 1-8"
    )


def test_a_single_text_is_spoken_of_as_one() -> None:
    found = report(n=1)
    assert found.conclusion.startswith("the one speculative text equals plain decoding, token for")


def test_near_ties_pass_and_are_counted() -> None:
    found = report(NEAR_TIE, NEAR_TIE, plan=FAST)
    assert found.failure is None
    assert found.conclusion == (
        "30 of 32 speculative texts equal plain decoding, token for token (1,920 tokens), "
        "and 2 leave it at a near-tie; fast: kernels differ by width"
    )
    assert "and 1 leaves it at a near-tie" in report(NEAR_TIE).conclusion


def test_one_unexplained_difference_fails() -> None:
    found = report(NEAR_TIE, WRONG)
    failure = "1 speculative text differs from plain decoding, of 32 compared, without explanation"
    assert found.failure == failure
    assert found.conclusion.endswith(f"; FAILED: {failure}")
    assert "2 speculative texts differ" in (report(WRONG, WRONG).failure or "")


def test_a_rule_that_fails_is_named() -> None:
    wrong = replace(RULES[-1], test=ChiSquare(math.inf, 1, 0.0))
    found = replace(report(), rules=(*RULES[:-1], wrong))
    assert found.failure == "the target's distribution is not kept by: block"


def test_an_interrupted_report_says_how_far_it_came() -> None:
    found = replace(report(n=10), rules=(), rules_skipped="interrupted", interrupted=True)
    assert found.conclusion.startswith("interrupted after 10 of 32 comparisons: all 10 speculative")
    assert found.failure is None
    text = shown(found)
    assert "acceptance rules: not checked, interrupted" in text
    assert "= equal, . not compared" in text


def test_a_report_of_nothing_claims_nothing() -> None:
    nothing = report(n=0)
    found = replace(nothing, rules=(), rules_skipped="interrupted", interrupted=True)
    assert found.conclusion == "interrupted before the first of 32 comparisons"
    text = shown(found)
    assert ". not compared\n\nacceptance rules: not checked" in text


def test_in_a_pipe_it_is_aligned_plain_text() -> None:
    lines = shown(report(NEAR_TIE, WRONG)).splitlines()
    assert lines[:13] == [
        "target  target.gguf",
        "draft   draft.gguf",
        "exact   bit-exact: widths 1-8",
        "texts   2 prompts; temp 0, 0.8; up to 64 tokens; seed 1",
        "",
        "                         model     ngram   chain   random",
        "prompt     temp  tokens  k=3 auto  3 auto  3 auto  3   auto",
        "code-one   0     64      =   =     = =     = =     =   =",
        "code-one   0.8   64      =   =     = =     = =     =   =",
        "prose-two  0     64      =   =     = =     = =     =   =",
        "prose-two  0.8   64      =   =     = =     = =     ~17 !3",
        "= equal, ~ near-tie after that many tokens, ! different after that many tokens",
        "2,880 draft tokens, 50 % accepted, in passes of 1 to 4 rows",
    ]
    assert lines[-1].startswith("30 of 32 speculative texts equal plain decoding")
    assert all(line.isprintable() for line in lines)


def test_a_difference_is_told_with_tokens_verdict_and_figures() -> None:
    lines = shown(report(NEAR_TIE, WRONG)).splitlines()
    at = lines.index(
        'prose-two, temp 0.8, random k=auto: after 3 tokens plain has "�x" (6), speculative ended'
    )
    assert lines[at + 1] == "  unexplained: one text has ended"
    assert lines[at + 2] == (
        "prose-two, temp 0.8, random k=3: after 17 tokens "
        'plain has " ja" (4), speculative "\\u001b[1m\\n界" (5)'
    )
    assert lines[at + 3] == (
        "  near-tie: the rows differ a little; they differ by up to 0.25 logits; "
        "plain prefers its token by 0.0123"
    )


def test_the_rules_are_told_with_acceptance_and_the_lowest_p() -> None:
    low = replace(RULES[0], test=ChiSquare(60.0, 2, 1e-9))
    text = shown(replace(report(), rules=(low, *RULES[1:])))
    assert "acceptance rules, 2,000 rounds on each of 2 pairs of rows" in text
    assert re.search(r"^coupled +default +75 % +1e-09  FAILED$", text, re.M)
    assert re.search(r"^block +default +75 % +0.22$", text, re.M)
    assert "6 chi-square tests; p below 1.7e-07 fails (false alarms: 1e-06 in all)" in text


def test_one_place_where_several_texts_differ_is_told_once() -> None:
    wider = replace(NEAR_TIE, row_difference=0.5)
    elsewhere = replace(NEAR_TIE, position=18)
    lines = shown(report(NEAR_TIE, wider, elsewhere, plan=FAST)).splitlines()
    told = [line for line in lines if "plain has" in line]
    assert [line.partition(": ")[0] for line in told] == [
        "prose-two, temp 0.8, chain k=auto, random k=3",
        "prose-two, temp 0.8, random k=auto",
    ]
    assert "up to 0.5 logits" in lines[lines.index(told[0]) + 1]


@pytest.mark.parametrize("columns", [80, 100])
def test_on_a_terminal_marks_are_coloured_and_fit(columns: int) -> None:
    text = shown(report(NEAR_TIE, WRONG), columns=columns)
    assert "\x1b[32m✓" in text and "\x1b[33m≈17" in text and "\x1b[1;31m✗3" in text
    bare = re.sub(r"\x1b\[[\d;]*m", "", text)
    assert bare.isprintable() or set(filter(lambda c: not c.isprintable(), bare)) == {"\n"}
    assert max(map(len, bare.splitlines())) <= columns


def test_colour_that_is_asked_for_is_in_a_pipe_too() -> None:
    text = shown(report(NEAR_TIE, WRONG), anywhere=True)
    assert "\x1b[32m✓" in text and "\x1b[33m≈17" in text and "\x1b[1;31m✗3" in text


def test_a_table_too_wide_for_the_terminal_leaves_positions_to_the_list() -> None:
    wide = aligned(results(report(NEAR_TIE, WRONG), MATRIX, UNICODE))
    columns = max(map(len, wide)) - 1
    bare = re.sub(r"\x1b\[[\d;]*m", "", shown(report(NEAR_TIE, WRONG), columns=columns))
    assert "≈17" not in bare and re.search(r"^prose-two +0.8 .* ≈ +✗ *$", bare, re.M)


def test_the_widest_matrix_fits_eighty_columns_when_all_is_equal() -> None:
    prompts = (NamedPrompt("extract-contacts", "extract", "a"),)
    full = Matrix(prompts, (0.0, 0.8, 1.2), tuple(ArmDrafter), (1, 3, 7, None), 256, 1)
    made = tuple(replace(compared(cell), n_tokens=256) for cell in full.cells())
    for marks in (PLAIN, UNICODE):
        lines = aligned(results(Report(tuple(full.cells()), made, FAST), full, marks))
        assert max(map(len, lines)) <= 80


def paths(value: object, prefix: str = "") -> set[str]:
    if not isinstance(value, dict) or prefix in FREE_FORM:
        return {prefix}
    return set().union(*(paths(v, f"{prefix}.{k}".lstrip(".")) for k, v in value.items()))


def documented(heading: str) -> list[str]:
    section = re.split(r"^##+ ", DOCS.split(f"# {heading}\n", 1)[1], flags=re.M)[0]
    return re.findall(r"^\| `([\w.]+)` \|", section, flags=re.M)


def objects(*reports: Report) -> list[Any]:
    return [json.loads(shown(found, as_json=True)) for found in reports]


def test_every_field_is_documented_and_every_documented_field_is_there() -> None:
    (whole,) = objects(report(NEAR_TIE))
    assert paths(whole) == set(documented("The object of `verify`"))
    (check, *_) = whole["rules"]["checks"]
    assert paths(check) == set(documented("Each of `rules.checks`"))
    fields = set(documented("Each of `comparisons`"))
    tokens = {"difference.plain", "difference.speculative"}
    equal, differing = whole["comparisons"][0], whole["comparisons"][-1]
    assert paths(equal) == {field for field in fields if not field.startswith("difference.")}
    leaves = {re.sub(r"\.(id|text)$", "", path) for path in paths(differing)}
    assert leaves == fields - {"difference"} and tokens <= leaves


def test_json_is_one_line_and_has_nulls_where_there_is_no_figure() -> None:
    wrong = replace(RULES[0], test=ChiSquare(math.inf, 1, 0.0))
    found = replace(report(WRONG), rules=(wrong,))
    assert shown(found, as_json=True).count("\n") == 1
    (whole,) = objects(found)
    assert whole["schema"] == "spec-cli/verify/1"
    assert (whole["passed"], whole["complete"]) == (False, True)
    assert whole["comparisons"][-1]["difference"] == {
        "position": 3,
        "plain": {"id": 6, "text": "\x9bx"},
        "speculative": None,
        "margin": None,
        "max_logit_difference": None,
        "near_tie": False,
        "reason": "one text has ended",
    }
    assert whole["rules"]["checks"][0]["chi_square"] is None
    assert whole["rules"]["checks"][0]["passed"] is False


def test_json_totals_follow_from_the_comparisons() -> None:
    interrupted = [replace(report(n=n), interrupted=True) for n in (7, 0)]
    whole, part, none = objects(report(NEAR_TIE, WRONG), *interrupted)
    made, totals = whole["comparisons"], whole["totals"]
    assert totals["compared"] == len(made) == totals["planned"] == 32
    differences: Sequence[Any] = [c["difference"] for c in made if c["difference"]]
    assert totals["near_ties"] == sum(d["near_tie"] for d in differences) == 1
    assert totals["unexplained"] == len(differences) - 1
    assert totals["equal"] == len(made) - len(differences)
    for name in ("passes", "drafted", "accepted"):
        assert totals[name] == sum(c[name] for c in made)
    assert totals["equal_tokens"] == sum(c["tokens"] for c in made if not c["difference"])
    assert (part["complete"], part["totals"]["planned"], part["totals"]["compared"]) == (
        False, 32, 7,
    )  # fmt: skip
    assert none["totals"]["widest_pass"] is None


def test_json_comparisons_are_in_the_order_of_the_matrix() -> None:
    whole = report_object(report(), MATRIX, INFO, spell)
    made = whole["comparisons"]
    assert isinstance(made, list)
    keys = [(c["prompt"], c["temp"], c["drafter"], c["draft_tokens"]) for c in made]
    expected = [(c.prompt.id, c.temp, c.drafter, c.draft_tokens or "auto") for c in MATRIX.cells()]
    assert keys == expected
