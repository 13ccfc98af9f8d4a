"""The ownership strips of a run as one small SVG file, for a document."""

from html import escape

from coterie.lab.entries import Interval
from coterie.lab.outcome import Outcome
from coterie.lab.strips import end_of_interest_us

_WIDTH, _LEFT, _ROW, _HEAD, _FOOT, _AXIS = 760, 10, 11, 26, 46, 20
# At most so many partitions of each machine are drawn.
_MAX_ROWS = 12
_READERS = ("#8fb4e3", "#9fd3b0", "#d6c6ee", "#b9c98a", "#8ccfd1", "#e5bfd3", "#a9b3c6", "#cbb59a")
_GAP = "#c8362c"


def picture(title: str, outcomes: list[Outcome]) -> str:
    """Return the strips of some machines on one time axis.

    Args:
        title: what happens.
        outcomes: runs of one scenario.
    """
    end_us = max(end_of_interest_us(outcome) for outcome in outcomes)
    pods = sorted({_pod(each) for out in outcomes for each in out.intervals if each.owner})
    colours = {pod: _READERS[index % len(_READERS)] for index, pod in enumerate(pods)}
    parts = [_text(_LEFT, 18, title, "bold")]
    top = 30
    for outcome in outcomes:
        unowned = outcome.metrics["unowned"] or 0.0
        heading = f"{outcome.machine}: {unowned:,.1f} partition-seconds without a reader"
        parts.append(_text(_LEFT, top + 17, heading))
        top += _HEAD
        rows = min(_MAX_ROWS, 1 + max(each.partition for each in outcome.intervals))
        parts += [
            _bar(each, top, end_us, colours)
            for each in sorted(outcome.intervals, key=lambda each: (each.owner is None, each))
            if each.partition < rows and each.from_us < end_us
        ]
        top += rows * _ROW
    for part in range(5):
        anchor = {0: "start", 4: "end"}.get(part, "middle")
        x = _LEFT + (_WIDTH - 2 * _LEFT) * part / 4
        parts.append(_text(x, top + 16, f"{end_us * part / 4e6:.3g} s", anchor=anchor))
    note = "A line is a partition, a colour is the member that reads it, red is nobody."
    parts.append(_text(_LEFT, top + _AXIS + 18, note))
    height = top + _FOOT
    size = f'width="{_WIDTH}" height="{height}"'
    font = 'font-family="sans-serif" font-size="13"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_WIDTH} {height}" {font}>',
        f'<rect {size} fill="#ffffff"/>',
        *parts,
        "</svg>",
        "",
    ]
    return "\n".join(lines)


def _bar(interval: Interval, top: int, end_us: int, colours: dict[str, str]) -> str:
    scale = (_WIDTH - 2 * _LEFT) / end_us
    x = _LEFT + interval.from_us * scale
    width = max(1.0, (min(interval.to_us, end_us) - interval.from_us) * scale)
    colour = colours[_pod(interval)] if interval.owner else _GAP
    y = top + interval.partition * _ROW
    return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 2}" fill="{colour}"/>'


def _pod(interval: Interval) -> str:
    return (interval.owner or "").split(".")[0]


def _text(x: float, y: int, text: str, weight: str = "normal", anchor: str = "start") -> str:
    return (
        f'<text x="{x:g}" y="{y}" font-weight="{weight}" text-anchor="{anchor}" fill="#1d2430">'
        f"{escape(text)}</text>"
    )
