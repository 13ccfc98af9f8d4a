"""Lag and progress over time, summed over the partitions of a group, as two small line charts.

Over a long time each step of a chart covers several minutes. It shows the mean progress and the
highest lag of those minutes.
"""

from collections.abc import Sequence

from coterie.pipeline.report.content import GroupContent, Row
from coterie.pipeline.report.svg import Scale, clock, line, path, svg, text, ticks_ms
from coterie.pipeline.report.words import UNKNOWN

_WIDTH, _HEIGHT = 530, 150
_LEFT, _TOP, _BOTTOM = 62, 24, 24
_MINUTE_MS = 60_000
# A step is at least this many pixels wide.
_STEP_PIXELS = 2

# The value of each step; None where it is unknown.
Series = dict[int, float | None]


def progress_chart(group: GroupContent, span_ms: tuple[int, int]) -> str:
    """Draw the messages per second by which the group advanced. No commits are no progress."""
    step_ms = _step_ms(span_ms)
    values = _by_step(group.tables["progress"], "advance", step_ms)
    minutes = step_ms / _MINUTE_MS
    series: Series = {at: sum(found) / 60 / minutes for at, (found, _) in values.items()}
    for at in range(_floor(span_ms[0], step_ms), span_ms[1], step_ms) if series else ():
        series.setdefault(at, 0.0)
    return _chart("Progress, messages/s", series, span_ms, step_ms)


def lag_chart(group: GroupContent, span_ms: tuple[int, int]) -> str:
    """Draw the messages between the group and the ends of its logs. An unknown lag is a gap."""
    step_ms = _step_ms(span_ms)
    values = _by_step(group.tables["lag"], "lag", step_ms)
    series: Series = {
        at: None if unknown or not found else max(found) for at, (found, unknown) in values.items()
    }
    return _chart("Lag, messages", series, span_ms, step_ms)


def _step_ms(span_ms: tuple[int, int]) -> int:
    pixels = (_WIDTH - _LEFT) / _STEP_PIXELS
    minutes = -(-(span_ms[1] - span_ms[0]) // int(pixels * _MINUTE_MS))
    return max(1, minutes) * _MINUTE_MS


def _floor(at_ms: int, step_ms: int) -> int:
    return at_ms // step_ms * step_ms


def _by_step(rows: Sequence[Row], column: str, step_ms: int) -> dict[int, tuple[list[float], int]]:
    """Return by step the known values and the number of unknown ones."""
    found: dict[int, tuple[list[float], int]] = {}
    for row in rows:
        at = _floor(row["window_start_ts"], step_ms)
        values, unknown = found.get(at, ([], 0))
        value = row[column]
        if value is None:
            unknown += 1
        else:
            values.append(value)
        found[at] = values, unknown
    return found


def _chart(title: str, series: Series, span_ms: tuple[int, int], step_ms: int) -> str:
    known = [value for value in series.values() if value is not None]
    parts = [text(0, 12, title, css="chart-title")]
    if not known:
        parts.append(text(_LEFT, _HEIGHT / 2, UNKNOWN, css="tick"))
        return svg(_WIDTH, _HEIGHT, parts, label=f"{title}: {UNKNOWN}")
    low, high = min(0, *known), max(1, *known)
    x = Scale(*span_ms, _LEFT, _WIDTH - 8)
    y = Scale(low, high, _HEIGHT - _BOTTOM, _TOP)
    for level in (low, (low + high) / 2, high):
        parts.append(line(_LEFT, y.at(level), _WIDTH - 8, y.at(level), css="grid"))
        parts.append(text(_LEFT - 6, y.at(level) + 4, _short(level), css="tick", anchor="end"))
    for at_ms in ticks_ms(*span_ms, 5):
        words = clock(at_ms, span_ms[1] - span_ms[0])
        parts.append(text(x.at(at_ms), _HEIGHT - 6, words, css="tick", anchor="middle"))
    points: list[tuple[float, float] | None] = []
    before: int | None = None
    for at in sorted(series):
        value = series[at]
        if before is not None and at - before > step_ms:
            points.append(None)
        if value is None:
            points.append(None)
        else:
            # A level line over the step, so that a single value is visible too.
            points += [(x.at(at), y.at(value)), (x.at(at + step_ms), y.at(value))]
        before = at
    parts.append(path(points, css="curve"))
    last = next(value for at in sorted(series, reverse=True) if (value := series[at]) is not None)
    label = f"{title}: from {_short(min(known))} to {_short(max(known))}, {_short(last)} at the end"
    return svg(_WIDTH, _HEIGHT, parts, label=label)


def _short(value: float) -> str:
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.1f} {letter}"
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"
