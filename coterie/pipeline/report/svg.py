"""Drawing in SVG: the few shapes that the report needs, as text.

Coordinates are rounded to a tenth of a pixel, which keeps pages small and their differences
readable. Every text is escaped, because names come from clients.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

from coterie.pipeline.report.words import printable

# People with the common kinds of colour blindness can distinguish these colours (after Okabe and
# Ito), on a light and on a dark background.
COLOURS = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a6d3b", "#7a5195",
    "#5c8a00", "#b0413e",
)  # fmt: skip

_STEPS_MS = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000,
    120_000, 300_000, 600_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 10_800_000, 21_600_000,
    43_200_000, 86_400_000, 172_800_000, 604_800_000, 2_592_000_000,
)  # fmt: skip
_DAY_MS = 86_400_000
_SECOND_MS = 1_000


class Scale:
    """A mapping from a range of values to pixels."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        """Map values from `low` to `high` to pixels from `start` to `end`."""
        self.low, self.high = low, high if high > low else low + 1
        self.start, self.end = start, end

    def at(self, value: float) -> float:
        """Return the pixel of a value. A value outside the range is drawn at the edge."""
        value = min(max(value, self.low), self.high)
        part = (value - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)


def number(value: float) -> str:
    """Return a coordinate as text."""
    return f"{value:.1f}".removesuffix(".0")


def rect(
    x: float, y: float, width: float, height: float, *, css: str, title: str = "", fill: str = ""
) -> str:
    """Return a rectangle; browsers show `title` when the pointer rests on it."""
    colour = f' fill="{fill}"' if fill else ""
    shape = (
        f'<rect class="{css}" x="{number(x)}" y="{number(y)}" width="{number(width)}"'
        f' height="{number(height)}"{colour}'
    )
    return f"{shape}><title>{_words(title)}</title></rect>" if title else f"{shape}/>"


def line(x1: float, y1: float, x2: float, y2: float, *, css: str, title: str = "") -> str:
    """Return a straight line."""
    shape = (
        f'<line class="{css}" x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}"'
        f' y2="{number(y2)}"'
    )
    return f"{shape}><title>{_words(title)}</title></line>" if title else f"{shape}/>"


def text(x: float, y: float, words: str, *, css: str, anchor: str = "start") -> str:
    """Return words at a position."""
    return (
        f'<text class="{css}" x="{number(x)}" y="{number(y)}" text-anchor="{anchor}">'
        f"{_words(words)}</text>"
    )


def path(points: Iterable[tuple[float, float] | None], *, css: str) -> str:
    """Return a line through points; None interrupts it."""
    commands = []
    begin = True
    for point in points:
        if point is None:
            begin = True
            continue
        commands.append(f"{'M' if begin else 'L'}{number(point[0])} {number(point[1])}")
        begin = False
    return f'<path class="{css}" d="{"".join(commands)}"/>'


def svg(width: float, height: float, parts: Sequence[str], *, label: str) -> str:
    """Return a drawing; screen readers read `label`."""
    return (
        f'<svg viewBox="0 0 {number(width)} {number(height)}" width="{number(width)}"'
        f' height="{number(height)}" role="img" aria-label="{_words(label)}">'
        f"{''.join(parts)}</svg>"
    )


def _words(text: str) -> str:
    return escape(printable(text), quote=True)


def ticks_ms(low_ms: float, high_ms: float, most: int) -> list[int]:
    """Return at most `most` round times between two times."""
    span = max(high_ms - low_ms, 1)
    step = next((step for step in _STEPS_MS if span / step <= most), _STEPS_MS[-1])
    first = -(-int(low_ms) // step) * step
    return list(range(first, int(high_ms) + 1, step))


def clock(at_ms: float, span_ms: float) -> str:
    """Return the label of a time on an axis, as short as the axis' length allows."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    if span_ms > 3 * _DAY_MS:
        return f"{at:%d %b}"
    if span_ms > _DAY_MS:
        return f"{at:%d %b %H:%M}"
    if span_ms > 10 * 60 * _SECOND_MS:
        return f"{at:%H:%M}"
    if span_ms > 10 * _SECOND_MS:
        return f"{at:%H:%M:%S}"
    return f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}"
