"""The ownership strips of a run as one small SVG file, for a document."""

from html import escape
from itertools import count as count_from

from coterie.lab.entries import Interval
from coterie.lab.outcome import RunOutcome
from coterie.lab.strips import end_of_interest_us, partition_count, shown_partitions

_WIDTH, _LEFT, _ROW, _HEAD, _FOOT, _AXIS = 760, 10, 11, 26, 46, 20
# The axis has at most so many marks after the first one.
_MAX_MARKS = 6
_READERS = ("#8fb4e3", "#9fd3b0", "#d6c6ee", "#b9c98a", "#8ccfd1", "#e5bfd3", "#a9b3c6", "#cbb59a")
_GAP = "#c8362c"


def picture(title: str, outcomes: list[RunOutcome]) -> str:
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
        shown = shown_partitions(outcome)
        parts += [
            _bar(each, top + shown.index(each.partition) * _ROW, end_us, colours)
            for each in sorted(_joined(outcome), key=lambda each: (each.owner is None, each))
            if each.partition in shown and each.from_us < end_us
        ]
        top += len(shown) * _ROW
    for mark_us in _marks_us(end_us):
        x = _LEFT + (_WIDTH - 2 * _LEFT) * mark_us / end_us
        anchor = "middle" if mark_us else "start"
        parts.append(f'<path d="M{x:.1f} {top}v4" stroke="#1d2430"/>')
        parts.append(_text(x, top + 16, f"{mark_us / 1e6:g} s", anchor=anchor))
    note = f"A line is {_line_of(outcomes)}, a colour is the member that has it, red is nobody."
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


def _line_of(outcomes: list[RunOutcome]) -> str:
    """Return what a line of the picture is."""
    is_connect = all(outcome.machine.startswith("connect") for outcome in outcomes)
    name = "a task" if is_connect else "a partition"
    most = max(outcomes, key=partition_count)
    count, shown = partition_count(most), len(shown_partitions(most))
    return name if shown == count else f"{name} ({shown} of {count} are drawn)"


def _joined(outcome: RunOutcome) -> list[Interval]:
    """Return the intervals, those of one colour that follow each other as one."""
    found: list[Interval] = []
    for each in sorted(outcome.intervals, key=lambda each: (each.partition, each.from_us)):
        last = found[-1] if found else None
        if (
            last is not None
            and (last.partition, last.owner) == (each.partition, each.owner)
            and last.to_us == each.from_us
        ):
            found[-1] = last._replace(to_us=each.to_us)
        else:
            found.append(each)
    return found


def _marks_us(end_us: int) -> range:
    """Return round moments for the axis."""
    step_us = next(
        step
        for exponent in count_from(3)
        for step in (10**exponent, 2 * 10**exponent, 5 * 10**exponent)
        if step * _MAX_MARKS >= end_us
    )
    return range(0, end_us, step_us)


def _bar(interval: Interval, y: int, end_us: int, colours: dict[str, str]) -> str:
    scale = (_WIDTH - 2 * _LEFT) / end_us
    x = _LEFT + interval.from_us * scale
    width = max(1.0, (min(interval.to_us, end_us) - interval.from_us) * scale)
    colour = colours[_pod(interval)] if interval.owner else _GAP
    return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 2}" fill="{colour}"/>'


def _pod(interval: Interval) -> str:
    return (interval.owner or "").split(".")[0]


def _text(x: float, y: int, text: str, weight: str = "normal", anchor: str = "start") -> str:
    return (
        f'<text x="{x:g}" y="{y}" font-weight="{weight}" text-anchor="{anchor}" fill="#1d2430">'
        f"{escape(text)}</text>"
    )
