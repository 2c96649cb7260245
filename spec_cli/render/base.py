"""What a renderer is, and how several of them share one stream of events."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Protocol, Self

from spec_cli.events import Event


class Renderer(Protocol):
    """Shows the events of one run. Used as a context manager around the run.

    `__exit__` leaves the terminal as it was found, also after an exception; it never hides one.
    """

    def __enter__(self) -> Self:
        return self

    def handle(self, event: Event) -> None:
        """Show `event`. Raises BrokenPipeError when nobody reads the output any more."""

    def __exit__(self, *exc: object) -> None:
        return None


class Tee(Renderer):
    """Passes each event to every renderer, in order; the first one is also the first to leave."""

    def __init__(self, renderers: Sequence[Renderer]) -> None:
        self._renderers = renderers
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for renderer in reversed(self._renderers):
                stack.enter_context(renderer)
            self._stack = stack.pop_all()
        return self

    def handle(self, event: Event) -> None:
        """Pass `event` on."""
        for renderer in self._renderers:
            renderer.handle(event)

    def __exit__(self, *exc: object) -> None:
        self._stack.close()
