"""The report as a whole, and every way it is printed."""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
import xml.etree.ElementTree as xml
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from PIL import Image, ImageColor

from spec_cli.bench.compare import Earlier
from spec_cli.bench.machine import Machine
from spec_cli.bench.matrix import PLAIN, Matrix
from spec_cli.bench.measure import Run
from spec_cli.bench.report import Report
from spec_cli.bench.rows import Row, row_of
from spec_cli.errors import UsageError
from spec_cli.prompts import NamedPrompt
from spec_cli.render.bench import markdown, print_bench
from spec_cli.render.bench_blocks import BenchInfo, bench_blocks
from spec_cli.render.bench_formats import rows_as
from spec_cli.render.bench_json import bench_object
from spec_cli.render.bench_plot import check_plot, plot, write_plot
from spec_cli.render.bench_progress import time_left
from spec_cli.render.blocks import Command, Grid, aligned
from spec_cli.render.canvas_svg import SvgCanvas
from spec_cli.render.info import ModelInfo, RunInfo
from spec_cli.render.options import Format
from spec_cli.spec.costs import PassTimes
from spec_cli.spec.exactness import DEFAULT_KERNELS, ExactnessPlan
from spec_cli.spec.settings import Accept, Exact
from spec_cli.terminal import Terminal
from tests.unit.test_bench_runs import AUTO, FOUR, made

PROMPTS = tuple(NamedPrompt(f"p{i}", "code" if i < 5 else "prose", "text") for i in range(10))
MATRIX = Matrix(PROMPTS, (0.0,), (FOUR, AUTO), max_tokens=8, n_rounds=1, seed=1)
TIMES = PassTimes((1, 2, 4), (1.0, 1.5, 2.0))
PLAN = ExactnessPlan(DEFAULT_KERNELS, (1, 2, 4), 0.0, 0.0, TIMES)
SPEEDUPS = {
    FOUR: (0.9, 0.8, 0.85, 0.85, 0.85, 0.95, 1.1, 1.05, 1.05, 1.05),
    AUTO: (1.2, 1.1, 1.15, 1.15, 1.15, 1.3, 1.4, 1.35, 1.35, 1.35),
}


def runs_of_all() -> list[Run]:
    runs = []
    for i, prompt in enumerate(PROMPTS):
        for arm, turn in ((PLAIN, 0), (FOUR, 0), (AUTO, 0), (PLAIN, 1)):
            ratio = 1.0 if arm.is_plain else SPEEDUPS[arm][i]
            runs.append(made(arm, ratio, prompt=prompt.id, kind=prompt.kind, turn=turn))
    return runs


REPORT = Report(MATRIX, tuple(runs_of_all()), PLAN)
INFO = RunInfo(
    target=ModelInfo("target", "target.gguf"),
    draft=ModelInfo("draft", "draft.gguf"),
    draft_copy=None,
    drafter="chain",
    draft_tokens=4,
    drafting_off=None,
    accept="greedy",
    exact=Exact.AUTO,
    plan=PLAN,
    seed=1,
    sampling={},
    n_prompt=20,
    n_ctx=64,
    n_threads=2,
    backend="CPU",
    device="a CPU",
    load_s=0.0,
    versions={"spec-cli": "1"},
)
SETUP: Row = {"cpu": "a CPU", "widths": [1, 2, 4]}
BENCH = BenchInfo(INFO, Machine("a CPU", 2, "an OS"), SETUP, None, "spec-cli run -k auto")


def text_of(report: Report, info: BenchInfo = BENCH) -> str:
    blocks = bench_blocks(report, info)
    return "\n".join(line for b in blocks for line in ([b] if isinstance(b, str) else aligned(b)))


def test_the_report_has_arms_kinds_and_the_verdict() -> None:
    text = text_of(REPORT)
    lines = [line.split() for line in text.splitlines()]
    assert ["plain", "10.0"] in lines
    assert "k=auto  12.4" in text and "1.25x" in text and "1.10x p1" in text
    assert ["speed-up", "code", "prose"] in lines
    assert ["k=4", "0.85", "(1.04)"] in lines
    assert ["k=auto", "1.15", "1.35"] in lines
    assert ["accepted", "at", "1", "2", "3"] in lines
    assert "texts: all 30 equal plain decoding, token for token" in text
    assert "noise: none" in text and "load average 0.5 to 0.5" in text
    assert text.endswith(
        "`-k auto` is the fastest of these: 1.25x plain (1.17 to 1.33), worst prompt p1 1.10x\n"
        "  spec-cli run -k auto"
    )


def test_a_table_fits_80_columns() -> None:
    assert max(map(len, text_of(REPORT).splitlines()[:-2])) <= 80


def on_terminal(columns: int, *, color: bool = True, tty: bool = True) -> str:
    """What a terminal so wide gets; its rows are not yet wrapped where it wraps them itself."""
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    terminal = Terminal(stdout, stdout, stdout, False, tty, False, color, False, color)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        patch.setenv("TERM", "xterm")
        print_bench(terminal, Format.TEXT, REPORT, BENCH)
    return stdout.buffer.getvalue().decode()


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_on_a_terminal_nothing_of_a_table_is_cut_and_sentences_are_wrapped(columns: int) -> None:
    bare = re.sub(r"\x1b\[[\d;]*m", "", on_terminal(columns))
    tables = {
        line for b in bench_blocks(REPORT, BENCH) if isinstance(b, list) for line in aligned(b)
    }
    lines = bare.splitlines()
    assert tables <= set(lines) and f"  {BENCH.command}" in lines
    others = [line for line in lines if line not in tables and line != f"  {BENCH.command}"]
    assert max(map(len, others)) <= columns
    assert bare.split() == text_of(REPORT).split()


def test_the_head_of_a_table_is_bold_and_nothing_is_coloured() -> None:
    assert "\x1b[1mdrafting  accepted" in on_terminal(80)
    assert set(re.findall(r"\x1b\[[\d;]*m", on_terminal(80))) == {"\x1b[1m", "\x1b[0m"}
    assert "\x1b" not in on_terminal(80, color=False)


def test_colour_that_is_asked_for_is_in_a_pipe_too_and_no_line_is_wrapped() -> None:
    piped = on_terminal(20, tty=False)
    assert "\x1b[1mdrafting  accepted" in piped
    assert re.sub(r"\x1b\[[\d;]*m", "", piped) == text_of(REPORT) + "\n"
    assert on_terminal(20, tty=False, color=False) == text_of(REPORT) + "\n"


def test_columns_stay_in_line_whatever_the_width_of_characters() -> None:
    assert aligned([["界", "b"], ["code", "d"]]) == ["界    b", "code  d"]


def test_limits_that_are_not_known_have_no_columns() -> None:
    assert "oracle" not in text_of(REPORT)


def test_noisy_groups_are_counted_and_never_hidden() -> None:
    noisy = [replace(run, noise=0.2) if run.prompt == "p0" else run for run in REPORT.runs]
    still = [replace(run, noise=0.1, attempt=1) for run in noisy if run.prompt == "p0"]
    calm = [replace(run, noise=0.0) for run in still]
    report = replace(REPORT, runs=(*noisy, *still))
    assert (report.n_groups, report.n_repeated, report.n_noisy) == (10, 1, 1)
    assert "in 1 of 10 groups, measured again; 1 still noisy, and counted" in text_of(report)
    assert report.verdict.sentence.endswith("; 1 of 10 groups of runs are noisy")
    report = replace(REPORT, runs=(*noisy, *calm))
    assert (report.n_repeated, report.n_noisy) == (1, 0)
    assert "1 of 10 groups, measured again; 0 still noisy" in text_of(report)
    interrupted = replace(REPORT, runs=tuple(noisy), interrupted=True)
    assert "in 1 of 10 groups, 0 of them measured again; 1 still noisy" in text_of(interrupted)


def test_texts_that_differ_are_told_and_fail_in_exact_mode_only() -> None:
    runs = [*REPORT.runs]
    runs[1] = replace(runs[1], measure=replace(runs[1].measure, first_difference=3))
    report = replace(REPORT, runs=tuple(runs))
    assert (
        "texts: 1 of 30 differs from plain decoding, the first after 3 tokens (p0, temp 0, k=4)"
        in (text_of(report))
    )
    assert report.failure and report.failure.startswith("1 of 30 texts differs from plain decoding")
    assert replace(report, plan=replace(PLAN, widths=None)).failure is None
    # Other rules keep the distribution, not the text.
    block = replace(runs[1], arm=replace(FOUR, accept=Accept.BLOCK), temp=0.8)
    assert replace(REPORT, runs=(*REPORT.runs, block)).different == []


def test_the_verdict_is_on_prompts_that_all_arms_have() -> None:
    runs = [r for r in REPORT.runs if not (r.arm == AUTO and r.prompt == "p3")]
    sentence = replace(REPORT, runs=tuple(runs)).verdict.sentence
    # Nine are left of the ten, whose mean was 1.25.
    assert sentence.startswith("`-k auto` is the fastest of these: 1.26x plain")


def test_rules_that_are_one_at_temperature_0_are_one_arm_of_the_verdict() -> None:
    matrix = replace(MATRIX, arms=(AUTO, replace(AUTO, accept=Accept.BLOCK)))
    assert replace(REPORT, matrix=matrix).verdict.sentence == (
        "`-k auto` beats plain decoding here: 1.25x plain (1.17 to 1.33), worst prompt p1 1.10x"
    )


def test_an_interrupted_report_says_how_far_it_came() -> None:
    report = replace(REPORT, runs=REPORT.runs[:4], interrupted=True)
    assert "interrupted: 1 of 10 groups of runs were finished" in text_of(report)
    nothing = replace(REPORT, runs=(), interrupted=True)
    assert text_of(nothing).endswith("no prompt was measured in full, so nothing can be said")


def test_changes_and_what_else_changed_are_shown() -> None:
    then = Earlier({"cpu": "an old CPU"}, REPORT.runs)
    text = text_of(REPORT, replace(BENCH, earlier=then))
    assert re.search(r"^k=4 +0 +all +0.94x +0.94x +\+0 % +\+0 % to \+0 %$", text, re.M)
    assert "cpu: then an old CPU, now a CPU" in text and "widths: then n/a, now [1, 2, 4]" in text


def test_control_characters_of_a_prompt_file_do_not_reach_the_terminal() -> None:
    evil = [replace(run, prompt="\x1b[31mp") for run in REPORT.runs]
    assert "\x1b" not in text_of(replace(REPORT, runs=tuple(evil)))


def test_markdown_has_the_cells_of_the_table() -> None:
    grid: Grid = [["a", "b"], ["1|2", ""]]
    assert markdown(grid) == ["", "| a | b |", "| --- | --- |", "| 1\\|2 |  |", ""]
    assert markdown("") == [""] and markdown("  text") == ["text  "]
    assert markdown(Command("  spec-cli run '*x*'")) == ["", "    spec-cli run '*x*'", ""]


ROWS = [row_of(SETUP | {"quote": 'it\'s, "x"\n'}, run) for run in REPORT.runs[:3]]


def test_csv_can_be_read_again() -> None:
    read = list(csv.DictReader(io.StringIO(rows_as(Format.CSV, ROWS, "bench"))))
    assert len(read) == 3 and list(read[0]) == list(ROWS[0])
    for text, row in zip(read, ROWS, strict=True):
        assert text["quote"] == row["quote"] and json.loads(text["widths"]) == row["widths"]
        assert float(text["speedup"]) == row["speedup"]
        assert text["first_difference"] == ""


def test_json_lines_are_the_rows() -> None:
    lines = rows_as(Format.JSONL, ROWS, "bench").splitlines()
    assert [json.loads(line) for line in lines] == ROWS


def test_sql_makes_a_table_of_the_rows() -> None:
    script = rows_as(Format.SQL, ROWS, "bench")
    with sqlite3.connect(":memory:") as database:
        database.executescript(script + script)
        database.row_factory = sqlite3.Row
        read = database.execute("SELECT * FROM bench").fetchall()
    assert len(read) == 6
    for found, row in zip(read, ROWS, strict=False):
        assert found["quote"] == row["quote"] and found["n_tokens"] == row["n_tokens"]
        assert found["speedup"] == row["speedup"] and found["first_difference"] is None
        assert json.loads(found["drafted_at"]) == row["drafted_at"]


@pytest.mark.parametrize("form", [Format.CSV, Format.JSONL, Format.SQL])
def test_no_rows_are_no_text(form: Format) -> None:
    assert rows_as(form, [], "bench") == ""


def test_the_object_has_scores_and_runs() -> None:
    whole = json.loads(json.dumps(bench_object(REPORT, BENCH), allow_nan=False))
    assert (whole["schema"], whole["passed"], whole["complete"]) == ("spec-cli/bench/1", True, True)
    assert whole["best"] == {"drafter": "auto", "draft_tokens": "auto", "accept": "coupled"}
    assert len(whole["runs"]) == 40 and whole["groups"]["measured"] == 10
    plain, four, auto = whole["scores"]
    assert plain["gains"] == [] and plain["figures"]["tokens_per_s"] == pytest.approx(10)
    assert [gain["kind"] for gain in auto["gains"]] == [None, "code", "prose"]
    assert auto["gains"][0]["speedup"]["mean"] == pytest.approx(1.245, abs=1e-3)
    assert four["gains"][0]["worst_prompt"] == "p1"
    assert whole["setup"] == SETUP and asdict(BENCH.machine) == whole["system"]["machine"]


def svg(report: Report, times: PassTimes | None) -> str:
    return plot(report, times, SvgCanvas).data().decode()


def test_the_picture_is_whole_svg_within_its_page() -> None:
    root = xml.fromstring(svg(REPORT, TIMES))
    space = "{http://www.w3.org/2000/svg}"
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    bars = root.findall(f"{space}rect")[1:]
    assert len(bars) == 2 + 3 * 2  # the legend; all, code and prose for two arms
    for bar in bars:
        x, y, w, h = (float(bar.attrib[key]) for key in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= width and 0 <= y <= y + h <= height and h > 0
    texts = [text.text for text in root.findall(f"{space}text")]
    assert {"k=4", "k=auto", "all", "code", "prose"} <= set(texts)
    assert len(root.findall(f"{space}circle")) == 2 * 3 + 3
    assert "rows, over that of one" not in svg(REPORT, None)


def test_ticks_are_round_numbers() -> None:
    texts = [text.text for text in xml.fromstring(svg(REPORT, TIMES)).iter() if text.text]
    ticks = [text for text in texts if text.endswith("x") and text[0].isdigit()]
    assert ticks == ["0x", "0.5x", "1x", "1.5x"]  # of 1.38
    assert [text for text in texts if text.endswith("0 %")] == [f"{n} %" for n in range(0, 101, 20)]


def test_names_cannot_break_the_picture() -> None:
    prompts = tuple(replace(prompt, kind=f"<{prompt.kind}&>") for prompt in PROMPTS)
    runs = [replace(run, kind=f"<{run.kind}&>") for run in REPORT.runs]
    report = replace(REPORT, matrix=replace(MATRIX, prompts=prompts), runs=tuple(runs))
    assert "<code&>" in [element.text for element in xml.fromstring(svg(report, TIMES)).iter()]


def test_a_report_of_nothing_can_be_drawn() -> None:
    xml.fromstring(svg(replace(REPORT, runs=()), TIMES))


def test_the_png_shows_what_the_svg_does(tmp_path: Path) -> None:
    check_plot(tmp_path / "x.png")
    write_plot(tmp_path / "x.png", REPORT, TIMES)
    root = xml.fromstring(svg(REPORT, TIMES))
    with Image.open(tmp_path / "x.png") as image:
        assert image.size == (2 * float(root.attrib["width"]), 2 * float(root.attrib["height"]))
        colors = {color for _, color in image.getcolors(1 << 16)}
        for bar in root.iter("{http://www.w3.org/2000/svg}rect"):
            if (fill := bar.attrib["fill"]) != "white":
                assert ImageColor.getrgb(fill) in colors
        legend = root.findall("{http://www.w3.org/2000/svg}rect")[1]
        middle = [2 * (float(legend.attrib[at]) + 6) for at in ("x", "y")]
        assert image.getpixel((middle[0], middle[1])) == ImageColor.getrgb(legend.attrib["fill"])


def test_without_pillow_a_png_is_refused_before_the_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spec_cli.render.bench_plot.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pillow") as found:
        check_plot(tmp_path / "x.png")
    assert found.value.hint and "x.svg" in found.value.hint
    check_plot(tmp_path / "x.svg")


def test_only_svg_and_png_are_drawn(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"neither `\.svg` nor `\.png`") as found:
        check_plot(tmp_path / "x.jpg")
    assert found.value.hint and "x.svg" in found.value.hint
    with pytest.raises(UsageError, match="is not a directory"):
        check_plot(tmp_path / "no" / "x.svg")
    check_plot(tmp_path / "x.svg")
    write_plot(tmp_path / "x.svg", REPORT, TIMES)
    assert (tmp_path / "x.svg").read_text() == svg(REPORT, TIMES)
    (tmp_path / "y.svg").mkdir()
    with pytest.raises(UsageError, match="it is a directory"):
        check_plot(tmp_path / "y.svg")
    with pytest.raises(UsageError, match="cannot write"):
        write_plot(tmp_path / "y.svg", REPORT, TIMES)
    for nameless in (Path(), Path("/")):
        with pytest.raises(UsageError, match="neither"):
            check_plot(nameless)


def test_a_picture_that_cannot_be_written_whole_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.svg"
    path.write_text("old")

    def full(self: Path, data: bytes) -> int:
        self.open("wb").write(data[:9])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UsageError, match="No space left"):
        write_plot(path, REPORT, TIMES)
    assert path.read_text() == "old"


@pytest.mark.parametrize(
    ("left_s", "text"), [(3.2, "3 s left"), (600.0, "10 min left"), (9000.0, "2.5 h left")]
)
def test_the_time_left_is_told_in_fitting_units(left_s: float, text: str) -> None:
    assert time_left(left_s) == text
