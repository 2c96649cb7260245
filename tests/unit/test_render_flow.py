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

from spec_cli.events import Finished, FinishReason, Origin, ReasoningDelta, RoundDone, TextDelta
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

    def __init__(self, columns: int, lines: int, *, tick_s: float, styled: bool = False) -> None:
        self.columns, self.lines = columns, lines
        self.emulator = Emulator(columns, lines)
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
    n_frames = scene.stderr.sent.count(b"\x1b8")
    assert 2 < n_frames <= 10 * n_lines * 0.004


def test_a_resize_leaves_nothing_of_the_wider_panel() -> None:
    scene = Scene(60, 12, tick_s=1.0)
    text = "a line\n" * 3 + "the last one" + " goes on, at another width, and on"
    with scene.renderer:
        for so_far in play(scene, text, [*range(20, len(text), 5)]):
            if len(so_far) == 45:
                scene.columns = 40
                scene.emulator.resize(40, 12)
        scene.renderer.handle(END)
    assert scene.shows(text + "\n")


def test_after_a_resize_the_column_is_that_of_the_line_wrapped_anew() -> None:
    sent = io.BytesIO()
    flow = TextFlow(TerminalText(Stdout(io.TextIOWrapper(sent))), 20)
    flow.add("a" * 15, Origin.PLAIN)
    flow.resize(6)  # two full rows and three characters
    flow.add("bb", Origin.PLAIN)
    assert sent.getvalue().endswith(b"bb")
    flow.add("c", Origin.PLAIN)
    assert flow.waits


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
