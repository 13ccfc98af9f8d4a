"""Lag and commits over time, summed up over the partitions of a group, as two small line charts."""

from collections.abc import Callable, Sequence

from coterie.pipeline.report.content import GroupContent, Row
from coterie.pipeline.report.svg import Scale, clock, line, path, svg, text, ticks_ms

_WIDTH, _HEIGHT = 530, 150
_LEFT, _TOP, _BOTTOM = 62, 24, 24
_MINUTE_MS = 60_000

# By minute: the value, or None where it is not known.
Series = dict[int, float | None]


def commits_chart(group: GroupContent, span_ms: tuple[int, int]) -> str:
    """Messages a second that the group moved on by."""
    series = _summed(group.tables["commit_velocity_1m"], lambda row: row["advance"] / 60)
    return _chart("Progress, messages/s", series, span_ms, missing_is_zero=True)


def lag_chart(group: GroupContent, span_ms: tuple[int, int]) -> str:
    """Messages between the group and the ends of its partitions; unknown is a gap, never zero."""
    series = _summed(group.tables["lag_1m"], lambda row: row["lag"])
    return _chart("Lag, messages", series, span_ms, missing_is_zero=False)


def _summed(rows: Sequence[Row], value: Callable[[Row], float | None]) -> Series:
    """The sum by minute; one unknown partition makes the sum unknown."""
    sums: Series = {}
    for row in rows:
        minute = row["window_start_ts"]
        found = value(row)
        before = sums.get(minute, 0)
        sums[minute] = None if found is None or before is None else before + found
    return sums


def _chart(title: str, series: Series, span_ms: tuple[int, int], *, missing_is_zero: bool) -> str:
    known = [value for value in series.values() if value is not None]
    parts = [text(0, 12, title, css="chart-title")]
    if not known:
        parts.append(text(_LEFT, _HEIGHT / 2, "not known", css="tick"))
        return svg(_WIDTH, _HEIGHT, parts, label=f"{title}: not known")
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
    for minute in sorted(series):
        value = series[minute]
        if before is not None and minute - before > _MINUTE_MS:
            # Minutes without commits: nothing was read, or nothing is known.
            zero = y.at(0)
            gap = [(x.at(before + _MINUTE_MS), zero), (x.at(minute - _MINUTE_MS), zero)]
            points += gap if missing_is_zero else [None]
        points.append(None if value is None else (x.at(minute), y.at(value)))
        before = minute
    parts.append(path(points, css="curve"))
    return svg(_WIDTH, _HEIGHT, parts, label=title)


def _short(value: float) -> str:
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.1f} {letter}"
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"
