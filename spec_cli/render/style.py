"""How figures and origins look, in the panel and in the summary alike."""

from __future__ import annotations

from rich.color import ColorSystem
from rich.style import Style

from spec_cli.events import Origin
from spec_cli.spec.stats import RunStats, SpeedUp

UNKNOWN = "n/a"
DIM = Style(dim=True)

# Attributes beside the colours: origin stays readable to those who see no colour.
ORIGIN_STYLES = {
    Origin.DRAFT: Style(color="green"),
    Origin.CORRECTION: Style(color="yellow", underline=True),
    Origin.BONUS: Style(color="cyan", bold=True),
    Origin.PLAIN: Style(dim=True),
}


def rendered(text: str, style: Style) -> str:
    """`text` with the codes of `style`."""
    return style.render(text, color_system=ColorSystem.STANDARD)


def number(value: float | None) -> str:
    """Two decimals below 1, one below 100, none above."""
    if value is None:
        return UNKNOWN
    if value < 0.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"


def seconds(value: float | None) -> str:
    """`0.21 s`, `3.1 s`, `125 s`."""
    return UNKNOWN if value is None else f"{number(value)} s"


def percent(share: float | None) -> str:
    """`71 %`."""
    return UNKNOWN if share is None else f"{100 * share:.0f} %"


def speedup(value: SpeedUp) -> str:
    """`1.62x plain (measured)`, `1.62x plain (est.)`."""
    return f"{value.ratio:.2f}x plain ({'measured' if value.measured else 'est.'})"


def round_times(stats: RunStats) -> str:
    """Mean time per round: `draft 9.1 + verify 24.0 ms`."""
    draft_ms, verify_ms = (
        1000 * total_s / max(stats.n_rounds, 1) for total_s in (stats.draft_s, stats.verify_s)
    )
    return f"draft {number(draft_ms)} + verify {number(verify_ms)} ms"
