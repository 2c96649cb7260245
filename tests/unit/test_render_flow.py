"""Text above the panel: whatever its characters and its pace, the terminal shows just the text."""

from __future__ import annotations

import io
import itertools
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from spec_cli.events import (
    Finished,
    FinishReason,
    Origin,
    PromptProgress,
    ReasoningDelta,
    RoundDone,
    TextDelta,
)
from spec_cli.render.flow import TextFlow, walk
from spec_cli.render.inert import inert
from spec_cli.render.live import LiveRenderer
from spec_cli.render.notices import Notices
from spec_cli.render.reasoning import PARTING, ReasoningText
from spec_cli.render.stdout import Stdout
from spec_cli.render.style import ORIGIN_STYLES
from spec_cli.render.text import TerminalText
from spec_cli.spec.stats import RunStats
from tests.cli.emulator import Emulator, printed
from tests.cli.scripted_run import INFO, TEXT

texts = st.text(st.sampled_from("ab \n\t你é👍\u0301\x1b[\x9b\r"), max_size=150)


class Tty(io.TextIOWrapper):
    """A stream to a terminal: newlines become CR LF on the way to the emulator."""

    def __init__(self, emulator: Emulator) -> None:
        self.sent = sent = bytearray()

        class Raw(io.RawIOBase):
            def writable(self) -> bool:
                return True

            def write(self, data: Any) -> int:
                sent.extend(data)
                emulator.feed(bytes(data).replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))
                return len(data)

        super().__init__(io.BufferedWriter(Raw()), encoding="utf-8", newline="")


class Scene:
    """A live renderer, the terminal it draws on, and a clock that ticks with each look at it."""

    def __init__(
        self,
        columns: int,
        lines: int,
        *,
        tick_s: float,
        styled: bool = False,
        reflows: bool = True,
    ) -> None:
        self.columns, self.lines = columns, lines
        self.emulator = Emulator(columns, lines, reflows=reflows)
        self.stdout, self.stderr = Tty(self.emulator), Tty(self.emulator)
        now = itertools.count(0.0, tick_s)
        text = TerminalText(
            Stdout(self.stdout),
            ORIGIN_STYLES if styled else None,
            reasoning=ReasoningText(self.stderr, Style()),
        )
        self.renderer = LiveRenderer(
            self.stderr,
            INFO,
            Notices(self.stderr, quiet=False, beside_text=True, beside_reasoning=True),
            flow=TextFlow(text, columns),
            previews=False,
            shows_reasoning=True,
            color=True,
            clock=lambda: next(now),
            size=lambda: os.terminal_size((self.columns, self.lines)),
        )

    def resize(self, columns: int) -> None:
        """Of the terminal; the renderer looks for itself."""
        self.columns = columns
        self.emulator.resize(columns, self.lines)

    def shows(self, text: str) -> bool:
        """Up to the cursor, the terminal shows what printing `text` shows."""
        return self.emulator.rows == printed(text, self.columns, self.lines)


def play(scene: Scene, text: str, cuts: list[int]) -> Iterator[str]:
    """Feed `text` in rounds, cut at `cuts`; yields the text so far."""
    points = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    for i, (start, end) in enumerate(itertools.pairwise(points)):
        scene.renderer.handle(RoundDone(i, 3, 2, i % 3, i % 3 + 1, 0.01, 0.02, 0.0))
        scene.renderer.handle(TextDelta(text[start:end], (i,), list(Origin)[i % 4]))
        yield text[:end]


cut_lists = st.lists(st.integers(0, 200), max_size=40)
sizes = st.tuples(st.integers(12, 30), st.integers(3, 12))
END = Finished(FinishReason.STOP, (), RunStats())


@given(text=texts, cuts=cut_lists, size=sizes, tick_s=st.sampled_from([0.0, 0.06, 1.0]),
       styled=st.booleans())  # fmt: skip
def test_the_terminal_ends_with_the_text_and_no_trace_of_the_panel(
    text: str, cuts: list[int], size: tuple[int, int], tick_s: float, styled: bool
) -> None:
    scene = Scene(*size, tick_s=tick_s, styled=styled)
    with scene.renderer:
        for _ in play(scene, text, cuts):
            pass
        scene.renderer.handle(END)
    assert scene.shows(inert(text) + ("" if text.endswith("\n") or not text else "\n"))
    assert scene.emulator.below_cursor == []
    assert scene.emulator.cursor_is_visible
    assert scene.emulator.wraps


@given(text=texts, cuts=cut_lists, size=sizes, tick_s=st.sampled_from([0.0, 0.06, 1.0]))
def test_at_every_moment_the_text_is_whole_and_the_panel_is_below_it(
    text: str, cuts: list[int], size: tuple[int, int], tick_s: float
) -> None:
    scene = Scene(*size, tick_s=tick_s)
    with scene.renderer:
        for so_far in play(scene, text, cuts):
            written = scene.stdout.sent.decode()
            assert inert(so_far).startswith(written)
            assert scene.shows(written)
            assert scene.emulator.cursor_is_visible
            panel = scene.emulator.below_cursor
            assert panel[0].startswith("── ")


@given(text=texts, cuts=cut_lists, size=sizes)
def test_a_slow_run_holds_back_only_what_ends_at_the_margin(
    text: str, cuts: list[int], size: tuple[int, int]
) -> None:
    scene = Scene(*size, tick_s=1.0)
    with scene.renderer:
        for so_far in play(scene, text, cuts):
            held = inert(so_far)[len(scene.stdout.sent.decode()) :]
            assert len(held.rstrip("\u0301\t")) <= 1  # at the margin, neither moves the cursor


def test_nothing_but_the_text_goes_to_stdout() -> None:
    scene = Scene(20, 8, tick_s=1.0)
    with scene.renderer:
        for _ in play(scene, TEXT, list(range(200))):
            pass
        scene.renderer.handle(END)
    assert scene.stdout.sent.decode() == inert(TEXT)


def test_repaints_stay_under_ten_a_second() -> None:
    scene = Scene(30, 8, tick_s=0.004)
    n_lines = 500
    with scene.renderer:
        for _ in play(scene, "line\n" * n_lines, [5 * n for n in range(n_lines)]):
            pass
    n_frames = scene.stderr.sent.count(b"\x1b[?7l")
    assert 2 < n_frames <= 10 * n_lines * 0.004


# Never a tab last before a resize: terminals do not agree on whether the cursor stays behind it.
untabbed = st.text(st.sampled_from("abc \n你é\u0301"), max_size=150)
widths = st.dictionaries(st.integers(0, 30), st.integers(20, 70), max_size=5)


@given(text=untabbed, cuts=cut_lists, widths=widths, reflows=st.booleans(),
       tick_s=st.sampled_from([0.0, 0.06, 1.0]))  # fmt: skip
def test_a_resize_leaves_the_terminal_as_if_there_were_no_panel(
    text: str, cuts: list[int], widths: dict[int, int], reflows: bool, tick_s: float
) -> None:
    scene = Scene(50, 40, tick_s=tick_s, reflows=reflows)
    bare = Emulator(50, 40, reflows=reflows)
    text = "\n" * 20 + text  # so that no terminal pushes the cursor out of its window
    n_sent = 0
    with scene.renderer:
        for n, so_far in enumerate(play(scene, text, [20, *cuts])):
            if n in widths and len(so_far) >= 20:
                written = bytes(scene.stdout.sent[n_sent:])
                n_sent = len(scene.stdout.sent)
                bare.feed(written.replace(b"\n", b"\r\n"))
                bare.resize(widths[n], 40)
                scene.resize(widths[n])
        scene.renderer.handle(END)
    bare.feed(bytes(scene.stdout.sent[n_sent:]).replace(b"\n", b"\r\n"))
    narrowest = min([50, *widths.values()])  # a terminal that cuts rows does not cut those gone by
    ours, its = ([row[:narrowest].rstrip() for row in e.rows] for e in (scene.emulator, bare))
    assert ours == its
    assert scene.emulator.below_cursor == []
    assert scene.stdout.sent.decode() == inert(text) + ("" if text.endswith("\n") else "\n")


@given(
    text=st.text(st.sampled_from("абвгд \n"), max_size=150),
    cuts=cut_lists,
    columns=st.integers(20, 40),
    tick_s=st.sampled_from([0.0, 0.06, 1.0]),
)
def test_a_cursor_that_is_pushed_out_of_the_window_costs_no_text(
    text: str, cuts: list[int], columns: int, tick_s: float
) -> None:
    scene = Scene(70, 20, tick_s=tick_s)
    with scene.renderer:
        for n, _ in enumerate(play(scene, text, cuts)):
            if n == 0:
                scene.resize(columns)
        scene.renderer.handle(END)
    shown = [char for row in scene.emulator.rows for char in row if char in "абвгд"]
    assert shown == [char for char in text if char in "абвгд"]
    assert scene.emulator.below_cursor == []


def test_text_that_a_resize_leaves_at_the_margin_is_whole_to_the_end() -> None:
    for rest in ("", "bc", "\n", "bcd\nefg\n"):
        scene = Scene(60, 30, tick_s=1.0)
        text = "\n" * 12 + "a" * 40
        with scene.renderer:
            for _ in play(scene, text, []):
                scene.resize(20)
            if rest:
                scene.renderer.handle(RoundDone(1, 3, 2, 1, 2, 0.01, 0.02, 0.0))
                scene.renderer.handle(TextDelta(rest, (1,), Origin.DRAFT))
            scene.renderer.handle(END)
        whole = text + rest
        assert scene.shows(whole if whole.endswith("\n") else f"{whole}\n")


def test_a_resize_that_is_noticed_late_leaves_nothing_of_the_panel() -> None:
    scene = Scene(60, 30, tick_s=0.06)
    text = "\n" * 12 + "some words that go on and on " * 8
    with scene.renderer:
        for so_far in play(scene, text, [*range(0, len(text), 3)]):
            if len(so_far) == 60:
                scene.emulator.resize(37, 30)
            if len(so_far) == 120:
                scene.columns = 37
        scene.renderer.handle(END)
    assert scene.emulator.below_cursor == []
    assert set("".join(scene.emulator.rows)) <= set(text)


def test_a_panel_in_the_corner_of_the_window_does_not_become_scroll_back() -> None:
    scene = Scene(60, 12, tick_s=1.0)
    with scene.renderer:
        scene.renderer.handle(PromptProgress(3, 9))
        scene.renderer.handle(TextDelta("one\ntwo", (1,), Origin.PLAIN))
        scene.renderer.handle(END)
    assert scene.shows("one\ntwo\n")


def test_a_lower_terminal_keeps_the_text_and_loses_the_panel() -> None:
    scene = Scene(60, 12, tick_s=1.0)
    text = "".join(f"line {n}\n" for n in range(30))
    with scene.renderer:
        for so_far in play(scene, text, [*range(0, len(text), 5)]):
            scene.lines = 12 - len(so_far) % 9
            scene.emulator.resize(60, scene.lines)
        scene.renderer.handle(END)
    assert scene.shows(text)


def test_tabs_are_the_blanks_that_they_were_before_the_resize() -> None:
    scene = Scene(60, 20, tick_s=1.0)
    text = "\n" * 12 + "\t\t\tx = 1  # of\tsome\tkind, and as long as that\tx"
    with scene.renderer:
        for so_far in play(scene, text, [*range(0, len(text), 4)]):
            if len(so_far) == 40:
                scene.resize(20)
        scene.renderer.handle(END)
    assert "".join("".join(scene.emulator.rows).split()) == "".join(text.split())
    assert scene.emulator.below_cursor == []


def test_after_a_resize_text_waits_wherever_the_cursor_could_be_at_the_margin() -> None:
    sent = io.BytesIO()
    flow = TextFlow(TerminalText(Stdout(io.TextIOWrapper(sent))), 20)
    flow.add("a" * 15, Origin.PLAIN)
    flow.resize(12)  # wrapped anew, it is in column 3; cut, in the last one
    flow.add("b", Origin.PLAIN)
    flow.release()
    assert flow.waits
    flow.add("b", Origin.PLAIN)
    flow.release()
    assert not flow.waits and sent.getvalue().endswith(b"abb")
    flow.add("b" * 7, Origin.PLAIN)  # from column 5, or 1, or 2
    assert flow.waits
    flow.add("\n", Origin.PLAIN)
    flow.release()
    flow.add("c" * 11, Origin.PLAIN)
    assert not flow.waits


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_after_an_exception_the_terminal_is_as_it_was(error: type[BaseException]) -> None:
    scene = Scene(30, 8, tick_s=0.0)
    with pytest.raises(error), scene.renderer:
        for so_far in play(scene, TEXT[:200], [*range(0, 200, 7)]):
            if len(so_far) > 100:
                raise error
    assert scene.shows(inert(so_far) + "\n")
    assert scene.emulator.below_cursor == []
    assert scene.emulator.cursor_is_visible
    assert scene.emulator.wraps


def test_a_terminal_without_room_for_a_panel_gets_the_text_alone() -> None:
    for columns, lines in ((8, 10), (40, 2)):
        scene = Scene(columns, lines, tick_s=1.0)
        with scene.renderer:
            for _ in play(scene, "two\nlines", [4]):
                assert scene.emulator.below_cursor == []


def test_walk_knows_where_the_cursor_is() -> None:
    assert list(walk("abc", 0, 3)) == [(0, 1), (0, 2), (0, 3)]
    assert list(walk("ab", 2, 3)) == [(0, 3), (1, 1)]
    assert list(walk("a你", 0, 2)) == [(0, 1), (1, 2)]
    assert list(walk("a\tb\n", 0, 20)) == [(0, 1), (0, 8), (0, 9), (1, 0)]
    assert list(walk("e\u0301", 0, 20)) == [(0, 1), (0, 1)]


@given(
    thoughts=st.lists(texts, max_size=4),
    text=texts,
    cuts=cut_lists,
    size=sizes,
    tick_s=st.sampled_from([0.0, 0.06, 1.0]),
)
def test_reasoning_flows_above_the_panel_as_the_text_does(
    thoughts: list[str], text: str, cuts: list[int], size: tuple[int, int], tick_s: float
) -> None:
    scene = Scene(*size, tick_s=tick_s)
    with scene.renderer:
        for thought in thoughts:
            scene.renderer.handle(ReasoningDelta(thought, (1,), Origin.PLAIN))
        for _ in play(scene, text, cuts):
            pass
        scene.renderer.handle(END)
    shown = inert("".join(thoughts))
    shown += PARTING if shown and text else ""
    shown += inert(text)
    assert scene.shows(shown + ("" if shown.endswith("\n") or not shown else "\n"))
    assert scene.emulator.below_cursor == []
